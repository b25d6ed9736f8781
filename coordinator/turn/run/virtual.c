/* A virtual job's attempt: it has no ranks that report to the store. Its live document, its
 * assignments and its evaluations come from the simulator's files in the job's folder
 * (job/documents/results/summary.h), progress.json while it runs and summary.json in the end, or
 * progress.json with the reason where it failed; its rows are in the job's history already. A file
 * of an earlier attempt is ignored.
 */
#include "coordinator/turn/run/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/path.h"
#include "coordinator/monitor/logs.h"
#include "job/documents/results/summary.h"

enum { FILE_BYTES = 64 << 20 };
static const double silence_seconds = 60;

static void tell_assignments(struct attempts *a, struct run *r, const json_t *all)
{
    for (; r->told_assignments < json_array_size(all); r->told_assignments++) {
        const json_t *one = json_array_get(all, r->told_assignments);
        store_assignment_add(a->store, r->attempt.job, one, NULL);
        store_event(a->store, r->attempt.job, "assignment", one, NULL);
    }
}

/* The document holds all evaluations; each new one is an event. */
static void tell_evaluations(struct attempts *a, struct run *r, json_t *all)
{
    size_t before = r->told_evaluations;
    for (; r->told_evaluations < json_array_size(all); r->told_evaluations++) {
        const json_t *one = json_array_get(all, r->told_evaluations);
        store_event(a->store, r->attempt.job, "evaluation", one, NULL);
    }
    if (r->told_evaluations > before) {
        json_t *doc = json_pack("{s:O}", "evaluations", all);
        store_doc_set(a->store, r->attempt.job, "detail:evaluations", doc, NULL);
        json_decref(doc);
    }
}

static void tell(struct attempts *a, struct run *r, const struct summary_read *s)
{
    const char *job = r->attempt.job;
    tell_assignments(a, r, s->assignments);
    tell_evaluations(a, r, s->evaluations);
    store_doc_set(a->store, job, "detail:staleness", s->nodes, NULL);
    store_event(a->store, job, "staleness", s->nodes, NULL);
    store_doc_set(a->store, job, "live", s->live, NULL);
    store_event(a->store, job, "live", s->live, NULL);
}

static void pass_over(struct run *r, const char *file, const char *why)
{
    char quoted[600];
    if (!r->stray_told) {
        r->stray_told = true;
        log_warn("sched", "a file of the simulator is passed over",
                 "job=%s attempt=%d file=%s why=%s", r->attempt.job, r->attempt.number, file,
                 log_quote(quoted, sizeof quoted, why));
    }
}

/* Notes the failure, without a rank to blame: its nodes are virtual. */
static void note_failure(struct run *r, const struct err *why)
{
    if (why->code) {
        r->failed = true;
        r->failure = failure_of(why->code, why->message, COORDINATOR, NULL, r->attempt.number);
    }
}

/* Publishes a file; false: this attempt has none. */
static bool tell_file(struct attempts *a, struct run *r, const char *file)
{
    char path[PATH_MAX];
    struct summary_read s = {0};
    struct err why = {0};
    snprintf(path, sizeof path, "%s/jobs/%s/%s", a->data_dir, r->attempt.job, file);
    json_t *j = jsonx_load(path, FILE_BYTES, &why);
    bool told = j && summary_read(&s, j, &why) >= 0 && sender_is(&s.from, &r->plan->from);
    if (told) {
        tell(a, r, &s);
        note_failure(r, &s.error);
    } else if (j) {
        pass_over(r, file, why.code ? why.message : "it is of another attempt");
    }
    summary_release(&s);
    json_decref(j);
    return told;
}

void run_virtual_tick(struct attempts *a, struct run *r)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/jobs/%s/progress.json", a->data_dir, r->attempt.job);
    if (stat(path, &st) == 0 && !path_is_same(&st, &r->told)) {
        r->told = st;
        tell_file(a, r, "progress.json");
    }
}

bool run_virtual_silent(struct attempts *a, struct run *r, double now)
{
    struct stat before = r->told;
    run_virtual_tick(a, r);
    bool wrote = !path_is_same(&r->told, &before);
    r->heard_at = wrote || r->heard_at == 0 ? now : r->heard_at;
    return r->failed || now - r->heard_at > silence_seconds || tell_file(a, r, "summary.json");
}

/* Copies the simulator's output to the launcher's log, once. */
static void tell_log(struct attempts *a, struct run *r)
{
    char folder[PATH_MAX];
    struct logs l = {.job_dir = folder};
    if (!r->log_told) {
        snprintf(folder, sizeof folder, "%s/jobs/%s", a->data_dir, r->attempt.job);
        attempt_output(l.output, a->data_dir, r->attempt.job, r->attempt.number);
        logs_read(&l, true);
        r->log_told = true;
    }
}

bool run_virtual_finish(struct attempts *a, struct run *r)
{
    tell_log(a, r);
    bool finished = r->end.exit_code <= 0 && tell_file(a, r, "summary.json");
    if (!finished) {
        run_virtual_tick(a, r);
    }
    return finished;
}
