/* See resize.h. What is kept between two attempts: {"from": nodes before, "nodes": {name: true},
 * "shrinks": bool, "why": text, "step_at": seconds}. */
#include "coordinator/turn/resize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "job/node/node.h"

enum { KEPT = 50 }; /* entries of `resizes`: the newest */

/* ---- an attempt ends ------------------------------------------------------------------------- */

void resize_ask(struct run *r, json_t *gives, const char *why)
{
    r->leaving = r->yields = true;
    r->change =
        json_pack("{s:o, s:s}", "gives", gives ? gives : json_object(), "why", why ? why : "");
    log_info("sched", "changes its size: it writes a checkpoint and goes on with other nodes",
             "job=%s attempt=%d nodes=%d gives=%d", r->attempt.job, r->attempt.number,
             run_workers(r), (int)json_object_size(resize_gives(r)));
}

json_t *resize_gives(const struct run *r)
{
    return json_object_get(r->change, "gives");
}

/* Those that its ranks run on now. */
static json_t *nodes_of(const struct run *r)
{
    json_t *names = json_object();
    for (int i = 0; i < r->plan->n_workers; i++) {
        if (!run_is_lost(r, i)) {
            json_object_set_new(names, r->plan->workers[i].node, json_true());
        }
    }
    return names;
}

int resize_keep(struct attempts *a, const struct run *r, struct err *e)
{
    json_t *gives = resize_gives(r), *nodes = nodes_of(r);
    int rc = 0;
    for (int i = 0; i < r->plan->n_workers; i++) {
        const char *name = r->plan->workers[i].node;
        if (!json_object_get(nodes, name) || json_object_get(gives, name)) {
            int one = store_node_release(a->store, name, r->attempt.job, e);
            rc = one < 0 ? one : rc;
        }
    }
    json_object_set_new(a->changes, r->attempt.job,
                        json_pack("{s:i, s:o, s:b, s:O, s:f}", "from", run_workers(r), "nodes",
                                  nodes, "shrinks", json_object_size(gives) > 0, "why",
                                  json_object_get(r->change, "why"), "step_at", r->step_at));
    return rc;
}

/* ---- between --------------------------------------------------------------------------------- */

bool resize_is_between(const struct attempts *a, const char *job)
{
    return json_object_get(a->changes, job) != NULL;
}

void resize_reserve(const struct attempts *a, const char *job, const json_t *nodes,
                    json_t *reserved)
{
    const json_t *change = json_object_get(a->changes, job);
    size_t i;
    json_t *node;
    json_array_foreach((json_t *)nodes, i, node) {
        if (change && strcmp(node_user(node), job) == 0) {
            json_object_del(reserved, node_name(node));
        } else if (json_is_true(json_object_get(change, "shrinks"))) {
            json_object_set_new(reserved, node_name(node), json_true());
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
    json_object_clear(a->changes);
}

/* ---- the next attempt ------------------------------------------------------------------------ */

/* "n3, n4", of the names in `of` that are not in `without`. */
static int list_names(struct buf *out, const json_t *of, const json_t *without)
{
    const char *name;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)of, name, value) {
        if (!json_object_get(without, name)) {
            buf_addf(out, "%s%s", n ? ", " : "", name);
            n++;
        }
    }
    return n;
}

/* "grew from 3 to 4 nodes: n4 joined" */
static void tell(const json_t *change, const json_t *now, char *text, size_t size)
{
    int from = (int)json_integer_value(json_object_get(change, "from")),
        to = (int)json_object_size(now);
    const json_t *before = json_object_get(change, "nodes");
    const char *why = jsonx_string_at(change, "why");
    struct buf names;
    buf_init(&names, 4096);
    int n = to > from ? list_names(&names, now, before) : list_names(&names, before, now);
    const char *list = names.len ? names.data : "";
    int shown = names.len < 120 ? (int)names.len : 120;
    if (to > from) {
        snprintf(text, size, "grew from %d to %d nodes: %.*s joined", from, to, shown, list);
    } else if (to < from) {
        snprintf(text, size, "shrank from %d to %d node%s: %.*s %s", from, to, to == 1 ? "" : "s",
                 shown, list,
                 why[0]   ? why
                 : n == 1 ? "is gone"
                          : "are gone");
    } else {
        snprintf(text, size, "stays at %d node%s: those that it was to grow to are gone", to,
                 to == 1 ? "" : "s");
    }
    buf_release(&names);
}

/* The job's field, as an array; new reference. */
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
    const json_t *change = json_object_get(a->changes, r->attempt.job);
    char when[32], quoted[300];
    if (!change) {
        return;
    }
    json_t *now = nodes_of(r), *all = resizes_of(a, r->attempt.job);
    tell(change, now, first->reason, sizeof first->reason);
    r->changing_since = json_number_value(json_object_get(change, "step_at"));
    json_t *entry =
        json_pack("{s:i, s:O, s:i, s:s, s:s, s:n}", "attempt", r->attempt.number, "from",
                  json_object_get(change, "from"), "to", (int)json_object_size(now), "reason",
                  first->reason, "time", clock_format(when, clock_wall_ms()), "seconds");
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
    json_decref(now);
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
