/* Writing a job's history: rows as they come, step by step sums of all ranks, evaluations, and what
 * a restart superseded. The files are in parts.h, their summaries in pyramid.h, reading in
 * series.c and last_rows.c.
 *
 * A step of the job is complete once every rank has passed it; until then its sum waits in
 * `pending`. The sums are never saved: a reader or writer that opens the history makes them from
 * the rows past the last step in steps.bin. Rows that come twice (the coordinator died between
 * writing them and trimming them from Redis) are recognized by attempt, step and local step; rows
 * of an attempt that was given up are ignored.
 */
#include "store/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/proc.h"
#include "store/history/logged.h"
#include "store/history/meta.h"
#include "store/history/norms.h"
#include "store/history/parts.h"
#include "store/history/pyramid.h"
#include "store/history/supersede.h"

enum {
    /* the most steps that wait for a rank; beyond it the oldest are written incomplete */
    PENDING_MOST = 65536
};

struct rank_state {
    struct pyramid_writer rows;
    bool any;                 /* has a row */
    int64_t step, local_step; /* of its last row */
    int attempt;
    int64_t seen; /* the rank's last step in this attempt; -1: none yet */
};

struct history {
    char dir[HISTORY_PATH];
    json_t *meta;
    int row_bytes; /* length of a packed row, which is the format */
    int workers;
    struct rank_state *ranks; /* [workers], owned */
    struct pyramid_writer steps;
    int64_t last_step; /* the last step in steps.bin that counts; -1: none */
    struct step_merge pending;
    int64_t frontier; /* the least `seen`; at_frontier ranks have it */
    int at_frontier;
    struct records evaluations;
    int64_t evaluated; /* the step of the last one that counts; -1: none */
    struct norm_track norms;
    struct logged_track logged;
    int files_kept;     /* how many files have their entry in the folder on the disk */
    int attempt;        /* the newest attempt seen */
    int64_t version;    /* of the last restart, -1: none */
    bool since_restart; /* rows were taken after that restart */
};

static void track_name(char out[32], int rank)
{
    if (rank < 0) {
        snprintf(out, 32, "steps");
    } else {
        snprintf(out, 32, "rows-%d", rank);
    }
}

static void track_base(char *out, size_t n, const char *dir, int rank)
{
    char name[32];
    track_name(name, rank);
    snprintf(out, n, "%s/%s", dir, name);
}

