/* See shares.h. */
#include "coordinator/turn/queue/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/node/node.h"

void shares_init(struct shares *s, struct quotas *quotas)
{
    *s = (struct shares){.quotas = quotas};
}

void shares_release(struct shares *s)
{
    names_release(&s->owners);
    names_release(&s->jobs);
    free(s->used);
}

/* ---- whose jobs they are --------------------------------------------------------------------- */

/* Carries an id over into `fresh` if its owner is known; else adds it to the ids to ask for. */
static void carry_over(const struct shares *s, const char *id, struct names *fresh, json_t *unknown)
{
    const struct named *known = names_find(&s->jobs, id);
    if (known) {
        names_add(fresh, id, known->number);
    } else {
        json_array_append_new(unknown, json_string(id));
    }
}

static void learn(struct shares *s, struct names *jobs, const char *job, const char *owner)
{
    if (!names_has(&s->owners, owner)) {
        names_add(&s->owners, owner, (double)s->owners.count);
    }
    const struct named *known = names_find(&s->owners, owner);
    if (known) {
        names_add(jobs, job, known->number);
    }
}

int shares_learn(struct shares *s, const struct attempts *a, const struct queued_job *queued,
                 size_t n, struct err *e)
{
    json_t *unknown = json_array(), *id;
    struct names fresh = {0};
    size_t i;
    if (!queued) {
        names_add_all(&fresh, &s->jobs);
    }
    for (i = 0; i < n; i++) {
        carry_over(s, queued[i].id, &fresh, unknown);
    }
    for (const struct run *r = a->runs; r; r = r->next) {
        carry_over(s, r->attempt.job, &fresh, unknown);
    }
    json_t *owners = store_job_owners(a->store, unknown, e);
    json_array_foreach(unknown, i, id) {
        const char *owner = json_string_value(json_array_get(owners, i));
        learn(s, &fresh, json_string_value(id), owner ? owner : "");
    }
    int rc = owners ? 0 : -(int)e->code;
    json_decref(owners);
    json_decref(unknown);
    if (rc < 0) {
        names_release(&fresh);
        return rc;
    }
    names_release(&s->jobs);
    s->jobs = fresh;
    return 0;
}

const char *shares_owner(const struct shares *s, const char *job)
{
    const struct named *known = names_find(&s->jobs, job);
    return known ? s->owners.all[(size_t)known->number].name : "";
}

/* ---- what they use --------------------------------------------------------------------------- */

/* What the owner uses; NULL: nothing. */
static struct share_used *find(const struct shares *s, const char *owner)
{
    for (size_t i = 0; i < s->n_used; i++) {
        if (strcmp(s->used[i].owner, owner) == 0) {
            return &s->used[i];
        }
    }
    return NULL;
}

static struct share_used used_by(const struct shares *s, const char *owner)
{
    const struct share_used *found = find(s, owner);
    return found ? *found : (struct share_used){.owner = owner};
}

/* The same, added if missing. There is room for one more. */
static struct share_used *find_or_add(struct shares *s, const char *owner)
{
    struct share_used *found = find(s, owner);
    if (!found) {
        found = &s->used[s->n_used++];
        *found = (struct share_used){.owner = owner};
    }
    return found;
}

int shares_count(struct shares *s, const struct attempts *a, const json_t *nodes, struct err *e)
{
    size_t i;
    json_t *node;
    free(s->used);
    s->n_used = 0;
    s->used = calloc(json_array_size(nodes) + (size_t)a->n_runs + 1, sizeof *s->used);
    if (!s->used) {
        return err_set(e, ERR_MEMORY, "cannot share the nodes: memory ran out");
    }
    json_array_foreach((json_t *)nodes, i, node) {
        if (names_has(&s->jobs, node_user(node))) {
            struct share_used *u = find_or_add(s, shares_owner(s, node_user(node)));
            u->nodes++;
            u->weight++;
        }
    }
    for (const struct run *r = a->runs; r; r = r->next) {
        struct share_used *u = find_or_add(s, shares_owner(s, r->attempt.job));
        u->running++;
        u->weight += r->launcher == a->simulator;
    }
    return 0;
}

bool shares_allow(const struct shares *s, const char *owner, int workers, char why[SHARES_WHY])
{
    struct quota q;
    struct share_used u = used_by(s, owner);
    quotas_find(s->quotas, owner, &q);
    if (!owner[0]) {
        return true;
    }
    if (q.running >= 0 && u.running >= q.running) {
        snprintf(why, SHARES_WHY, "%.60s has %d of %d running job%s", owner, u.running, q.running,
                 q.running == 1 ? "" : "s");
        return false;
    }
    if (q.nodes >= 0 && workers > 0 && u.nodes + workers > q.nodes) {
        snprintf(why, SHARES_WHY, "%.60s has %d of %d node%s, and the job asks for %d", owner,
                 u.nodes, q.nodes, q.nodes == 1 ? "" : "s", workers);
        return false;
    }
    return true;
}

int shares_used(const struct shares *s, const char *owner)
{
    return used_by(s, owner).weight;
}

int shares_most(const struct shares *s, const char *owner, int own)
{
    struct quota q;
    quotas_find(s->quotas, owner, &q);
    if (!owner[0] || q.nodes < 0) {
        return SPEC_WORKERS;
    }
    int most = q.nodes - used_by(s, owner).nodes + own;
    return most > own ? most : own;
}

/* ---- the line -------------------------------------------------------------------------------- */

static int earlier_first(const void *a, const void *b)
{
    const struct share_place *x = a, *y = b;
    if (x->priority != y->priority) {
        return x->priority > y->priority ? -1 : 1;
    }
    if (x->used != y->used) {
        return x->used < y->used ? -1 : 1;
    }
    return x->age < y->age ? -1 : x->age > y->age;
}

void shares_sort(const struct shares *s, struct share_place *places, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        places[i].used = shares_used(s, places[i].owner);
    }
    if (n > 1) {
        qsort(places, n, sizeof *places, earlier_first);
    }
}
