/* What the files of the monitor share and nobody else sees. */
#ifndef COORDINATOR_MONITOR_PARTS_H
#define COORDINATOR_MONITOR_PARTS_H

#include <limits.h>

#include "coordinator/measure.h"
#include "coordinator/monitor.h"
#include "coordinator/plan.h"
#include "job/assign.h"
#include "job/staleness.h"
#include "store/history.h"

struct rank_watch {
    char node[64], device[64];
    double slowdown;
    char at[STORE_PLACE],
        safe[STORE_PLACE]; /* rows of its stream are read up to `at`, and on disk up to `safe` */
    bool untrimmed;        /* some that are on disk are still in the store */
    int64_t last_step, last_local; /* of the newest row of this attempt */
    int64_t rows;                  /* of this attempt */
    int batch;
    struct step_times times;
    struct thinned points;      /* since the last event */
    struct staleness staleness; /* cumulative, from the heartbeat */
    bool overfull;  /* its first minibatch did not fit its memory: the next attempt must know the
                       limit */
    json_t *tuning; /* what its device measured, in this attempt or before, or NULL; owned */
    json_t *beat;   /* the newest of this attempt, or NULL; owned */
    int64_t samples, updates; /* cumulative, of the job's surviving updates */
};

struct monitor {
    struct store *store;
    char job[17], host[256], data_dir[PATH_MAX], job_dir[PATH_MAX], nethash[PLAN_KEY];
    int attempt, workers, servers;
    const struct jobspec *spec;
    const char **names;       /* [workers], into ranks */
    struct rank_watch *ranks; /* [workers + servers] */
    struct store_tail *tails; /* [workers + servers]: `at` of each; owned */
    struct recent_rows recent;
    struct history *history;
    struct balancer balancer;
    bool may_balance;
    bool owes_assignment; /* decided, but not yet written down */
    /* A restarted attempt: its rows wait in the store until it is known from which checkpoint it
     * started, because older rows past that are superseded first. */
    bool gate_open;
    int64_t keeper_seen_at; /* time of the first heartbeat that says it serves */
    char facts_at[STORE_PLACE];
    json_t *outcome;     /* or NULL; owned */
    json_t *evaluations; /* array; owned */
    int64_t step, dropped;
    double epoch;
    bool stop, pause; /* as last written into control */
    double beats_at, live_at, show_at, flush_at, profile_at,
        detail_at; /* when each was last done */
    double grace_until, launched_at, suspect_since;
    long log_offset;
    bool finished;
};

/* monitor.c */
int monitor_read_rows(struct monitor *m, struct err *e);
bool monitor_due(double *last, double now, double every); /* then *last is now */
/* monitor_assign.c */
int monitor_balance(struct monitor *m, struct err *e); /* decides on minibatches, and tells */
int monitor_keep_profiles(struct monitor *m, struct err *e);
/* monitor_live.c */
int monitor_publish(struct monitor *m, double now, struct err *e);
json_t *monitor_live_json(const struct monitor *m);
json_t *monitor_staleness_json(const struct monitor *m);
/* monitor_facts.c */
int monitor_read_facts(struct monitor *m, bool old_attempt, struct err *e);
int monitor_save(struct monitor *m, struct err *e); /* detail:monitor */
int monitor_load(struct monitor *m, bool adopted, struct err *e);
int64_t monitor_samples(const struct monitor *m);
/* monitor_logs.c */
void monitor_read_logs(struct monitor *m,
                       bool all); /* else some megabytes: the rest at the next turn */

#endif
