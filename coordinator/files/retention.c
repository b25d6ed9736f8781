/* What finished jobs keep on disk: see retention.h.
 *
 *   finished:   oldest ───────────────────────────► newest
 *               pruned  pruned │ kept  kept  kept
 *                              └─ --keep-jobs 3, or as many as --max-disk has room for
 *
 * `pruned` is set before the files are removed: if the process dies in between, the next one finds
 * a pruned job with files and removes them. A finished job that another one, waiting or running,
 * begins from (`init`) is skipped. A running job is never touched, however large it is: then there
 * is only a warning.
 */
#include "coordinator/files/retention.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/machine/disk.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "coordinator/files/datasets.h"
#include "coordinator/files/openjobs.h"
#include "coordinator/files/uploads.h"
#include "store/store.h"

static const double turn_seconds = 5, sleep_seconds = 0.1;
static const char *const goes[] = {"history", "checkpoints"};
static const int64_t low_bytes = 32 << 20;
enum { GOES = sizeof goes / sizeof *goes, PROPOSED = 10 };

struct ended { /* a job that ended; its files do not grow any more */
    char id[STORE_ID], finished[32];
    int64_t bytes, disposable; /* on disk; what pruning would give back */
    bool pruned, seen;
};

struct retention {
    struct store *store;
    char data_dir[PATH_MAX - 64];
    int keep_jobs;
    int64_t max_disk;
    struct ended *jobs; /* owned; sorted by `finished` once they are listed */
    int n, size;
    bool complained, told_full;
    int64_t total; /* bytes of jobs and programs */
    struct datasets_known data;
    pthread_mutex_t lock;
    json_t *disk; /* guarded by `lock`: the document of retention_disk(); owned */
    pthread_t thread;
    atomic_bool stopping;
};

/* ---- looking --------------------------------------------------------------------------------- */

static int64_t bytes_of(const struct retention *r, const char *job, const char *part)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/jobs/%s%s%s", r->data_dir, job, part ? "/" : "",
             part ? part : "");
    return proc_tree_bytes(path);
}

static int tell_size(struct retention *r, const char *job, int64_t bytes, struct err *e)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    int rc = store_job_set(r->store, job, "disk_bytes", text, e);
    return rc == -ERR_NOT_FOUND ? 0 : rc; /* it was deleted meanwhile */
}

static int measure(struct retention *r, struct ended *job, struct err *e)
{
    job->bytes = bytes_of(r, job->id, NULL);
    job->disposable = 0;
    for (int i = 0; i < GOES; i++) {
        job->disposable += bytes_of(r, job->id, goes[i]);
    }
    return tell_size(r, job->id, job->bytes, e);
}

static struct ended *find(struct retention *r, const char *id)
{
    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->jobs[i].id, id) == 0) {
            return &r->jobs[i];
        }
    }
    return NULL;
}

static int add(struct retention *r, const char *id, struct err *e)
{
    if (r->n == r->size) {
        int size = r->size ? 2 * r->size : 64;
        struct ended *more = realloc(r->jobs, (size_t)size * sizeof *more);
        if (!more) {
            return err_set(e, ERR_MEMORY, "cannot look at the files of jobs: memory ran out");
        }
        r->jobs = more;
        r->size = size;
    }
    struct ended *job = &r->jobs[r->n];
    memset(job, 0, sizeof *job);
    snprintf(job->id, sizeof job->id, "%s", id);
    char *finished = store_job_field(r->store, id, "finished", e),
         *pruned = store_job_field(r->store, id, "pruned", e);
    snprintf(job->finished, sizeof job->finished, "%s", finished ? finished : "");
    job->pruned = pruned != NULL;
    free(finished);
    free(pruned);
    int rc = e->code ? -(int)e->code : measure(r, job, e);
    if (rc == 0) {
        job->seen = true;
        r->n++;
    }
    return rc;
}

