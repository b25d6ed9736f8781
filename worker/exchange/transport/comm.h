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
    int place[COMM_GROUPS];        /* of this rank among the members */
    int *groups;                   /* [workers] as they were set; owned; NULL: they were not */
    bool remote[COMM_GROUPS];      /* they are on several hosts, whose links are real */
    bool native;                   /* exchange.allreduce is "mpi" */
    uint32_t serials[COMM_GROUPS]; /* all-reduces started per group: their tags */
    /* With evenstep-simulate --timing-only, which computes no numbers: floats that take time on the
     * link but do not exist. They stand at the head of every all-reduce of a group, and of a
     * message whose body has no floats. Else 0. */
    size_t hollow[COMM_GROUPS], hollow_body;
    double deadline; /* seconds that any wait may take, 120 by default; 0 none */
    /* Has a worker been lost or come back (docs/decisions/0022, 0062), of which comm_drop() was not
     * told? Called by whoever waits, before the wait too. NULL: nobody asks. */
    bool (*changed)(void *ctx);
    void *changed_ctx;
    bool watches;   /* once one has, waits end with ERR_CANCELLED, and the operation goes on */
    int generation; /* of the group of all */
};

/* How often the group of all may change: tags of all-reduces tell so many generations apart. */
enum { COMM_GENERATIONS = 8191 };

int comm_init(struct comm *c, struct transport *t, int workers, int servers, struct err *e);
/* groups[i] is the group number of worker i. */
int comm_set_groups(struct comm *c, const int *groups, struct err *e);
void comm_release(struct comm *c);

double comm_now(struct comm *c); /* seconds: monotonic, or of the virtual clock */
/* `share` of the step's work on `count` samples is done: waits where the node is slowed down, and
 * moves the node's time on a virtual clock. */
void comm_pace(struct comm *c, double share, int count);

/* COMM_DONE, COMM_UNDER_WAY, or negative. */
int comm_test(struct comm_op *op);
/* At the deadline (ERR_TIMEOUT) the exchange is abandoned, since `op` may lie on the caller's
 * stack. */
int comm_wait(struct comm *c, struct comm_op *op, struct err *e);
/* As comm_wait(), for what lies on the caller's stack also where the wait ends before `op` does: if
 * it fails, all exchange of this rank is abandoned. */
int comm_wait_on_stack(struct comm *c, struct comm_op *op, struct err *e);
/* As comm_wait(), for at most this many seconds: COMM_DONE; COMM_UNDER_WAY: `op` goes on; or
 * negative. */
int comm_wait_for(struct comm *c, struct comm_op *op, double seconds, struct err *e);
/* As comm_wait(), but returns once this many parts have come. */
int comm_wait_parts(struct comm *c, struct comm_op *op, int parts, struct err *e);
/* Ends one operation, which a lost rank may have left under way for ever. It has failed afterwards,
 * or had ended before. For a quarter of a second messages that have begun to arrive are received.
 * If one of them does not end, op->torn is set, and its memory must not be used again. */
int comm_cancel(struct comm *c, struct comm_op *op, struct err *e);
/* For the step() of an operation that was cancelled: ends its n receives and m sends that are under
 * way; COMM_UNDER_WAY, or negative at the end, with the op's err set. */
int comm_end_requests(struct comm_op *op, struct transport *t, struct transport_req **receives,
                      int n, struct transport_req **sends, int m);
/* The group of all, and this rank's own, are their workers but lost[n] from now on, and their
 * generation is a later one. All-reduces begin anew, and take no older message. Call it while no
 * operation of these groups is under way. */
void comm_drop(struct comm *c, const int *lost, int n, int generation);
/* Ends all exchange of a rank that failed. Operations under way are not touched any more, so that
 * they may be freed; new ones fail. */
void comm_abandon(struct comm *c);

/* A message is a header of fixed size and a body of floats. Each is a transfer of its own, and both
 * are under way at once. Both sides agree whether there is a body. Tags are below 1000, with
 * TRANSPORT_LENT where the sender leaves the body unchanged until the receiver has answered. */
struct message {
    struct comm_op op;
    struct comm *comm;
    int peer, tag; /* peer: TRANSPORT_ANY to receive from any rank */
    int from;      /* of a receive: the rank that sent it, once it is done */
    bool sending;
    void *head;
    size_t head_bytes;
    float *body;       /* of a receive: the buffer; then the address of the body, for a lent one
                          perhaps the sender's block */
    size_t body_bytes; /* of a receive: room; then what came */
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
/* Returns when all ranks (workers, keeper, servers) have called it, at nearly the same moment
 * everywhere. */
int comm_meet(struct comm *c, struct err *e);

#endif
