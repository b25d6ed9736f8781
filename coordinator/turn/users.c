/* See users.h. */
#include "coordinator/turn/users.h"

#include <string.h>

#include "common/log.h"
#include "coordinator/monitor/seals.h"
#include "store/users.h"

/* The host of this rank's agent; NULL: it runs on ours. */
static const char *host_of(const struct plan *plan, int rank)
{
    const struct plan_worker *with = plan_worker_with(plan, rank);
    return with && with->agent ? with->host : NULL;
}

/* The number of ranks on this rank's host, if `rank` is the first of them; else 0. */
static int ranks_with(const struct plan *plan, int rank, int *ranks)
{
    const char *host = host_of(plan, rank);
    int n = 0;
    for (int r = 0; host && r < plan->n_workers + plan->servers; r++) {
        const char *other = host_of(plan, r);
        if (other && strcmp(other, host) == 0) {
            if (r < rank) {
                return 0;
            }
            ranks[n++] = r;
        }
    }
    return n;
}

static int make(struct attempts *a, const struct plan *plan, struct seals *seals, const int *ranks,
                int n, struct err *e)
{
    char user[STORE_USER];
    const struct sign_key *key = seals_of(seals, plan->from.attempt, ranks[0]);
    store_user_of_ranks(user, plan->from.job, plan->from.attempt, host_of(plan, ranks[0]));
    return key ? store_user_add_ranks(a->store, user, plan->from.job, ranks, n, key, e)
               : err_set(e, ERR_NOT_FOUND, "the attempt has no keys");
}

/* Makes the users of every host in the plan. */
static int make_all(struct attempts *a, const struct plan *plan, struct err *e)
{
    int all = plan->n_workers + plan->servers, rc = 0;
    int *ranks = calloc((size_t)all + 1, sizeof *ranks);
    struct seals *seals = seals_open(plan->job_dir, e);
    if (!ranks || !seals) {
        rc = e->code ? -(int)e->code : err_set(e, ERR_MEMORY, "memory ran out");
    }
    for (int r = 0; rc == 0 && r < all; r++) {
        int n = ranks_with(plan, r, ranks);
        rc = n > 0 ? make(a, plan, seals, ranks, n, e) : 0;
    }
    seals_close(seals);
    free(ranks);
    return rc;
}

bool users_make(struct attempts *a, struct run *r)
{
    struct err e = {0};
    char quoted[700];
    int64_t connection = store_connection(a->store);
    int rc = make_all(a, r->plan, &e);
    if (rc < 0 && e.code != ERR_UNSUPPORTED) {
        log_warn("sched", "no user of the store for an attempt's ranks", "job=%s why=%s",
                 r->attempt.job, log_quote(quoted, sizeof quoted, e.message));
    }
    r->users_on = connection; /* after an outage the store has another connection number */
    return rc == 0;
}

void users_watch(struct attempts *a, struct run *r)
{
    if (r->plan && r->users_on != store_connection(a->store) && plan_first_remote(r->plan)) {
        users_make(a, r);
    }
}

void users_remove(struct attempts *a, const struct plan *plan)
{
    char user[STORE_USER];
    for (int r = 0; r < plan->n_workers + plan->servers; r++) {
        const char *host = host_of(plan, r);
        if (host) {
            store_user_of_ranks(user, plan->from.job, plan->from.attempt, host);
            store_user_remove(a->store, user, NULL);
        }
    }
}