static int read_ended(struct retention *r, const json_t *ids, struct err *e)
{
    size_t i;
    json_t *id;
    int rc = 0;
    json_array_foreach((json_t *)ids, i, id) {
        struct ended *job = find(r, json_string_value(id));
        if (job) {
            job->seen = true;
        } else if (rc == 0) {
            rc = add(r, json_string_value(id), e);
        }
    }
    return rc;
}

static int read_open(struct retention *r, const json_t *ids, int64_t *open_bytes, struct err *e)
{
    size_t i;
    json_t *id;
    int rc = 0;
    json_array_foreach((json_t *)ids, i, id) {
        int64_t bytes = bytes_of(r, json_string_value(id), NULL);
        *open_bytes += bytes;
        if (rc == 0 && bytes > 0) {
            rc = tell_size(r, json_string_value(id), bytes, e);
        }
    }
    return rc;
}

static int by_finished(const void *a, const void *b)
{
    const struct ended *x = a, *y = b;
    int c = strcmp(x->finished, y->finished);
    return c ? c : strcmp(x->id, y->id);
}

static int read_jobs(struct retention *r, int64_t *open_bytes, struct err *e)
{
    for (int i = 0; i < r->n; i++) {
        r->jobs[i].seen = false;
    }
    for (int state = 0; state < JOB_STATE_COUNT; state++) {
        json_t *ids = store_job_ids(r->store, (enum job_state)state, e);
        bool ended = jobstate_ended((enum job_state)state);
        int rc = !ids    ? -(int)e->code
                 : ended ? read_ended(r, ids, e)
                         : read_open(r, ids, open_bytes, e);
        json_decref(ids);
        if (rc < 0) {
            return rc;
        }
    }
    int left = 0;
    for (int i = 0; i < r->n; i++) { /* drops jobs that were deleted */
        if (r->jobs[i].seen) {
            r->jobs[left++] = r->jobs[i];
        }
    }
    r->n = left;
    if (r->n > 1) {
        qsort(r->jobs, (size_t)r->n, sizeof *r->jobs, by_finished);
    }
    return 0;
}

/* ---- pruning --------------------------------------------------------------------------------- */

enum prune {
    PRUNE_KEPT, /* a job needs it, or its files could not be removed */
    PRUNE_DONE  /* history and checkpoints are gone */
};

static int prune(struct retention *r, struct ended *job, const char *why, struct err *e)
{
    char path[PATH_MAX], now[32], by[STORE_ID];
    int rc = openjobs_name(r->store, job->id, by, e); /* another job may begin from this one's
                                                         files */
    if (rc < 0 || by[0]) {
        return rc < 0 ? rc : PRUNE_KEPT;
    }
    if (!job->pruned && (rc = store_job_set(r->store, job->id, "pruned",
                                            clock_format(now, clock_wall_ms()), e)) < 0) {
        return rc == -ERR_NOT_FOUND ? PRUNE_KEPT : rc;
    }
    int64_t before = job->bytes, disposable = job->disposable;
    job->pruned = true;
    for (int i = 0; i < GOES; i++) {
        snprintf(path, sizeof path, "%s/jobs/%s/%s", r->data_dir, job->id, goes[i]);
        proc_remove_tree(path, NULL);
    }
    rc = measure(r, job, e);
    if (job->disposable == 0) {
        log_info("retention", "the history and checkpoints of a finished job are gone",
                 "job=%s finished=%s bytes=%lld why=%s", job->id, job->finished,
                 (long long)(before - job->bytes), why);
    } else if (job->disposable == disposable) {
        log_warn("retention", "files of a finished job cannot be removed", "job=%s bytes=%lld",
                 job->id, (long long)job->disposable);
    }
    return rc < 0 ? rc : job->disposable == 0 ? PRUNE_DONE : PRUNE_KEPT;
}