static void open_track(const struct history *h, int rank, char name[32], struct pyramid_reader *r)
{
    char base[PYRAMID_PATH];
    track_base(base, sizeof base, h->dir, rank);
    track_name(name, rank);
    pyramid_reader_open(r, base, h->row_bytes);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Records which node each rank is from here on, if this has changed. */
static int add_layout(struct history *h, const char *const *nodes, struct err *e)
{
    json_t *layout = history_layout_new();
    for (int r = 0; r < h->workers; r++) {
        char name[32];
        snprintf(name, sizeof name, "rank-%d", r);
        history_layout_add(layout, nodes && nodes[r] ? nodes[r] : name, h->ranks[r].rows.rows);
    }
    return history_meta_add_layout(h->meta, layout) ? history_meta_save(h->dir, h->meta, e) : 0;
}

/* Takes the last row of a track that counts; 0: there is none. Rows that count and lie past the
 * step go into `pending`. */
static int take_tail(struct history *h, int rank, int64_t past, struct row *last, struct err *e)
{
    char name[32];
    struct pyramid_reader r;
    struct spans dead = {0}, alive = {0};
    open_track(h, rank, name, &r);
    int found = 0, rc = history_meta_dead(h->meta, name, &dead, e);
    if (rc == 0) {
        rc = spans_alive(&dead, 0, r.count[0], &alive, e);
    }
    for (int i = alive.n - 1; rc == 0 && i >= 0; i--) {
        for (int64_t p = alive.items[i].b - 1; rc == 0 && p >= alive.items[i].a; p--) {
            const struct row *row = pyramid_row(&r, p);
            if (!found) {
                *last = *row;
                found = 1;
            }
            if (rank < 0 || row->step <= past) {
                goto out;
            }
            rc = step_merge_add(&h->pending, row, e);
        }
    }
out:
    pyramid_reader_close(&r);
    spans_release(&dead);
    spans_release(&alive);
    return rc < 0 ? rc : found;
}

static void find_frontier(struct history *h)
{
    h->frontier = INT64_MAX;
    for (int r = 0; r < h->workers; r++) {
        int64_t seen = h->ranks[r].seen;
        if (seen < h->frontier) {
            h->frontier = seen;
            h->at_frontier = 0;
        }
        h->at_frontier += seen == h->frontier;
    }
}

/* Restores the state from the files: the last row of each rank, and the steps that are not merged
 * yet. An earlier layout may have had more ranks. Under asynchronous strategies each step has one
 * worker, so the steps of these ranks are in no other file. */
static int recall(struct history *h, struct err *e)
{
    struct row last;
    int rc = take_tail(h, -1, 0, &last, e), before = history_meta_ranks(h->meta);
    h->last_step = rc > 0 ? last.step : -1;
    for (int r = h->workers; rc >= 0 && r < before; r++) {
        rc = take_tail(h, r, h->last_step, &last, e);
    }
    for (int r = 0; rc >= 0 && r < h->workers; r++) {
        struct rank_state *rank = &h->ranks[r];
        rank->seen = -1;
        if ((rc = take_tail(h, r, h->last_step, &last, e)) > 0) {
            rank->any = true;
            rank->step = rank->seen = last.step;
            rank->local_step = last.local_step;
            rank->attempt = last.attempt;
            h->attempt = last.attempt > h->attempt ? last.attempt : h->attempt;
        }
    }
    find_frontier(h);
    return rc < 0 ? rc : 0;
}

static int open_evaluations(struct history *h, struct err *e)
{
    struct records *r = &h->evaluations;
    int rc = records_open(r, h->dir, "evaluations", sizeof(struct history_evaluation), e);
    if (rc < 0 || (rc = records_create(r, h->dir, e)) < 0) {
        return rc;
    }
    return records_last(r, h->meta, &h->evaluated, e);
}

struct history *history_open(const char *job_dir, int workers, const char *const *nodes,
                             struct err *e)
{
    if (workers < 1 || workers > HISTORY_RANKS || strlen(job_dir) + 16 > HISTORY_PATH) {
        err_set(e, ERR_INVALID,
                "cannot keep a history in '%.200s': %d workers, or the path is too long", job_dir,
                workers);
        return NULL;
    }
    struct history *h = calloc(1, sizeof *h);
    if (!h || !(h->ranks = calloc((size_t)workers, sizeof *h->ranks))) {
        err_set(e, ERR_MEMORY, "cannot keep the history: memory ran out");
        free(h);
        return NULL;
    }
    char base[PYRAMID_PATH];
    snprintf(h->dir, sizeof h->dir, "%s/history", job_dir);
    h->workers = workers;
    h->evaluations.fd = h->norms.records.fd = h->logged.records.fd = -1;
    h->version = -1;
    int rc = proc_mkdirs(h->dir, 0755, e);
    if (rc == 0 && !(h->meta = history_meta_load(h->dir, e))) {
        rc = -ERR_DATA;
    }
    h->row_bytes = history_meta_row_bytes(h->meta);
    for (int r = -1; r < workers && rc == 0; r++) {
        track_base(base, sizeof base, h->dir, r);
        struct pyramid_writer *track = r < 0 ? &h->steps : &h->ranks[r].rows;
        rc = pyramid_writer_open(track, base, h->row_bytes, e);
    }
    if (rc < 0 || (rc = open_evaluations(h, e)) < 0 ||
        (rc = norm_track_open(&h->norms, h->dir, h->meta, e)) < 0 ||
        (rc = logged_track_open(&h->logged, h->dir, h->meta, e)) < 0 || (rc = recall(h, e)) < 0 ||
        (rc = add_layout(h, nodes, e)) < 0) {
        history_close(h);
        return NULL;
    }
    return h;
}

void history_close(struct history *h)
{
    if (!h) {
        return;
    }
    if (h->meta && h->evaluations.fd >= 0) {
        history_flush(h, NULL);
    }
    records_close(&h->evaluations);
    norm_track_close(&h->norms);
    logged_track_close(&h->logged);
    step_merge_release(&h->pending);
    json_decref(h->meta);
    free(h->ranks);
    free(h);
}

/* ---- appending ------------------------------------------------------------------------------- */

/* Writes the steps that every rank has passed, and more if too many wait. */
static int emit(struct history *h, int64_t upto, int most, struct err *e)
{
    int n = 0, rc = 0;
    while (n < h->pending.n && rc == 0 &&
           (h->pending.items[n].step <= upto || h->pending.n - n > most)) {
        struct row row = step_merge_row(&h->pending.items[n]);
        rc = pyramid_writer_add(&h->steps, &row, e);
        h->last_step = row.step;
        n++;
    }
    step_merge_drop(&h->pending, n);
    return rc;
}

static bool is_stale(const struct history *h, const struct rank_state *rank, const struct row *row)
{
    return row->attempt < h->attempt ||
           (rank->any && row->attempt == rank->attempt && row->step <= rank->step &&
            row->local_step <= rank->local_step);
}

static int append_one(struct history *h, const struct row *row, struct err *e)
{
    if (row->rank < 0 || row->rank >= h->workers) {
        return err_set(e, ERR_INVALID, "cannot keep a row of rank %d: the job has %d workers",
                       row->rank, h->workers);
    }
    struct rank_state *rank = &h->ranks[row->rank];
    if (row->attempt > h->attempt) {
        /* supersedes late rows of the previous attempt, which came after its end was reported */
        int rc = h->version >= 0 && h->since_restart ? history_supersede(h, h->version, e) : 0;
        if (rc < 0) {
            return rc;
        }
        h->attempt = row->attempt;
    }
    if (is_stale(h, rank, row)) {
        return 0;
    }
    int64_t before = rank->rows.rows;
    int rc = pyramid_writer_add(&rank->rows, row, e);
    if (rank->rows.rows == before) {
        return rc;
    }
    h->since_restart = true;
    rank->any = true;
    rank->attempt = row->attempt;
    rank->step = row->step;
    rank->local_step = row->local_step;
    int64_t seen = rank->seen;
    rank->seen = row->step > seen ? row->step : seen;
    if (seen == h->frontier && rank->seen > seen && --h->at_frontier == 0) {
        find_frontier(h);
    }
    if (row->step > h->last_step) { /* else the step is merged already: the rank was far behind */
        int more = step_merge_add(&h->pending, row, e);
        if (rc >= 0) { /* the first error stays */
            rc = more;
        }
    }
    return rc;
}

int history_append(struct history *h, const struct row *rows, int n, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++) {
        rc = append_one(h, &rows[i], e);
        if (rc == 0 && h->pending.n > 256) {
            rc = emit(h, h->frontier, PENDING_MOST, e);
        }
    }
    return rc == 0 ? emit(h, h->frontier, PENDING_MOST, e) : rc;
}

