/* See members.h. */
#include "worker/exchange/lockstep/survival/members.h"

#include <string.h>

bool members_lack(const struct members *m, int rank)
{
    bool lacks = false;
    for (int i = 0; i < m->n_lost; i++) {
        lacks = lacks || m->lost[i] == rank;
    }
    return lacks;
}

void members_drop(struct members *m, int rank)
{
    BUG_ON(m->n_lost == LOST_MOST);
    m->lost[m->n_lost++] = rank;
}

void members_take(struct members *m, int rank, int seat)
{
    int n = 0;
    for (int i = 0; i < m->n_lost; i++) {
        if (m->lost[i] != rank) {
            m->lost[n++] = m->lost[i];
        }
    }
    m->n_lost = n;
    m->seat[rank] = (uint8_t)seat;
}

/* ---- what the coordinator says --------------------------------------------------------------- */

struct told {
    int seats[SPEC_WORKERS];
    bool lost[SPEC_WORKERS];
};

/* Reads seats first: a worker that is then reported lost is lost in this seat or a later one. */
static void ask(const struct rank_env *env, struct told *t)
{
    size_t W = (size_t)env->comm->workers;
    int ranks[SPEC_WORKERS];
    memset(t->seats, 0, W * sizeof *t->seats);
    memset(t->lost, 0, W * sizeof *t->lost);
    if (env->seats) {
        env->seats(env->ctx, t->seats);
    }
    int n = env->lost(env->ctx, ranks);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < (int)W) {
            t->lost[ranks[i]] = true;
        }
    }
}

int members_find_lost(const struct members *m, const struct rank_env *env, int *out)
{
    struct told t;
    int n = 0;
    ask(env, &t);
    for (int i = 0; i < env->comm->workers; i++) {
        bool dead = t.seats[i] > m->seat[i] || (t.seats[i] == m->seat[i] && t.lost[i]);
        if (dead && !members_lack(m, i)) {
            out[n++] = i;
        }
    }
    return n;
}

bool members_lost(const struct members *m, const struct rank_env *env, int rank)
{
    int ranks[SPEC_WORKERS], n = members_find_lost(m, env, ranks);
    bool found = false;
    for (int i = 0; i < n; i++) {
        found = found || ranks[i] == rank;
    }
    return found;
}

int members_find_expected(const struct members *m, const struct rank_env *env, int *out)
{
    struct told t;
    int n = 0;
    ask(env, &t);
    for (int i = 0; i < env->comm->workers; i++) {
        bool comes =
            t.seats[i] > m->seat[i] && t.seats[i] <= UINT8_MAX && !t.lost[i] && members_lack(m, i);
        out[i] = comes ? t.seats[i] : 0;
        n += comes;
    }
    return n;
}
