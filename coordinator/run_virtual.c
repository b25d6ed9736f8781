/* A virtual job's attempt: it has no ranks that report to the store. Its live document and its
 * assignments come from the simulator's files in the job's folder, progress.json while it runs and
 * summary.json in the end; its rows are in the job's history already.
 */
#include "coordinator/run.h"

#include <stdio.h>
#include <sys/stat.h>

/* Staleness of each node, as a monitor tells it of real ones. */
static void tell_staleness(struct sched *s, struct run *r, const json_t *live)
{
    json_t *nodes = json_array(), *worker, *j;
    size_t i;
    json_array_foreach(json_object_get(live, "workers"), i, worker) {
        json_t *node = json_pack("{s:O?, s:O?}", "node", json_object_get(worker, "node"), "rank",
                                 json_object_get(worker, "rank"));
        json_object_update(node, json_object_get(worker, "staleness"));
        json_array_append_new(nodes, node);
    }
    j = json_pack("{s:o}", "nodes", nodes);
    store_doc_set(s->store, r->attempt.job, "detail:staleness", j, NULL);
    store_event(s->store, r->attempt.job, "staleness", j, NULL);
    json_decref(j);
}

static bool tell_virtual(struct sched *s, struct run *r, const char *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/jobs/%s/%s", s->data_dir, r->attempt.job, file);
    json_t *live = jsonx_load(path, 64 << 20, NULL),
           *assignments = json_object_get(live, "assignments");
    for (; r->told_assignments < json_array_size(assignments); r->told_assignments++) {
        const json_t *a = json_array_get(assignments, r->told_assignments);
        store_assignment_add(s->store, r->attempt.job, a, NULL);
        store_event(s->store, r->attempt.job, "assignment", a, NULL);
    }
    if (live) {
        json_object_del(live, "assignments");
        tell_staleness(s, r, live);
        store_doc_set(s->store, r->attempt.job, "live", live, NULL);
        store_event(s->store, r->attempt.job, "live", live, NULL);
    }
    json_decref(live);
    return live != NULL;
}

void run_virtual_tick(struct sched *s, struct run *r)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/jobs/%s/progress.json", s->data_dir, r->attempt.job);
    if (stat(path, &st) == 0 &&
        (st.st_mtim.tv_sec != r->told.tv_sec || st.st_mtim.tv_nsec != r->told.tv_nsec)) {
        r->told = st.st_mtim;
        tell_virtual(s, r, "progress.json");
    }
}

const char *run_virtual_outcome(struct sched *s, struct run *r)
{
    return r->exit_code <= 0 && tell_virtual(s, r, "summary.json") ? "finished" : "";
}
