/* The server's state, which its files share. A file calls only those below it:
 *
 *   server.c         the loop over pushes
 *   evaluation.c     the test set
 *   seats.c          workers that come back
 *   lost.c           workers that died
 *   slices.c         which samples a worker gets
 *   server_state.c   states that are written; start and end
 *   wait.c           waiting for messages while workers may die or come back
 */
#ifndef WORKER_EXCHANGE_SERVER_PARTS_H
#define WORKER_EXCHANGE_SERVER_PARTS_H

#include "worker/exchange/server/shard.h"

struct client { /* a worker as the server sees it */
    /* server_set_out, …_kept and …_evaluating change these three, and count: */
    struct slice out;   /* the slice that it computes; count 0: none */
    struct slice kept;  /* its next slice. It was announced in advance (program.ahead), or the
                           worker evaluates now; slices are handed out in the order of requests */
    int64_t evaluating; /* samples of the test slice that it evaluates */
    bool again;         /* it gets `out` once more */
    bool grouped;       /* its last gradient is in a group that is not complete */
    int64_t pushes;     /* gradients that it has sent */
    bool parked;        /* it waits for an answer */
    bool ended;         /* it was told that the job ends */
    bool told_last;     /* its program knows that no slice follows `out` */
    bool left;          /* its program has made its last epoch */
    bool lost;          /* its process has died; nothing is sent to it or expected from it */
    bool dropped;       /* and its slices were handed to others */
    bool gone;          /* the control document says that it is lost */
    int seat;           /* seat of its process */
    int64_t ahead_of;   /* gradients of others that count as its own in server_clock */
    double parked_at;
    struct reply_head reply; /* the answer, and its messages: */
    struct message head, weights, stats_sent;
    bool sending;
    struct version *held; /* the weights that it has or receives */
    float *stats;         /* [n_stats] and the statistics that belong to them */
    struct staleness staleness;
    bool gave; /* it has sent its own state for the checkpoint that is being collected */
};

/* The next push, expected or arriving. It is on the heap, because the push of a worker that died in
 * the middle of it stays under way. */
struct arrival {
    struct arrival *torn; /* the next push of a worker that died so; NULL: none */
    struct message head, gradient, stats;
    struct push_head push;
    char none, no_head;
    bool awaited;    /* `head` is being received */
    float *g;        /* [n] receives the gradient; owned */
    float *stats_of; /* [n_stats] receives running statistics; owned */
};

/* The current evaluation, and the result of the last one (evaluation.c). */
struct server_evaluation {
    bool due, under_way;
    struct version *snapshot;         /* what is evaluated; NULL: nothing was evaluated yet */
    float *stats;                     /* [n_stats] its running statistics; owned */
    int64_t step, applied;            /* its version, and the samples applied until then */
    double time;                      /* when it was taken */
    int64_t next, done;               /* samples of the test set: handed out, measured */
    int n_out;                        /* clients that evaluate a test slice */
    struct slice again[SPEC_WORKERS]; /* [n_again] test slices of lost workers */
    int n_again;
    double loss, correct;               /* sums over the measured samples */
    int64_t last_version, last_applied; /* of the last evaluation; -1: there was none */
    double last_accuracy, last_loss, best;
    bool target_reached;
};

/* softsync: the group of gradients that is not complete. */
struct server_group {
    struct slice slices[SPEC_WORKERS]; /* [n] of its gradients */
    int by[SPEC_WORKERS];              /* [n] their ranks */
    int late[SPEC_WORKERS];            /* [n] their staleness */
    int n;
};

/* Workers that come back (seats.c). */
struct server_seats {
    bool known;
    int wanted[SPEC_WORKERS]; /* the seat that each worker is to have, by the control document */
    int free[SPEC_WORKERS];   /* the same for workers that may join now; 0 for others */
    int admitted;             /* the rank that joins now; -1: none */
    double awaited_at;        /* comm_now() when the last slices began to wait for one; 0: they do
                                 not */
};

struct server {
    struct server *before; /* another one that stays in memory until the process ends, because
                              messages to or from lost workers are still under way */
    const struct server_policy *policy;
    struct rank_env *env;
    struct updates updates;
    struct arrival *arrival;  /* the next push; owned */
    struct arrival *torn;     /* list of the pushes of workers that died in the middle; owned */
    float *stats;             /* [n_stats] merged running statistics; owned */
    size_t n, n_stats;        /* n: this server's range of the parameters */
    float *full, *full_optim; /* [n_params], [blocks][n_params] of all servers, for a checkpoint;
                                 NULL with one server */
    struct cursor cursor;
    struct slice *redo; /* [n_redo], room RUN_SLICES: to be handed out again */
    int n_redo;
    int64_t taken; /* gradients since the start of this attempt */
    struct server_group group;
    int n_out, n_kept;                  /* clients that have `out`, that have `kept` */
    int n_ended, n_left;                /* clients that have ended, that have left */
    int parked[SPEC_WORKERS], n_parked; /* [n_parked] clients that wait, ascending */
    struct server_seats seats;
    bool lost_any; /* a worker was lost, even if it has come back since */
    int64_t least; /* clock of the slowest client; -1: not computed */
    struct client *clients;
    int64_t applied;
    struct agenda agenda;
    struct control control;
    struct server_evaluation eval;
    bool quits;  /* a program has left before its epochs were over; its samples may stay unused */
    double busy; /* part of the time, 0 to 1 */
    enum run_outcome outcome;
    /* where workers have own states: */
    struct own_state *own;   /* [workers] as received last; owned */
    bool collecting;         /* workers were asked for them; then a checkpoint is written */
    enum save_why last_save; /* what is written at the end, once the outcome is known */
    struct run_state *state;
};

