/* Spans, step sums and meta.json of a history: see parts.h. */
#include "store/history/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/proc.h"

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

/* ---- meta.json ------------------------------------------------------------------------------- */

static json_t *meta_new(void)
{
    json_t *meta = json_pack("{s:[], s:{}}", "layouts", "superseded");
    if (ROW_BYTES != ROW_BYTES_FIRST) {
        json_object_set_new(meta, "row_bytes", json_integer(ROW_BYTES));
    }
    return meta;
}

int history_meta_row_bytes(const json_t *meta)
{
    const json_t *bytes = json_object_get(meta, "row_bytes");
    return bytes ? (int)json_integer_value(bytes) : ROW_BYTES_FIRST;
}

/* Can this version read the rows? */
static int check_format(const json_t *meta, const char *path, struct err *e)
{
    int bytes = history_meta_row_bytes(meta);
    if (bytes > ROW_BYTES && bytes <= ROW_BYTES_MOST) {
        err_set(e, ERR_DATA,
                "cannot read history '%s': a newer version of Evenstep wrote it, with rows of %d "
                "bytes where this one knows %d",
                path, bytes, (int)ROW_BYTES);
        err_hint(e, "update Evenstep to at least the version that ran the job");
        return -ERR_DATA;
    }
    return bytes >= ROW_BYTES_FIRST && bytes <= ROW_BYTES
               ? 0
               : err_set(e, ERR_DATA, "cannot read history '%s': its rows have %d bytes", path,
                         bytes);
}

json_t *history_meta_load(const char *dir, struct err *e)
{
    char path[HISTORY_PATH + 32];
    snprintf(path, sizeof path, "%s/meta.json", dir);
    if (access(path, F_OK)) {
        return meta_new();
    }
    json_t *meta = jsonx_load(path, HISTORY_META_BYTES, e);
    if (!meta) {
        return NULL;
    }
    if (!json_is_array(json_object_get(meta, "layouts")) ||
        !json_is_object(json_object_get(meta, "superseded")) ||
        history_meta_ranks(meta) > HISTORY_RANKS) {
        err_set(e, ERR_DATA, "cannot read history '%s': its layouts are not as expected", path);
        json_decref(meta);
        return NULL;
    }
    if (check_format(meta, path, e) < 0) {
        json_decref(meta);
        return NULL;
    }
    return meta;
}

int history_meta_save(const char *dir, const json_t *meta, struct err *e)
{
    char path[HISTORY_PATH + 32];
    size_t len = 0;
    snprintf(path, sizeof path, "%s/meta.json", dir);
    char *text = jsonx_dump(meta, false, &len);
    int rc = text ? proc_write_file(path, text, len, 0644, e) : no_memory(e);
    free(text);
    return rc;
}

int history_meta_dead(const json_t *meta, const char *track, struct spans *out, struct err *e)
{
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(json_object_get(meta, "superseded"), track), i, pair) {
        json_int_t a = json_integer_value(json_array_get(pair, 0)),
                   b = json_integer_value(json_array_get(pair, 1));
        if (a < 0 || a >= b || (out->n && a < out->items[out->n - 1].b)) {
            return err_set(e, ERR_DATA, "the history's list of superseded rows of '%s' is damaged",
                           track);
        }
        int rc = spans_add(out, a, b, e);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int history_meta_set_dead(json_t *meta, const char *track, const struct spans *dead, struct err *e)
{
    json_t *list = json_array();
    for (int i = 0; i < dead->n; i++) {
        json_array_append_new(
            list, json_pack("[I, I]", (json_int_t)dead->items[i].a, (json_int_t)dead->items[i].b));
    }
    return json_object_set_new(json_object_get(meta, "superseded"), track, list) ? no_memory(e) : 0;
}

int history_meta_ranks(const json_t *meta)
{
    size_t i, most = 0;
    json_t *layout;
    json_array_foreach(json_object_get(meta, "layouts"), i, layout) {
        size_t n = json_array_size(json_object_get(layout, "nodes"));
        most = n > most ? n : most;
    }
    return most > HISTORY_RANKS ? HISTORY_RANKS + 1 : (int)most;
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
    int at = m->n; /* rows come nearly in order: scan from the end, then bisect */
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
