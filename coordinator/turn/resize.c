/* See resize.h. */
#include "coordinator/turn/resize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "job/node/node.h"

enum { KEPT = 50 }; /* entries of `resizes` that are kept, the newest ones */

/* ---- an attempt ends ------------------------------------------------------------------------- */

void resize_ask(struct run *r, struct names *gives, const char *why)
{
    struct resize *x = calloc(1, sizeof *x);
    if (!x) { /* the job keeps its size */
        names_release(gives ? gives : &(struct names){0});
        return;
    }
    snprintf(x->job, sizeof x->job, "%s", r->attempt.job);
    snprintf(x->why, sizeof x->why, "%s", why ? why : "");
    if (gives) {
        x->gives = *gives;
        *gives = (struct names){0};
    }
    r->leaving = r->yields = true;
    r->resize = x;
    log_info("sched", "changes its size: it writes a checkpoint and continues with other nodes",
             "job=%s attempt=%d nodes=%d gives=%d", r->attempt.job, r->attempt.number,
             run_workers(r), (int)x->gives.count);
}

/* The nodes that its ranks run on now. */
static struct names nodes_of(const struct run *r)
{
    struct names names = {0};
    for (int i = 0; i < r->plan->n_workers; i++) {
        if (!run_is_lost(r, i)) {
            names_add(&names, r->plan->workers[i].node, 0);
        }
    }
    return names;
}

int resize_keep(struct attempts *a, struct run *r, struct err *e)
{
    struct resize *x = r->resize;
    struct names nodes = nodes_of(r);
    int rc = 0;
    for (int i = 0; i < r->plan->n_workers; i++) {
        const char *name = r->plan->workers[i].node;
        if (!names_has(&nodes, name) || names_has(&x->gives, name)) {
            int one = store_node_release(a->store, name, r->attempt.job, e);
            rc = one < 0 ? one : rc;
        }
    }
    if (rc < 0) { /* tried again */
        names_release(&nodes);
        return rc;
    }
    x->nodes = nodes;
    x->from = run_workers(r);
    x->step_at = r->step_at;
    x->next = a->resizes;
    a->resizes = x;
    r->resize = NULL;
    return 0;
}

/* ---- between --------------------------------------------------------------------------------- */

static const struct resize *find(const struct attempts *a, const char *job)
{
    const struct resize *x = a->resizes;
    while (x && strcmp(x->job, job) != 0) {
        x = x->next;
    }
    return x;
}

bool resize_is_between(const struct attempts *a, const char *job)
{
    return find(a, job) != NULL;
}

void resize_reserve(const struct attempts *a, const char *job, const json_t *nodes,
                    struct names *reserved)
{
    const struct resize *x = find(a, job);
    size_t i;
    json_t *node;
    json_array_foreach((json_t *)nodes, i, node) {
        if (x && strcmp(node_user(node), job) == 0) {
            names_remove(reserved, node_name(node));
        } else if (x && x->gives.count > 0) {
            names_add(reserved, node_name(node), 0);
        }
    }
}

void resize_over(struct attempts *a, const json_t *nodes)
{
    size_t i;
    json_t *node;
    json_array_foreach((json_t *)nodes, i, node) {
        const char *job = node_user(node);
        const struct run *r = resize_is_between(a, job) ? attempts_find(a, job) : NULL;
        if (resize_is_between(a, job) && (!r || !plan_uses(r->plan, node_name(node)))) {
            store_node_release(a->store, node_name(node), job, NULL);
        }
    }
    attempts_free_resizes(&a->resizes);
}

/* ---- the next attempt ------------------------------------------------------------------------ */

/* "n3, n4", of the names in `of` that are not in `without`. */
static int list_names(struct buf *out, const struct names *of, const struct names *without)
{
    int n = 0;
    for (size_t i = 0; i < of->count; i++) {
        if (!names_has(without, of->all[i].name)) {
            buf_addf(out, "%s%s", n ? ", " : "", of->all[i].name);
            n++;
        }
    }
    return n;
}