static int write_out(struct history *h, bool sync, struct err *e)
{
    int rc = 0;
    for (int r = 0; r < h->workers && rc == 0; r++) {
        rc = pyramid_writer_flush(&h->ranks[r].rows, sync, e);
    }
    return rc == 0 ? pyramid_writer_flush(&h->steps, false, e)
                   : rc; /* it can be made again from the rows if it is lost */
}

int history_norms(struct history *h, const struct norms *n, struct err *e)
{
    return norm_track_append(&h->norms, h->dir, h->meta, n, e);
}

int history_logged(struct history *h, const struct logged *l, struct err *e)
{
    return logged_track_append(&h->logged, h->dir, h->meta, l, e);
}

json_t *history_logged_newest(const struct history *h)
{
    return logged_track_newest(&h->logged, h->meta);
}

int history_show(struct history *h, struct err *e)
{
    return write_out(h, false, e);
}

/* Syncs the folder, so that new files survive a power cut. Levels can be made again from rows. */
static void keep_files(struct history *h)
{
    int files = 1 + (h->norms.records.count > 0) + (h->logged.records.count > 0);
    for (int r = 0; r < h->workers; r++) {
        files += h->ranks[r].rows.rows > 0;
    }
    if (files != h->files_kept) {
        proc_sync_folder(h->dir);
        h->files_kept = files;
    }
}

