/* The server's state, which its files share. A file calls only those below it:
 *
 *   server.c         the loop over pushes
 *   evaluation.c     the test set
 *   seats.c          workers that are there again
 *   lost.c           workers that died
 *   slices.c         which samples a worker gets
 *   server_state.c   states that are written; start and end
 *   wait.c           waits, while workers may die or come back
 */
#ifndef WORKER_EXCHANGE_SERVER_PARTS_H
#define WORKER_EXCHANGE_SERVER_PARTS_H

#include "worker/exchange/server/shard.h"

struct client {        /* a worker as the server sees it */
    struct slice out;  /* count 0: none; this, kept and evaluating change by server_set_… alone,
                          which count */
    struct slice kept; /* its next one: kept while it evaluates (slices go in the order of pulls),
                          or announced in advance (rank_env.ahead) */
    bool again;        /* `out` is handed to it once more */
    bool grouped;      /* its last gradient is in a group that is not complete */
    int64_t pushes;
    bool parked, ended;
    bool told_last;   /* its program knows that nothing follows `out` */
    bool left;        /* its program has made its last epoch */
    bool lost;        /* its process died: nothing is sent to it or awaited of it any more, */
    bool dropped;     /* and the run goes on without it */
    bool gone;        /* the coordinator's last word is that it is lost */
    int seat;         /* how often the rank's worker was started again, and came */
    int64_t ahead_of; /* gradients of others that it counts as its own: server_clock */
    double parked_at;
    struct reply_head reply;
    struct message head, weights, stats_sent;
    bool sending;
    struct version *held; /* the weights that it has, or gets */
    float *stats;         /* [n_stats] the statistics beside them */
    struct staleness staleness;
    int64_t evaluating; /* samples of a test slice that is out */
    bool gave;          /* its own state, for the state that is being made */
};

/* A push that is awaited, or comes. On the heap, because that of a worker which died in the middle
 * stays under way. */
struct arrival {
    struct arrival *torn; /* the next of those; NULL: none */
    struct message head, gradient, stats;
    struct push_head push;
    char none, no_head;
    bool awaited;    /* `head` is under way */
    float *g;        /* [n] where the gradient comes; owned */
    float *stats_of; /* [n_stats] and running statistics; owned */
};

/* Evaluations (evaluation.c): the one under way, and what the last one found. */
struct server_evaluation {
    bool due, under_way;
    struct version *snapshot;         /* under evaluation; NULL: nothing was evaluated yet */
    float *stats;                     /* [n_stats] running statistics beside it; owned */
    int64_t step, applied;            /* of the snapshot: version and samples */
    double time;                      /* at which it was taken */
    int64_t next, done;               /* samples of the test set: handed out, measured */
    int n_out;                        /* clients with a test slice */
    struct slice again[SPEC_WORKERS]; /* test slices of lost workers */
    int n_again;
    double loss, correct;               /* sums over what is measured */
    int64_t last_version, last_applied; /* of the last one; -1: none */
    double last_accuracy, last_loss, best;
    bool target_reached;
};

/* The group of gradients that is not complete (softsync). */
struct server_group {
    struct slice slices[SPEC_WORKERS]; /* of its gradients */
    int by[SPEC_WORKERS];              /* whose they are */
    int late[SPEC_WORKERS];            /* and their staleness */
    int n;
};

/* Workers that are started again (seats.c). */
struct server_seats {
    bool known;
    int wanted[SPEC_WORKERS]; /* how often each worker is to be started again */
    int free[SPEC_WORKERS];   /* of those that may join now; else 0 */
    int admitted;             /* the rank that joins now, -1: none does */
};

struct server {
    struct server *before; /* another one that was left behind */
    const struct server_policy *policy;
    struct rank_env *env;
    struct updates updates;
    struct arrival *arrival;  /* the next push; owned */
    struct arrival *torn;     /* list of those of workers that died in the middle; owned */
    float *stats;             /* [n_stats] running statistics, merged; owned */
    size_t n, n_stats;        /* n: this server's own range of the block */
    float *full, *full_optim; /* [n_params], [blocks][n_params] of all servers, for a state; NULL
                                 with one server */
    struct cursor cursor;
    struct slice *redo; /* [RUN_SLICES] to be handed out again */
    int n_redo;
    int64_t taken; /* gradients since the start of this attempt */
    struct server_group group;
    int n_out, n_kept, n_ended,
        n_left; /* clients with a slice, a kept one, an end; that have left */
    int parked[SPEC_WORKERS], n_parked; /* clients that wait, ascending */
    struct server_seats seats;
    bool lost_any; /* a worker was lost, whether or not it is there again */
    int64_t least; /* clock of the slowest client, -1: to be found */
    struct client *clients;
    int64_t applied;
    struct agenda agenda;
    struct control control;
    struct server_evaluation eval;
    bool quits;  /* a program has left before its epochs were over, whose samples may be left */
    double busy; /* share of time */
    enum run_outcome outcome;
    /* where workers keep states of their own: */
    struct own_state *own;   /* [workers] as given last; owned */
    bool collecting;         /* they are asked for theirs, and a checkpoint is written then */
    enum save_why last_save; /* once the outcome is known: what is written at the very end */
    struct run_state *state;
};