/* "grew from 3 to 4 nodes: n4 joined" */
static void tell(const struct resize *x, const struct names *now, char *text, size_t size)
{
    int from = x->from, to = (int)now->count;
    struct buf names;
    buf_init(&names, 4096);
    int n = to > from ? list_names(&names, now, &x->nodes) : list_names(&names, &x->nodes, now);
    const char *list = names.len ? names.data : "";
    int shown = names.len < 120 ? (int)names.len : 120;
    if (to > from) {
        snprintf(text, size, "grew from %d to %d nodes: %.*s joined", from, to, shown, list);
    } else if (to < from) {
        snprintf(text, size, "shrank from %d to %d node%s: %.*s %s", from, to, to == 1 ? "" : "s",
                 shown, list,
                 x->why[0] ? x->why
                 : n == 1  ? "is gone"
                           : "are gone");
    } else {
        snprintf(text, size, "stays at %d node%s: those that it was to grow to are gone", to,
                 to == 1 ? "" : "s");
    }
    buf_release(&names);
}

/* The job's field `resizes` as an array; new reference. */
static json_t *resizes_of(struct attempts *a, const char *job)
{
    char *text = store_job_field(a->store, job, "resizes", NULL);
    json_t *all = text ? jsonx_parse(text, strlen(text), NULL) : NULL;
    free(text);
    if (!json_is_array(all)) {
        json_decref(all);
        all = json_array();
    }
    return all;
}

static void write_resizes(struct attempts *a, const char *job, const json_t *all)
{
    char *text = json_dumps(all, JSON_COMPACT);
    if (text) {
        store_job_set(a->store, job, "resizes", text, NULL);
    }
    free(text);
}

void resize_begin(struct attempts *a, struct run *r, struct assignment *first)
{
    const struct resize *x = find(a, r->attempt.job);
    char when[32], quoted[300];
    if (!x) {
        return;
    }
    json_t *all = resizes_of(a, r->attempt.job);
    struct names now = nodes_of(r);
    tell(x, &now, first->reason, sizeof first->reason);
    r->changing_since = x->step_at;
    json_t *entry = json_pack("{s:i, s:i, s:i, s:s, s:s, s:n}", "attempt", r->attempt.number,
                              "from", x->from, "to", (int)now.count, "reason", first->reason,
                              "time", clock_format(when, clock_wall_ms()), "seconds");
    json_array_append(all, entry);
    if (json_array_size(all) > KEPT) {
        json_array_remove(all, 0);
    }
    write_resizes(a, r->attempt.job, all);
    json_object_set_new(entry, "type", json_string("resized"));
    json_object_set_new(entry, "message", json_string(first->reason));
    store_event(a->store, r->attempt.job, "log", entry, NULL);
    log_info("sched", "an elastic job changes its size", "job=%s attempt=%d why=%s", r->attempt.job,
             r->attempt.number, log_quote(quoted, sizeof quoted, first->reason));
    json_decref(entry);
    json_decref(all);
    names_release(&now);
}

void resize_stepped(struct attempts *a, struct run *r, double now)
{
    if (r->changing_since <= 0) {
        return;
    }
    r->change_seconds = now - r->changing_since;
    r->changing_since = 0;
    json_t *all = resizes_of(a, r->attempt.job),
           *last = json_array_get(all, json_array_size(all) - 1);
    if (json_integer_value(json_object_get(last, "attempt")) == r->attempt.number) {
        json_object_set_new(last, "seconds", json_real(r->change_seconds));
        write_resizes(a, r->attempt.job, all);
    }
    log_info("sched", "steps again after a change of its size", "job=%s attempt=%d seconds=%.1f",
             r->attempt.job, r->attempt.number, r->change_seconds);
    json_decref(all);
}