static int keep_newest(struct retention *r, struct err *e)
{
    int done = 0;
    for (int i = 0; i < r->n - r->keep_jobs && r->keep_jobs > 0; i++) {
        int rc = r->jobs[i].disposable > 0 ? prune(r, &r->jobs[i], "keep-jobs", e) : PRUNE_KEPT;
        if (rc < 0) {
            return rc;
        }
        done += rc == PRUNE_DONE;
    }
    return done;
}

/* Uploaded programs count too. Those that no job needs go first, since they can be uploaded
 * again. */
static int make_room(struct retention *r, int64_t *total, struct err *e)
{
    int64_t freed = 0;
    *total += uploads_bytes(r->data_dir);
    if (r->max_disk > 0 && *total > r->max_disk) {
        freed = uploads_make_room(r->data_dir, r->store, *total - r->max_disk, e);
    }
    *total -= freed > 0 ? freed : 0;
    return freed < 0 ? (int)freed : 0;
}

static int keep_within(struct retention *r, int64_t open_bytes, struct err *e)
{
    int64_t total = open_bytes;
    int done = 0;
    for (int i = 0; i < r->n; i++) {
        total += r->jobs[i].bytes;
    }
    int rc = make_room(r, &total, e);
    if (rc < 0) {
        return rc;
    }
    for (int i = 0; i < r->n && r->max_disk > 0 && total > r->max_disk; i++) {
        int64_t before = r->jobs[i].bytes;
        rc = r->jobs[i].disposable > 0 ? prune(r, &r->jobs[i], "max-disk", e) : PRUNE_KEPT;
        if (rc < 0) {
            return rc;
        }
        total -= before - r->jobs[i].bytes;
        done += rc == PRUNE_DONE;
    }
    r->total = total;
    bool over = r->max_disk > 0 && total > r->max_disk;
    if (over && !r->complained) {
        log_warn(
            "retention",
            "jobs and programs take more disk than --max-disk; artifacts, logs and what has not "
            "ended stay",
            "bytes=%lld max_disk=%lld", (long long)total, (long long)r->max_disk);
    }
    r->complained = over;
    return done;
}

/* Finishes the removals that a process had begun when it died. */
static int finish_pruning(struct retention *r, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < r->n && rc >= 0; i++) {
        if (r->jobs[i].pruned && r->jobs[i].disposable > 0) {
            rc = prune(r, &r->jobs[i], "begun", e);
        }
    }
    return rc;
}

/* ---- what could go --------------------------------------------------------------------------- */

/* Lists the jobs that finished first, and how much pruning or deleting each would give back. */
static json_t *propose(const struct retention *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n && json_array_size(list) < PROPOSED; i++) {
        const struct ended *j = &r->jobs[i];
        if (j->bytes > 0) {
            json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "id", j->id, "finished",
                                                  j->finished, "disk_bytes", (json_int_t)j->bytes,
                                                  "can_go_bytes", (json_int_t)j->disposable));
        }
    }
    return list;
}

static void keep_disk(struct retention *r, int64_t disposable)
{
    json_t *limit = r->max_disk > 0 ? json_integer((json_int_t)r->max_disk) : json_null();
    json_t *now =
        json_pack("{s:I, s:o, s:I, s:I, s:o}", "used_bytes", (json_int_t)r->total, "max_disk_bytes",
                  limit, "data_bytes", (json_int_t)datasets_bytes_again(r->data_dir, &r->data),
                  "can_go_bytes", (json_int_t)disposable, "jobs", propose(r));
    pthread_mutex_lock(&r->lock);
    json_decref(r->disk);
    r->disk = now;
    pthread_mutex_unlock(&r->lock);
}

static bool is_low(int64_t left)
{
    return left >= 0 && left < low_bytes;
}

