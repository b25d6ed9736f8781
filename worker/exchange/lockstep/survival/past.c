/* See past.h. */
#include "worker/exchange/lockstep/survival/past.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

struct past *past_new(struct lockstep *l, struct err *e)
{
    struct past *p = calloc(1, sizeof *p);
    if (!p) {
        err_set(e, ERR_MEMORY, "cannot note the steps of workers: memory ran out");
        return NULL;
    }
    p->l = l;
    return p;
}

void past_free(struct past *p)
{
    if (p) {
        free(p->steps);
        free(p->rows);
        free(p);
    }
}

void past_forget(struct past *p)
{
    if (p) {
        p->n = p->n_rows = 0;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static size_t workers(const struct past *p)
{
    return (size_t)p->l->env->comm->workers;
}

/* Room for one more of *all, which are `size` bytes each. */
static int grow(void **all, int n, int *room, size_t size, struct err *e)
{
    if (n < *room) {
        return 0;
    }
    int more = *room > 0 ? 2 * *room : FIRST_ROOM;
    void *larger = realloc(*all, (size_t)more * size);
    if (!larger) {
        return err_set(e, ERR_MEMORY, "cannot note the steps of workers: memory ran out");
    }
    *all = larger;
    *room = more;
    return 0;
}

static int64_t *row_of(const struct past *p, int i)
{
    return p->rows + 2 * workers(p) * (size_t)i;
}

/* Writes the parts of the current step to a row. */
static void write_row(const struct past *p, int64_t *row)
{
    const struct advance *a = &p->l->advance;
    size_t W = workers(p), at = (size_t)a->first * W;
    memcpy(row, a->counts + at, W * sizeof *row);
    for (size_t i = 0; i < W; i++) {
        row[W + i] = a->starts[at + i] - a->wholes[a->first].start;
    }
}

int past_add(struct past *p, struct err *e)
{
    const struct advance *a = p ? &p->l->advance : NULL;
    void *steps = p ? p->steps : NULL, *rows = p ? p->rows : NULL;
    if (!p) {
        return 0;
    }
    size_t size = 2 * workers(p) * sizeof *p->rows;
    int rc = grow(&steps, p->n, &p->room, sizeof *p->steps, e);
    p->steps = steps;
    if (rc < 0) {
        return rc;
    }
    rc = grow(&rows, p->n_rows, &p->rows_room, size, e);
    p->rows = rows;
    if (rc < 0) {
        return rc;
    }
    p->first = p->n == 0 ? p->l->at.step : p->first;
    write_row(p, row_of(p, p->n_rows));
    bool alike = p->n_rows > 0 && memcmp(row_of(p, p->n_rows), row_of(p, p->n_rows - 1), size) == 0;
    p->n_rows += !alike;
    p->steps[p->n++] =
        (struct past_step){a->wholes[a->first].epoch, a->wholes[a->first].start, p->n_rows - 1};
    return 0;
}

void past_forget_until(struct past *p, int64_t step)
{
    int64_t n = p->n > 0 && step > p->first ? step - p->first : 0;
    if (n >= p->n) {
        past_forget(p);
        return;
    }
    int row = p->steps[n].row;
    p->n -= (int)n;
    p->n_rows -= row;
    p->first += n;
    memmove(p->steps, p->steps + n, (size_t)p->n * sizeof *p->steps);
    memmove(p->rows, p->rows + 2 * workers(p) * (size_t)row,
            (size_t)p->n_rows * 2 * workers(p) * sizeof *p->rows);
    for (int i = 0; i < p->n; i++) {
        p->steps[i].row -= row;
    }
}

int past_list(const struct past *p, const int *lost, const int64_t *held, int n, struct slice **out,
              int *n_out, struct err *e)
{
    size_t W = workers(p);
    *n_out = 0;
    *out = calloc((size_t)p->n * (size_t)n + 1, sizeof **out);
    if (!*out) {
        return err_set(e, ERR_MEMORY, "cannot take a lost worker's steps: memory ran out");
    }
    for (int i = 0; i < p->n; i++) {
        const int64_t *row = row_of(p, p->steps[i].row);
        for (int k = 0; k < n; k++) {
            size_t rank = (size_t)lost[k];
            if (row[rank] > 0 && p->first + i + 1 > held[k]) {
                (*out)[(*n_out)++] =
                    (struct slice){p->steps[i].epoch, p->steps[i].start + row[W + rank], row[rank]};
            }
        }
    }
    return 0;
}

/* ---- as bytes for a newcomer: first, n, n_rows, steps, rows ---------------------------------- */

static size_t head_bytes(void)
{
    return sizeof(int64_t) + 2 * sizeof(int);
}

static size_t row_bytes(const struct past *p)
{
    return 2 * workers(p) * sizeof *p->rows;
}

int past_write(const struct past *p, struct own_state *out, struct err *e)
{
    size_t steps = (size_t)p->n * sizeof *p->steps, rows = (size_t)p->n_rows * row_bytes(p);
    int rc = own_state_alloc(out, head_bytes() + steps + rows, e);
    if (rc < 0) {
        return rc;
    }
    uint8_t *at = out->bytes;
    memcpy(at, &p->first, sizeof p->first);
    memcpy(at += sizeof p->first, &p->n, sizeof p->n);
    memcpy(at += sizeof p->n, &p->n_rows, sizeof p->n_rows);
    at += sizeof p->n_rows;
    if (p->n > 0) {
        memcpy(at, p->steps, steps);
        memcpy(at + steps, p->rows, rows);
    }
    return 0;
}

static int read_head(struct past *p, const struct own_state *from, struct err *e)
{
    const uint8_t *at = from->bytes;
    bool fits = from->n >= head_bytes();
    if (fits) {
        memcpy(&p->first, at, sizeof p->first);
        memcpy(&p->n, at += sizeof p->first, sizeof p->n);
        memcpy(&p->n_rows, at + sizeof p->n, sizeof p->n_rows);
        fits = p->n >= 0 && p->n_rows >= 0 && p->n_rows <= p->n &&
               from->n == head_bytes() + (size_t)p->n * sizeof *p->steps +
                              (size_t)p->n_rows * row_bytes(p);
    }
    for (int i = 0; i < p->n && fits; i++) {
        struct past_step step;
        memcpy(&step, from->bytes + head_bytes() + (size_t)i * sizeof step, sizeof step);
        fits = step.row >= 0 && step.row < p->n_rows;
    }
    return fits ? 0
                : err_set(e, ERR_PEER, "the steps that another worker tells are not of this job");
}

int past_read(struct past *p, const struct own_state *from, struct err *e)
{
    int rc = read_head(p, from, e);
    if (rc < 0 || p->n == 0) {
        p->n = p->n_rows = 0;
        return rc;
    }
    size_t steps = (size_t)p->n * sizeof *p->steps, rows = (size_t)p->n_rows * row_bytes(p);
    p->steps = realloc(p->steps, steps);
    p->rows = realloc(p->rows, rows);
    if (!p->steps || !p->rows) {
        p->n = p->n_rows = 0;
        return err_set(e, ERR_MEMORY, "cannot take over steps: memory ran out");
    }
    memcpy(p->steps, from->bytes + head_bytes(), steps);
    memcpy(p->rows, from->bytes + head_bytes() + steps, rows);
    p->room = p->n;
    p->rows_room = p->n_rows;
    return 0;
}

/* ---- counts ---------------------------------------------------------------------------------- */

void past_count(const struct past *p, int rank, int64_t held, struct tally *until,
                struct tally *behind)
{
    *until = *behind = (struct tally){0};
    for (int i = 0; i < p->n; i++) {
        int64_t samples = row_of(p, p->steps[i].row)[rank];
        struct tally *to = p->first + i + 1 > held ? behind : until;
        to->samples += samples;
        to->steps += samples > 0;
    }
}