int history_flush(struct history *h, struct err *e)
{
    int rc = write_out(h, true, e);
    if (rc < 0 || (rc = records_sync(&h->evaluations, h->dir, e)) < 0 ||
        (rc = norm_track_sync(&h->norms, h->dir, e)) < 0 ||
        (rc = logged_track_sync(&h->logged, h->dir, e)) < 0) {
        return rc;
    }
    keep_files(h);
    return 0;
}

int history_evaluation(struct history *h, int64_t step, double epoch, double time, double samples,
                       double loss, double accuracy, struct err *e)
{
    struct history_evaluation one = {step, epoch, time, samples, loss, accuracy};
    if (step <= h->evaluated) {
        return 0; /* it came twice, as rows may */
    }
    int rc = records_append(&h->evaluations, h->dir, &one, e);
    if (rc == 0) {
        h->evaluated = step;
    }
    return rc;
}

/* ---- superseding ----------------------------------------------------------------------------- */

static int supersede_track(struct history *h, int rank, int64_t version, struct err *e)
{
    char name[32];
    struct pyramid_reader r;
    open_track(h, rank, name, &r);
    int rc = supersede_rows(h->meta, name, &r, version, e);
    pyramid_reader_close(&r);
    return rc;
}

/* Counts the steps up to the version that have no row: the rank that made them was killed before it
 * reported them.
 */
static int count_missing(struct history *h, int64_t version, struct err *e)
{
    struct spans dead = {0};
    int rc = history_meta_dead(h->meta, "steps", &dead, e);
    int64_t missing = rc == 0 ? version - (h->steps.rows - spans_total(&dead)) : 0;
    spans_release(&dead);
    history_meta_set_missing(h->meta, missing > 0 ? missing : 0);
    return rc;
}

int64_t history_missing(const struct history *h)
{
    return history_meta_missing(h->meta);
}

int history_supersede(struct history *h, int64_t version, struct err *e)
{
    int rc = emit(h, version, PENDING_MOST, e); /* keeps those waiting steps that count */
    if (rc < 0 || (rc = history_flush(h, e)) < 0) {
        return rc;
    }
    h->pending.n = 0;
    int most = history_meta_ranks(h->meta); /* an earlier layout may have had more ranks */
    for (int r = -1; r < most && rc == 0; r++) {
        rc = supersede_track(h, r, version, e);
    }
    if (rc < 0 || (rc = count_missing(h, version, e)) < 0 ||
        (rc = records_supersede(&h->evaluations, h->meta, version, e)) < 0 ||
        (rc = records_last(&h->evaluations, h->meta, &h->evaluated, e)) < 0 ||
        (rc = norm_track_supersede(&h->norms, h->meta, version, e)) < 0 ||
        (rc = logged_track_supersede(&h->logged, h->dir, h->meta, version, e)) < 0 ||
        (rc = history_meta_save(h->dir, h->meta, e)) < 0) {
        return rc;
    }
    h->last_step = h->last_step > version ? version : h->last_step;
    for (int r = 0; r < h->workers; r++) {
        h->ranks[r].any = false;
        h->ranks[r].seen = -1;
    }
    find_frontier(h);
    h->version = version;
    h->since_restart = false;
    return 0;
}