json_t *retention_disk(struct retention *r)
{
    json_t *out = NULL;
    if (r) {
        pthread_mutex_lock(&r->lock);
        out = json_deep_copy(r->disk);
        pthread_mutex_unlock(&r->lock);
    }
    out = out ? out
              : json_pack("{s:n, s:n, s:n, s:i, s:[]}", "used_bytes", "max_disk_bytes",
                          "data_bytes", "can_go_bytes", 0, "jobs");
    /* asked now, since a turn may be long and the disk may fill up meanwhile */
    int64_t left = r ? disk_free(r->data_dir) : -1;
    json_object_set_new(out, "low", json_boolean(is_low(left)));
    json_object_set_new(out, "full", json_boolean(r && disk_is_full(r->data_dir)));
    json_object_set_new(out, "free_bytes", left < 0 ? json_null() : json_integer((json_int_t)left));
    return out;
}

/* Says once that the disk is nearly full, and what could be removed. */
static void watch_disk(struct retention *r)
{
    int64_t left = disk_free(r->data_dir), disposable = 0;
    bool low = is_low(left);
    int jobs = 0;
    for (int i = 0; i < r->n; i++) {
        disposable += r->jobs[i].disposable;
        jobs += r->jobs[i].disposable > 0;
    }
    if (low && !r->told_full) {
        log_warn("retention",
                 "the disk is nearly full; history and checkpoints of finished jobs can go: "
                 "--max-disk, --keep-jobs, or delete jobs",
                 "data_dir=%s bytes_free=%lld finished_jobs=%d bytes_that_can_go=%lld", r->data_dir,
                 (long long)left, jobs, (long long)disposable);
    }
    r->told_full = low;
    keep_disk(r, disposable);
}

int retention_turn(struct retention *r, struct err *e)
{
    int64_t open_bytes = 0;
    int rc = read_jobs(r, &open_bytes, e), newest = 0, within = 0;
    if (rc >= 0) {
        rc = finish_pruning(r, e);
    }
    if (rc >= 0) {
        rc = newest = keep_newest(r, e);
    }
    if (rc >= 0) {
        rc = within = keep_within(r, open_bytes, e);
    }
    watch_disk(r); /* also while the store is away, since a full disk may be the reason */
    return rc < 0 ? rc : newest + within;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *run(void *arg)
{
    struct retention *r = arg;
    double next = 0;
    while (!atomic_load(&r->stopping)) {
        struct err e = {0};
        if (clock_now() >= next) {
            /* errors are not logged: the scheduler reports that the store is away, and the next
             * turn tries again */
            retention_turn(r, &e);
            next = clock_now() + turn_seconds;
        }
        clock_sleep(sleep_seconds);
    }
    return NULL;
}

struct retention *retention_new(const struct retention_config *c, struct err *e)
{
    struct retention *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, ERR_MEMORY, "cannot look after the files of jobs: memory ran out");
        return NULL;
    }
    pthread_mutex_init(&r->lock, NULL);
    snprintf(r->data_dir, sizeof r->data_dir, "%s", c->data_dir);
    r->keep_jobs = c->keep_jobs;
    r->max_disk = c->max_disk;
    r->store = store_open(c->store_url, c->password, e);
    if (!r->store) {
        free(r);
        return NULL;
    }
    store_fence(r->store, c->fence);
    return r;
}

void retention_free(struct retention *r)
{
    if (r) {
        store_close(r->store);
        free(r->jobs);
        json_decref(r->disk);
        pthread_mutex_destroy(&r->lock);
        free(r);
    }
}

struct retention *retention_start(const struct retention_config *c, struct err *e)
{
    struct retention *r = retention_new(c, e);
    if (r && pthread_create(&r->thread, NULL, run, r) != 0) {
        err_set(e, ERR_MEMORY, "cannot start the thread that looks after the files of jobs");
        retention_free(r);
        return NULL;
    }
    return r;
}

void retention_tell(struct retention *r)
{
    if (r) {
        atomic_store(&r->stopping, true);
    }
}

void retention_stop(struct retention *r)
{
    if (r) {
        retention_tell(r);
        pthread_join(r->thread, NULL);
        retention_free(r);
    }
}
