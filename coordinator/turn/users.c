/* See users.h. */
#include "coordinator/turn/users.h"

#include <string.h>

#include "common/log.h"
#include "coordinator/monitor/seals.h"
#include "store/users.h"

/* The host of this rank's agent; NULL: it runs on ours. */
static const char *host_of(const struct plan *plan, int rank)
{
    const struct plan_worker *beside = plan_rank_beside(plan, rank);
    return beside && beside->agent ? beside->host : NULL;
}

/* The ranks of this host, if `rank` is the first of them; else 0. */
static int ranks_beside(const struct plan *plan, int rank, int *ranks)
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

bool users_make(struct attempts *a, const struct plan *plan)
{
    struct err e = {0};
    char quoted[700];
    int all = plan->n_workers + plan->servers, rc = 0;
    int *ranks = calloc((size_t)all + 1, sizeof *ranks);
    struct seals *seals = seals_open(plan->job_dir, &e);
    for (int r = 0; ranks && seals && rc == 0 && r < all; r++) {
        int n = ranks_beside(plan, r, ranks);
        rc = n > 0 ? make(a, plan, seals, ranks, n, &e) : 0;
    }
    bool made = ranks && seals && rc == 0;
    if (!made && e.code != ERR_UNSUPPORTED) {
        log_warn("sched", "no user of the store for an attempt's ranks", "job=%s why=%s",
                 plan->from.job, log_quote(quoted, sizeof quoted, e.message));
    }
    seals_close(seals);
    free(ranks);
    return made;
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
