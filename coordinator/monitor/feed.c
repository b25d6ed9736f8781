/* See feed.h. */
#include "coordinator/monitor/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_ENTRIES = 200, /* of a rank, by one request at most */
    READ_ROWS = 10000,  /* of all ranks, about */
    ENTRY_ROWS = 512    /* in a worker's entry, at most (worker/pulse/pulse.c) */
};

int feed_open(struct feed *f, const struct feed_config *c, struct err *e)
{
    *f = (struct feed){.store = c->store,
                       .job = c->job,
                       .workers = c->workers,
                       .ranks = c->ranks,
                       .numbers_of = c->attempt,
                       .seals = c->seals,
                       .on_row = c->on_row,
                       .on_dropped = c->on_dropped,
                       .ctx = c->ctx};
    f->positions = calloc((size_t)c->ranks + 1, sizeof *f->positions);
    f->tails = calloc((size_t)c->ranks + 1, sizeof *f->tails);
    f->numbers = calloc((size_t)c->ranks + 1, sizeof *f->numbers);
    f->before = calloc((size_t)c->ranks + 1, sizeof *f->before);
    if (!f->positions || !f->tails || !f->numbers || !f->before) {
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
    free(f->numbers);
    free(f->before);
    memset(f, 0, sizeof *f);
}

/* What is wrong with an entry, or NULL. It must belong to one attempt and one rank, and be sealed
 * with that rank's key. */
static const char *wrong_with(const struct feed *f, const struct store_rows *entry)
{
    struct sign_key seal, sum;
    int attempt = entry->rows[0].attempt;
    for (int i = 0; i < entry->n; i++) {
        if (entry->rows[i].rank != entry->rank || entry->rows[i].attempt != attempt) {
            return "its rows are of several ranks or attempts";
        }
    }
    const struct sign_key *key = seals_of_rows(f->seals, attempt, entry->rank);
    if (!key) {
        return "that attempt had no such rank";
    }
    sign_bytes(key, entry->packed, entry->bytes, &sum);
    return sign_unhex(entry->seal, &seal, NULL) == 0 && sign_same(&seal, &sum)
               ? NULL
               : "it is not sealed with the rank's key";
}

static int on_rows(void *ctx, const struct store_rows *entry, struct err *e)
{
    struct feed *f = ctx;
    const char *why = wrong_with(f, entry);
    int rc = 0;
    f->taken += entry->n;
    f->largest = entry->n > f->largest ? entry->n : f->largest;
    if (why) {
        struct sender from = {.attempt = entry->rows[0].attempt, .rank = entry->rank};
        f->on_dropped(f->ctx, &from, why);
        return 0;
    }
    for (int i = 0; i < entry->n && entry->rank < f->workers && rc >= 0; i++) {
        rc = history_append(f->history, &entry->rows[i], 1, e);
        if (rc >= 0) {
            f->on_row(f->ctx, &entry->rows[i]);
        }
    }
    return rc;
}

/* How many entries of each rank have about `rows` rows, if an entry has `each`. */
static int entries_of(const struct feed *f, int rows, int each)
{
    int wanted = rows < READ_ROWS ? rows : READ_ROWS, n = wanted / f->ranks / each;
    return n < 1 ? 1 : n < READ_ENTRIES ? n : READ_ENTRIES;
}

/* A rank with steps of microseconds sends hundreds of rows in an entry, others send one. So the
 * first request assumes large entries, and the next ones ask for more while entries are small. */
int feed_read(struct feed *f, int most, bool *facts, struct err *e)
{
    struct store_rows_ask ask = {.tails = f->tails,
                                 .n = f->ranks,
                                 .count = entries_of(f, most, ENTRY_ROWS),
                                 .facts_at = facts ? f->facts : NULL,
                                 .facts = facts,
                                 .fn = on_rows,
                                 .ctx = f};
    int n;
    bool full;
    f->taken = 0;
    do {
        int before = f->taken;
        f->largest = 1;
        n = store_rows_read(f->store, f->job, &ask, e);
        f->taken = f->taken > before ? f->taken : before + n; /* an entry without a row counts
                                                                 too */
        full = n == ask.count;
        int next = entries_of(f, most - f->taken, f->largest);
        ask.count = next < 2 * ask.count ? next : 2 * ask.count;
    } while (full && f->taken < most);
    return n < 0 ? n : full ? FEED_MAY_WAIT : FEED_NONE_WAIT;
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
    return rc < 0 ? rc : store_facts_trim(f->store, f->job, f->facts, e);
}

void feed_begin_facts(struct feed *f, char before[STORE_PLACE])
{
    memcpy(before, f->facts, STORE_PLACE);
    memcpy(f->before, f->numbers, sizeof *f->numbers * (size_t)f->ranks);
}

void feed_again(struct feed *f, const char before[STORE_PLACE])
{
    memcpy(f->facts, before, STORE_PLACE);
    memcpy(f->numbers, f->before, sizeof *f->numbers * (size_t)f->ranks);
}

bool feed_is_new(struct feed *f, const struct fact *fact)
{
    int rank = fact->from.rank;
    if (fact->from.attempt != f->numbers_of || rank < 0 || rank >= f->ranks) {
        return true;
    }
    bool newer = fact->number > f->numbers[rank];
    f->numbers[rank] = newer ? fact->number : f->numbers[rank];
    return newer;
}

void feed_count_from(struct feed *f, int attempt)
{
    f->numbers_of = attempt;
    memset(f->numbers, 0, sizeof *f->numbers * (size_t)f->ranks);
}

void feed_note(const struct feed *f, struct bookmark *out)
{
    snprintf(out->facts, sizeof out->facts, "%s", f->facts);
    for (int r = 0; r < f->ranks && r < out->ranks; r++) {
        snprintf(out->rows[r], sizeof out->rows[r], "%s", f->positions[r].safe);
        out->numbers[r] = f->numbers_of == out->from.attempt ? f->numbers[r] : 0;
    }
}

void feed_resume(struct feed *f, const struct bookmark *from)
{
    snprintf(f->facts, sizeof f->facts, "%s", from->facts);
    f->numbers_of = from->from.attempt;
    for (int r = 0; r < f->ranks && r < from->ranks; r++) {
        f->numbers[r] = from->numbers[r];
        snprintf(f->positions[r].at, sizeof f->positions[r].at, "%s", from->rows[r]);
        snprintf(f->positions[r].safe, sizeof f->positions[r].safe, "%s", from->rows[r]);
    }
}