/* How far a worker is, for those that wait for the slowest one (server_policy.lead). */
static inline int64_t server_clock(const struct client *k)
{
    return k->pushes + k->ahead_of;
}

/* What the further servers do as well. */
static inline int server_order(struct server *s, enum order_kind kind, int rank, struct err *e)
{
    struct order o = {.kind = kind, .rank = rank};
    return shard_order(s->env->comm, &o, e);
}

/* server_state.c */
int server_init(struct server *s, struct rank_env *env, const struct run_state *from,
                struct err *e);
void server_release(struct server *s);
/* Saves a state of all servers: the newest weights, or those under evaluation (SAVE_BEST). */
int server_save(struct server *s, enum save_why why, struct err *e);

/* A checkpoint, now or once every worker has given its own state. */
int server_checkpoint(struct server *s, struct err *e);
/* The last state, now or once every worker has given its own. The outcome is known. */
int server_save_last(struct server *s, enum save_why why, struct err *e);
/* A worker's own state comes; the checkpoint that waited for it may be complete. */
int server_take_own_state(struct server *s, int rank, struct err *e);
/* Saves the checkpoint that waits for workers' own states, if all that are left have given theirs.
 */
int server_complete_checkpoint(struct server *s, struct err *e);
/* Has every worker given its own state for the state under way? */
bool server_has_own_states(const struct server *s);

/* slices.c */
/* Is nothing left to be handed out, or nobody there that takes it? Slices are kept for workers that
 * evaluate. */
bool server_nothing_left(const struct server *s);
bool server_slices_kept(const struct server *s);
/* Of the slice that is handed out next. */
int64_t server_next_epoch(const struct server *s);
/* A client's slice that is out, that is kept, its test slice; NULL and 0: none any more. */
void server_set_out(struct server *s, struct client *k, const struct slice *slice);
void server_set_kept(struct server *s, struct client *k, const struct slice *slice);
void server_set_evaluating(struct server *s, struct client *k, int64_t samples);
/* Waits until a client's last answer has left, or the client is lost. */
int server_settle_reply(struct server *s, int rank, struct err *e);
/* A slice that is handed out again, to any worker. */
void server_redo(struct server *s, const struct slice *slice);
/* A worker computed nothing of its slice that is out: it gets the slice once more, unless the job
 * stops or pauses. */
void server_take_back(struct server *s, int rank);
/* A worker's program leaves before what is out: the run ends with the epoch before that one. */
void server_let_go(struct server *s, int rank);
/* The same in the middle of its epochs: its slices are for the others, which go on. */
void server_let_quit(struct server *s, int rank);
/* Parks a worker; answers all parked workers for which there is something. */
void server_park(struct server *s, int rank);
int server_serve_parked(struct server *s, struct err *e);

/* wait.c */
/* Waits for an exchange with `rank`, or with any (TRANSPORT_ANY): COMM_DONE; COMM_UNDER_WAY: that
 * rank is lost, or there is a lost one to be dropped; or negative. */
int server_wait(struct server *s, struct comm_op *op, int rank, struct err *e);
/* Marks the workers that were declared lost; is there one that is not dropped yet? */
bool server_note_lost(struct server *s);
/* Does a worker wait for the seat of one that died, and may take it? Then s->seats.admitted. */
bool server_admits(struct server *s);
/* Room for the next push, where the last one is complete or there is none; else the last one is
 * put aside. */
int server_renew_arrival(struct server *s, struct err *e);
void server_release_arrivals(struct server *s);

/* lost.c */
/* Takes everything from the workers that were lost since and tells of it; how many they are. */
int server_drop_lost(struct server *s);
/* What the server took of a worker so far: also the gradients in a group that is not complete. The
 * caller releases out->staleness. */
void server_account(const struct server *s, int rank, struct departure *out);

/* seats.c */
/* The worker that was admitted is one as any other from here on, and gets its first slice. */
int server_take_back_seat(struct server *s, struct err *e);

/* evaluation.c */
int server_begin_evaluation(struct server *s, struct err *e);
/* A worker's result of a test slice. */
int server_evaluated(struct server *s, const struct push_head *push, struct err *e);
/* What a user's program measured by itself, on the weights that it was given. */
int server_measured(struct server *s, const struct push_head *push, struct err *e);

#endif
