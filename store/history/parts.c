/* Spans and step sums of a history: see parts.h. */
#include "store/history/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more item; the array may move. */
static void *grow(void *items, int n, int *size, size_t bytes)
{
    if (n < *size) {
        return items;
    }
    int wanted = *size ? 2 * *size : 16;
    void *more = realloc(items, (size_t)wanted * bytes);
    if (more) {
        *size = wanted;
    }
    return more;
}

static int no_memory(struct err *e)
{
    return err_set(e, ERR_MEMORY, "cannot keep the history: memory ran out");
}

int history_dir(char out[HISTORY_PATH], const char *job_dir, struct err *e)
{
    if (strlen(job_dir) + 16 > HISTORY_PATH) {
        return err_set(e, ERR_IO, "cannot read the history in '%.200s': the path is too long",
                       job_dir);
    }
    snprintf(out, HISTORY_PATH, "%s/history", job_dir);
    return 0;
}

/* ---- spans ----------------------------------------------------------------------------------- */

void spans_release(struct spans *s)
{
    free(s->items);
    *s = (struct spans){0};
}

int spans_add(struct spans *s, int64_t a, int64_t b, struct err *e)
{
    if (a >= b) {
        return 0;
    }
    if (s->n && s->items[s->n - 1].b >= a) {
        struct span *last = &s->items[s->n - 1];
        last->b = b > last->b ? b : last->b;
        return 0;
    }
    struct span *items = grow(s->items, s->n, &s->size, sizeof *items);
    if (!items) {
        return no_memory(e);
    }
    s->items = items;
    s->items[s->n++] = (struct span){a, b};
    return 0;
}

int spans_union(struct spans *s, const struct spans *more, struct err *e)
{
    struct spans out = {0};
    int rc = 0;
    for (int i = 0, j = 0; rc == 0 && (i < s->n || j < more->n);) {
        const struct span *next = j >= more->n || (i < s->n && s->items[i].a <= more->items[j].a)
                                      ? &s->items[i++]
                                      : &more->items[j++];
        rc = spans_add(&out, next->a, next->b, e);
    }
    if (rc < 0) {
        spans_release(&out);
        return rc;
    }
    spans_release(s);
    *s = out;
    return 0;
}

int spans_alive(const struct spans *dead, int64_t a, int64_t b, struct spans *out, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < dead->n && rc == 0 && a < b; i++) {
        if (dead->items[i].b > a) {
            rc = spans_add(out, a, dead->items[i].a < b ? dead->items[i].a : b, e);
            a = dead->items[i].b;
        }
    }
    return rc == 0 ? spans_add(out, a, b, e) : rc;
}

int64_t spans_total(const struct spans *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->n; i++) {
        n += s->items[i].b - s->items[i].a;
    }
    return n;
}

/* ---- steps ----------------------------------------------------------------------------------- */

void step_merge_release(struct step_merge *m)
{
    free(m->items);
    *m = (struct step_merge){0};
}

static void merge_row(struct step_sum *s, const struct row *row)
{
    double samples = row->batch > 0 ? row->batch : 0, numbers[ROW_COLUMNS];
    row_to_numbers(row, numbers);
    s->samples += samples;
    for (int c = 0; c < ROW_COLUMNS; c++) {
        double *sum = &s->numbers[c], v = numbers[c];
        switch (row_columns[c].merged) {
        case ROW_SAME:
            *sum = v;
            break;
        case ROW_COUNT:
            *sum += 1;
            break;
        case ROW_SUM:
            *sum += v > 0 ? v : 0;
            break;
        case ROW_LARGEST:
            *sum = v > *sum ? v : *sum;
            break;
        case ROW_MEAN:
            *sum += samples * v;
            break;
        case ROW_NEVER:
            break;
        }
    }
}

int step_merge_add(struct step_merge *m, const struct row *row, struct err *e)
{
    int at = m->n; /* rows come nearly in order, so it scans from the end before it bisects */
    if (at && m->items[at - 1].step >= row->step) {
        int low = 0;
        at--;
        while (low < at) {
            int mid = low + (at - low) / 2;
            if (m->items[mid].step < row->step) {
                low = mid + 1;
            } else {
                at = mid;
            }
        }
    }
    if (at == m->n || m->items[at].step != row->step) {
        struct step_sum *items = grow(m->items, m->n, &m->size, sizeof *items);
        if (!items) {
            return no_memory(e);
        }
        m->items = items;
        memmove(&items[at + 1], &items[at], (size_t)(m->n - at) * sizeof *items);
        memset(&items[at], 0, sizeof *items);
        items[at].step = row->step;
        m->n++;
    }
    merge_row(&m->items[at], row);
    return 0;
}

void step_merge_drop(struct step_merge *m, int n)
{
    if (n > 0) {
        memmove(m->items, m->items + n, (size_t)(m->n - n) * sizeof *m->items);
        m->n -= n;
    }
}

struct row step_merge_row(const struct step_sum *s)
{
    double samples = s->samples > 0 ? s->samples : 1, numbers[ROW_COLUMNS];
    struct row row;
    for (int c = 0; c < ROW_COLUMNS; c++) {
        numbers[c] = s->numbers[c] / (row_columns[c].merged == ROW_MEAN ? samples : 1);
    }
    row_from_numbers(numbers, &row);
    row.rank = -1;
    return row;
}
