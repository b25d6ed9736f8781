/* Retention: what finished jobs keep on disk. Beyond --keep-jobs finished jobs, or beyond
 * --max-disk bytes of all jobs and uploaded programs together, the jobs that finished first lose
 * their history and their checkpoints; their record, logs and artifacts stay, and `pruned` in their
 * JSON says since when. An artifact goes only with its job, when somebody deletes that. Also tells
 * each job's size (`disk_bytes`).
 *
 * A thread of its own with its own connection: walking many folders must not make a turn of the
 * scheduler long.
 */
#ifndef COORDINATOR_FILES_RETENTION_H
#define COORDINATOR_FILES_RETENTION_H

#include <jansson.h>

#include "store/store.h"

struct retention_config {
    const char *store_url, *password, *data_dir; /* copied */
    int keep_jobs;                               /* 0: all */
    int64_t max_disk;                            /* bytes; 0: no limit */
    const struct store_fence *fence;             /* or NULL; borrowed */
};

struct retention;
/* Without a thread: the caller calls retention_turn. */
struct retention *retention_new(const struct retention_config *config, struct err *e);
/* Visits all jobs once and prunes what is over the limits. The number of jobs that were pruned, or
 * negative: the store is away. */
int retention_turn(struct retention *r, struct err *e);
void retention_free(struct retention *r);

/* The schema Disk: what is free now, and what could go as of the last turn. Any thread. New
 * reference. r NULL: nothing is known. */
json_t *retention_disk(struct retention *r);

/* The same with a thread that turns every few seconds. */
struct retention *retention_start(const struct retention_config *config, struct err *e);
/* Tells the thread that it is to end, and waits for nothing. NULL is fine. */
void retention_tell(struct retention *r);
void retention_stop(struct retention *r);

#endif
