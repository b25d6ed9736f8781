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

#include <limits.h>

#include "coordinator/monitor/seals.h"
#include "job/documents/coordinator/bookmark.h"
#include "job/row.h"
#include "store/history.h"
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
    int numbers_of;           /* the attempt to which `numbers` and `before` belong */
    int64_t *numbers;         /* [ranks], of the last fact that each told; owned */
    int64_t *before;          /* [ranks], as they were at feed_begin_facts(); owned */
    int taken;                /* rows of the reading under way */
    int largest;              /* rows of the largest entry of its last request */
    struct history *history;  /* owned */
    struct seals *seals;      /* borrowed */
    /* Where the rows that were read go besides the history: each is of a worker. */
    void (*on_row)(void *ctx, const struct row *row);
    void (*on_dropped)(void *ctx, const struct sender *from, const char *why);
    void *ctx;
};

struct feed_config {
    struct store *store; /* borrowed, as `job` and `seals` */
    const char *job, *job_dir;
    int workers, ranks, attempt;
    struct seals *seals;
    const char *const *names; /* [workers], of nodes */
    void (*on_row)(void *ctx, const struct row *row);
    /* an entry whose seal is not that of its rank's key */
    void (*on_dropped)(void *ctx, const struct sender *from, const char *why);
    void *ctx;
};

int feed_open(struct feed *f, const struct feed_config *c, struct err *e);
void feed_close(struct feed *f); /* also after a failed feed_open() */

/* Reads about `most` rows of all ranks together; enum feed_rest says whether others may wait. With
 * `facts`, no rows are read while a fact waits, and *facts is set then. */
enum { FEED_ALL = INT_MAX };
enum feed_rest { FEED_NONE_WAIT, FEED_MAY_WAIT };
int feed_read(struct feed *f, int most, bool *facts, struct err *e);
/* Puts the buffer on disk: every row that was read is safe. */
int feed_settle(struct feed *f, struct err *e);
/* Removes rows that are safe from the store, and facts that were read once there are many. Call it
 * once the positions were written down. */
int feed_trim(struct feed *f, struct err *e);

/* Facts are read in batches. After feed_again() the batch comes again at the next read. */
void feed_begin_facts(struct feed *f, char before[STORE_PLACE]);
void feed_again(struct feed *f, const char before[STORE_PLACE]);
/* Is this fact newer than all that its rank told before? Then it is the last one from now on. Of an
 * attempt whose numbers are not known (it ended long ago) every fact is. */
bool feed_is_new(struct feed *f, const struct fact *fact);
/* From now on numbers are those of this attempt, of which no fact has come. */
void feed_count_from(struct feed *f, int attempt);

/* The positions, into a bookmark and out of one. */
void feed_note(const struct feed *f, struct bookmark *out);
void feed_resume(struct feed *f, const struct bookmark *from);

#endif
