/* Comm: what a strategy may use to talk to other ranks. Works on any transport.
 *
 * Ranks 0..W-1 are workers, rank W is the keeper and first server, more servers follow
 * (docs/semantics.md#ranks). Groups: all workers; the workers of my group (one host, or S in a
 * row); the first worker of each group.
 */
#ifndef WORKER_EXCHANGE_COMM_H
#define WORKER_EXCHANGE_COMM_H

#include "worker/exchange/transport/transport.h"

enum comm_group { COMM_ALL, COMM_MINE, COMM_LEADERS, COMM_GROUPS };

struct comm {
    struct transport *t;           /* borrowed */
    int rank, workers, servers;    /* servers >= 1: rank W is always there */
    int *members[COMM_GROUPS];     /* ranks, ascending; owned */
    int n_members[COMM_GROUPS];    /* 0: this rank is not in the group */
    int place[COMM_GROUPS];        /* this rank's index among the members */
    int *groups;                   /* [workers] as comm_set_groups() set them; owned; NULL: not
                                      set */
    bool remote[COMM_GROUPS];      /* the members are on several hosts, and the links are real */
    bool native;                   /* exchange.allreduce is "mpi" */
    uint32_t serials[COMM_GROUPS]; /* all-reduces started per group: their tags */
    /* Floats that take time on the link but do not exist, for evenstep-simulate --timing-only,
     * which computes no numbers. They stand at the head of every all-reduce of a group, and of a
     * message whose body has no floats. Else 0. */
    size_t hollow[COMM_GROUPS], hollow_body;
    double deadline; /* seconds that a wait may take, 120 by default; 0: no limit */
    /* Has a worker been lost or come back (docs/decisions/0022, 0062) since the last comm_drop()?
     * Waits call it, also before they begin. NULL: waits do not ask. */
    bool (*changed)(void *ctx);
    void *changed_ctx;
    bool watches;   /* waits end with ERR_CANCELLED once `changed` says yes; the operation goes
                       on */
    int generation; /* of the group COMM_ALL */
};

/* How often COMM_ALL may change. The tags of all-reduces have room for this many generations. */
enum { COMM_GENERATIONS = 8191 };

int comm_init(struct comm *c, struct transport *t, int workers, int servers, struct err *e);
/* groups[i] is the group number of worker i. */
int comm_set_groups(struct comm *c, const int *groups, struct err *e);
void comm_release(struct comm *c);

double comm_now(struct comm *c); /* seconds, monotonic or virtual */
/* Says that `share` of the step's work on `count` samples is done. It waits where the node is
 * slowed down, and advances the node's time on a virtual clock. */
void comm_pace(struct comm *c, double share, int count);

/* COMM_DONE, COMM_UNDER_WAY, or negative. */
int comm_test(struct comm_op *op);
/* At the deadline it abandons the exchange and fails with ERR_TIMEOUT, since `op` may lie on the
 * caller's stack. */
int comm_wait(struct comm *c, struct comm_op *op, struct err *e);
/* As comm_wait(), for an `op` on the caller's stack. If the wait fails before `op` has ended, it
 * abandons all exchange of this rank. */
int comm_wait_on_stack(struct comm *c, struct comm_op *op, struct err *e);
/* As comm_wait(), for at most this many seconds. Returns COMM_DONE, COMM_UNDER_WAY (`op` goes on),
 * or negative. */
int comm_wait_for(struct comm *c, struct comm_op *op, double seconds, struct err *e);
/* As comm_wait(), but returns once this many parts have come. */
int comm_wait_parts(struct comm *c, struct comm_op *op, int parts, struct err *e);
/* Ends one operation, which a lost rank may have left under way for ever. Afterwards the operation
 * has failed, or it had ended before. It receives messages that have begun to arrive, for a quarter
 * of a second. If one of them does not end, it sets op->torn, and the operation's memory must not
 * be used again. */
int comm_cancel(struct comm *c, struct comm_op *op, struct err *e);
/* For the step() of a cancelled operation: ends the n receives and m sends that are under way.
 * Returns COMM_UNDER_WAY, and at the end a negative code with the op's err set. */
int comm_end_requests(struct comm_op *op, struct transport *t, struct transport_req **receives,
                      int n, struct transport_req **sends, int m);
/* Removes the workers lost[n] from COMM_ALL and COMM_MINE and gives both a later generation. Their
 * all-reduces begin anew and take no older message. Call it while no operation of these groups is
 * under way. */
void comm_drop(struct comm *c, const int *lost, int n, int generation);
/* Ends all exchange of a rank that failed. Operations under way are no longer touched, so the
 * caller may free them. New ones fail. */
void comm_abandon(struct comm *c);

/* A message is a header of fixed size and a body of floats. They are two transfers, and both are
 * under way at once. Both sides agree whether there is a body. Tags are below 1000. TRANSPORT_LENT
 * is added where the sender leaves the body unchanged until the receiver has answered. */
struct message {
    struct comm_op op;
    struct comm *comm;
    int peer, tag; /* peer: TRANSPORT_ANY to receive from any rank */
    int from;      /* of a receive: the rank that sent it, once it is done */
    bool sending;
    void *head;
    size_t head_bytes;
    float *body;       /* of a receive: the buffer; once done, where the body is. A lent body may
                          stay in the sender's memory */
    size_t body_bytes; /* of a receive: the buffer's size; once done, the bytes that came */
    size_t hollow;
    struct transport_req r[2];
    int phase;
};
void message_send(struct message *m, struct comm *c, int to, int tag, void *head, size_t head_bytes,
                  float *body, size_t floats);
void message_recv(struct message *m, struct comm *c, int from, int tag, void *head,
                  size_t head_bytes, float *body, size_t floats);

/* Rank `root` gives data[bytes] to all others (workers, keeper, servers). Blocks. All ranks name
 * the same number of bytes. */
int comm_broadcast(struct comm *c, int root, void *data, size_t bytes, struct err *e);
/* Returns when all ranks (workers, keeper, servers) have called it. It returns everywhere at nearly
 * the same time. */
int comm_meet(struct comm *c, struct err *e);

#endif
