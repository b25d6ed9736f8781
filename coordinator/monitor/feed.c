/* See feed.h. */
#include "coordinator/monitor/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_ENTRIES = 200 };

int feed_open(struct feed *f, const struct feed_config *c, struct err *e)
{
    *f = (struct feed){.store = c->store,
                       .job = c->job,
                       .workers = c->workers,
                       .ranks = c->ranks,
                       .on_row = c->on_row,
                       .ctx = c->ctx};
    f->positions = calloc((size_t)c->ranks + 1, sizeof *f->positions);
    f->tails = calloc((size_t)c->ranks + 1, sizeof *f->tails);
    if (!f->positions || !f->tails) {
        return err_set(e, ERR_MEMORY, "cannot open the monitor of job '%s': memory ran out",
                       c->job);
    }
    snprintf(f->facts, sizeof f->facts, "0-0");
    for (int r = 0; r < c->ranks; r++) {
        snprintf(f->positions[r].at, sizeof f->positions[r].at, "0-0");
        snprintf(f->positions[r].safe, sizeof f->positions[r].safe, "0-0");
        f->tails[r] = (struct store_tail){r, f->positions[r].at};
    }
    f->history = history_open(c->job_dir, c->workers, c->names, e);
    return f->history ? 0 : -(e && e->code ? (int)e->code : ERR_IO);
}

void feed_close(struct feed *f)
{
    if (f->history) {
        history_close(f->history);
    }
    free(f->positions);
    free(f->tails);
    memset(f, 0, sizeof *f);
}

static int on_rows(void *ctx, int rank, const struct row *rows, int n, struct err *e)
{
    struct feed *f = ctx;
    int rc = 0;
    (void)rank; /* the rows say */
    for (int i = 0; i < n && rc >= 0; i++) {
        if (rows[i].rank < 0 || rows[i].rank >= f->workers) {
            continue;
        }
        rc = history_append(f->history, &rows[i], 1, e);
        if (rc >= 0) {
            f->on_row(f->ctx, &rows[i]);
        }
    }
    return rc;
}

int feed_read(struct feed *f, int reads, bool *facts, struct err *e)
{
    int n = READ_ENTRIES;
    const char *facts_at = facts ? f->facts : NULL;
    for (int i = 0; n == READ_ENTRIES && i < reads; i++) {
        n = store_rows_read(f->store, f->job, f->tails, f->ranks, READ_ENTRIES, facts_at, facts,
                            on_rows, f, e);
    }
    return n < 0 ? n : 0;
}

int feed_settle(struct feed *f, struct err *e)
{
    int rc = history_flush(f->history, e);
    for (int r = 0; rc >= 0 && r < f->ranks; r++) {
        struct feed_place *p = &f->positions[r];
        p->untrimmed |= strcmp(p->safe, p->at) != 0;
        memcpy(p->safe, p->at, sizeof p->safe);
    }
    return rc;
}

int feed_trim(struct feed *f, struct err *e)
{
    struct store_tail *safe = calloc((size_t)f->ranks + 1, sizeof *safe);
    int n = 0;
    if (!safe) {
        return err_set(e, ERR_MEMORY, "cannot trim the rows of job '%s': memory ran out", f->job);
    }
    for (int r = 0; r < f->ranks; r++) {
        if (f->positions[r].untrimmed) {
            safe[n++] = (struct store_tail){r, f->positions[r].safe};
        }
    }
    int rc = n > 0 ? store_rows_trim(f->store, f->job, safe, n, e) : 0;
    for (int i = 0; rc >= 0 && i < n; i++) {
        f->positions[safe[i].rank].untrimmed = false;
    }
    free(safe);
    return rc;
}

void feed_note(const struct feed *f, struct bookmark *out)
{
    snprintf(out->facts, sizeof out->facts, "%s", f->facts);
    for (int r = 0; r < f->ranks && r < out->ranks; r++) {
        snprintf(out->rows[r], sizeof out->rows[r], "%s", f->positions[r].safe);
    }
}

void feed_resume(struct feed *f, const struct bookmark *from)
{
    snprintf(f->facts, sizeof f->facts, "%s", from->facts);
    for (int r = 0; r < f->ranks && r < from->ranks; r++) {
        snprintf(f->positions[r].at, sizeof f->positions[r].at, "%s", from->rows[r]);
        snprintf(f->positions[r].safe, sizeof f->positions[r].safe, "%s", from->rows[r]);
    }
}
