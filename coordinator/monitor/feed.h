/* The feed: rows on their way from the store to the history on disk, and how far they are.
 *
 *   store ─► at ─► history's buffer ─► disk ─► safe ─► trimmed from the store
 *
 * `at` and `safe` are two positions in each rank's stream. Only `safe` may be remembered across a
 * restart of the coordinator: rows between it and `at` are in this process's memory alone, and the
 * next coordinator must read them again.
 */
#ifndef COORDINATOR_MONITOR_FEED_H
#define COORDINATOR_MONITOR_FEED_H

#include "job/documents/bookmark.h"
#include "store/history.h"
#include "job/row.h"
#include "store/store.h"

struct feed {
    struct store *store; /* borrowed */
    const char *job;     /* borrowed */
    int workers, ranks;
    struct feed_place {
        char at[STORE_PLACE];
        char safe[STORE_PLACE];
        bool untrimmed;       /* some rows that are on disk are still in the store */
    } * positions;            /* [ranks]; owned */
    struct store_tail *tails; /* [ranks]: `at` of each; owned */
    char facts[STORE_PLACE];  /* facts are read up to here */
    struct history *history;  /* owned */
    /* Where the rows that were read go besides the history: each is of a worker. */
    void (*on_row)(void *ctx, const struct row *row);
    void *ctx;
};

struct feed_config {
    struct store *store; /* borrowed, as `job` */
    const char *job, *job_dir;
    int workers, ranks;
    const char *const *names; /* [workers], of nodes */
    void (*on_row)(void *ctx, const struct row *row);
    void *ctx;
};

int feed_open(struct feed *f, const struct feed_config *c, struct err *e);
void feed_close(struct feed *f); /* also after a failed feed_open() */

/* Reads at most `reads` times 200 entries of each rank. With `facts`, no rows are read while a fact
 * waits, and *facts is set then. */
enum { FEED_ALL = 1 << 30 };
int feed_read(struct feed *f, int reads, bool *facts, struct err *e);
/* Puts the buffer on disk: every row that was read is safe. */
int feed_settle(struct feed *f, struct err *e);
/* Trims what is safe from the store. Call it once the positions were written down. */
int feed_trim(struct feed *f, struct err *e);

/* The positions, into a bookmark and out of one. */
void feed_note(const struct feed *f, struct bookmark *out);
void feed_resume(struct feed *f, const struct bookmark *from);

#endif