/* How far a worker is, for strategies in which fast workers wait for slow ones
 * (server_policy.lead). */
static inline int64_t server_clock(const struct client *k)
{
    return k->pushes + k->ahead_of;
}

/* Sends an order to the further servers. */
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

/* Saves a checkpoint, now or when every worker has sent its own state. */
int server_checkpoint(struct server *s, struct err *e);
/* Saves the last state, now or when every worker has sent its own. The outcome must be known. */
int server_save_last(struct server *s, enum save_why why, struct err *e);
/* Receives a worker's own state, and saves the checkpoint if that was the last one. */
int server_take_own_state(struct server *s, int rank, struct err *e);
/* Saves the checkpoint that is being collected, if all workers that are left have sent theirs. */
int server_complete_checkpoint(struct server *s, struct err *e);
/* Has every worker sent its own state for it? */
bool server_has_own_states(const struct server *s);

/* slices.c */
/* Is there no slice to hand out, or no worker that would take one? */
bool server_nothing_left(const struct server *s);
/* Are slices kept for workers that evaluate now? */
bool server_slices_kept(const struct server *s);
/* The epoch of the slice that is handed out next. */
int64_t server_next_epoch(const struct server *s);
/* Set a client's `out`, `kept` and `evaluating`; NULL, or 0: none. */
void server_set_out(struct server *s, struct client *k, const struct slice *slice);
void server_set_kept(struct server *s, struct client *k, const struct slice *slice);
void server_set_evaluating(struct server *s, struct client *k, int64_t samples);
/* Waits until a client's last answer was sent, or the client is lost. */
int server_settle_reply(struct server *s, int rank, struct err *e);
/* Hands out a slice again, to any worker. */
void server_redo(struct server *s, const struct slice *slice);
/* A worker has not computed `out`: it gets the slice once more, unless the job stops or pauses. */
void server_take_back(struct server *s, int rank);
/* A worker's program leaves before `out`: the run ends with the epoch before that one. */
void server_let_go(struct server *s, int rank);
/* A worker's program leaves in the middle of its epochs: its slices go to the others. */
void server_let_quit(struct server *s, int rank);
/* Lets a worker wait for its answer. */
void server_park(struct server *s, int rank);
/* Answers all waiting workers for which there is work. */
int server_serve_parked(struct server *s, struct err *e);

/* wait.c */
/* Waits for a message to or from `rank`, or from any (TRANSPORT_ANY). COMM_DONE; COMM_UNDER_WAY if
 * that rank is lost, or another one that was not dropped yet; or negative. */
int server_wait(struct server *s, struct comm_op *op, int rank, struct err *e);
/* Marks the workers that the coordinator has declared lost. Is there one that was not dropped yet?
 *  */
bool server_note_lost(struct server *s);
/* Is a worker waiting to come back, and may it? Then its rank is s->seats.admitted. */
bool server_admits(struct server *s);
/* Makes room for the next push. If the last one is still under way, it is moved to `torn`. */
int server_renew_arrival(struct server *s, struct err *e);
void server_release_arrivals(struct server *s);

/* lost.c */
/* Drops the workers that were lost since the last call: hands out their slices again and reports
 * them. Returns their number. */
int server_drop_lost(struct server *s);
/* Counts what the server has taken from a worker, including gradients in a group that is not
 * complete. The caller releases out->staleness. */
void server_account(const struct server *s, int rank, struct departure *out);

/* seats.c */
/* Slices are left that only a lost worker's next process would take. Is that one worth waiting for?
 * Asked again and again, at every look. */
bool server_expects(struct server *s);
/* Makes the admitted worker a client like the others, with a first slice. */
int server_take_back_seat(struct server *s, struct err *e);

/* evaluation.c */
int server_begin_evaluation(struct server *s, struct err *e);
/* Takes a worker's result of a test slice. */
int server_evaluated(struct server *s, const struct push_head *push, struct err *e);
/* Takes what a user's program has measured by itself, on the weights that it had received. */
int server_measured(struct server *s, const struct push_head *push, struct err *e);

#endif
