/* Comm, the front that strategies see: groups, messages, broadcast. It holds no thread and no
 * library: an operation is a small state machine that the transport runs (transport.h).
 *
 * Tags: strategies use 0 … 999. Collectives have higher tags with a serial number, so two that are
 * under way at once never take each other's messages. */
#include "worker/exchange/transport/comm.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BROADCAST_TAG = 1000, MEET_TAG }; /* strategies use 0 … 999 */
static const double LOOK_SECONDS = 0.02, SETTLE_SECONDS = 0.25, CANCEL_SECONDS = 10;

/* On a virtual clock there is one way for every message. */
static bool leaves_host(const struct comm *c, enum comm_group group)
{
    const struct transport_ops *ops = c->t->ops;
    bool leaves = false;
    for (int i = 1; i < c->n_members[group] && !leaves && !ops->weigh; i++) {
        leaves = strcmp(ops->host(c->t, c->members[group][i]),
                        ops->host(c->t, c->members[group][0])) != 0;
    }
    return leaves;
}

static void take_all(struct comm *c)
{
    for (int i = 0; i < c->workers; i++) {
        c->members[COMM_ALL][i] = i;
    }
    c->n_members[COMM_ALL] = c->rank < c->workers ? c->workers : 0;
    c->place[COMM_ALL] = c->rank < c->workers ? c->rank : 0;
}

int comm_init(struct comm *c, struct transport *t, int workers, int servers, struct err *e)
{
    memset(c, 0, sizeof *c);
    c->t = t;
    c->rank = t->ops->rank(t);
    c->workers = workers;
    c->servers = servers;
    c->deadline = 120;
    if (workers < 1 || servers < 1 || t->ops->size(t) != workers + servers) {
        return err_set(e, ERR_INTERNAL,
                       "%d ranks were started, %d workers and %d servers are needed",
                       t->ops->size(t), workers, servers);
    }
    c->members[COMM_ALL] = calloc((size_t)workers, sizeof(int));
    if (!c->members[COMM_ALL]) {
        return err_set(e, ERR_MEMORY, "cannot hold the list of %d ranks: memory ran out", workers);
    }
    take_all(c);
    c->remote[COMM_ALL] = leaves_host(c, COMM_ALL);
    return 0;
}

static void take_mine(struct comm *c)
{
    int n = 0;
    for (int i = 0; i < c->workers && c->groups && c->rank < c->workers; i++) {
        if (c->groups[i] == c->groups[c->rank]) {
            c->place[COMM_MINE] = i == c->rank ? n : c->place[COMM_MINE];
            c->members[COMM_MINE][n++] = i;
        }
    }
    c->n_members[COMM_MINE] = n;
}

int comm_set_groups(struct comm *c, const int *groups, struct err *e)
{
    size_t W = (size_t)c->workers;
    int *own = calloc(W, sizeof(int)), *mine = calloc(W, sizeof(int)),
        *leaders = calloc(W, sizeof(int));
    int n_leaders = 0;
    bool leader = false;
    if (!own || !mine || !leaders) {
        free(own);
        free(mine);
        free(leaders);
        return err_set(e, ERR_MEMORY, "cannot hold the groups of %d ranks: memory ran out",
                       c->workers);
    }
    for (int i = 0; i < c->workers; i++) {
        bool first = true;
        for (int j = 0; j < i; j++) {
            first = first && groups[j] != groups[i];
        }
        if (first) {
            c->place[COMM_LEADERS] = i == c->rank ? n_leaders : c->place[COMM_LEADERS];
            leaders[n_leaders++] = i;
            leader = leader || i == c->rank;
        }
        own[i] = groups[i];
    }
    free(c->groups);
    free(c->members[COMM_MINE]);
    free(c->members[COMM_LEADERS]);
    c->groups = own;
    c->members[COMM_MINE] = mine;
    take_mine(c);
    c->members[COMM_LEADERS] = leaders;
    c->n_members[COMM_LEADERS] = leader ? n_leaders : 0;
    c->remote[COMM_MINE] = leaves_host(c, COMM_MINE);
    c->remote[COMM_LEADERS] = leaves_host(c, COMM_LEADERS);
    return 0;
}

void comm_release(struct comm *c)
{
    for (int g = 0; g < COMM_GROUPS; g++) {
        free(c->members[g]);
    }
    free(c->groups);
    memset(c, 0, sizeof *c);
}

double comm_now(struct comm *c)
{
    return c->t->ops->now(c->t);
}

void comm_pace(struct comm *c, double share, int count)
{
    c->t->ops->pace(c->t, share, count);
}

int comm_test(struct comm_op *op)
{
    return atomic_load_explicit(&op->state, memory_order_acquire);
}

int comm_wait(struct comm *c, struct comm_op *op, struct err *e)
{
    return comm_wait_parts(c, op, INT_MAX, e);
}

static int failed_op(const struct comm *c, const struct comm_op *op, struct err *e)
{
    if (op->err.code) {
        return err_set(e, op->err.code, "%s", op->err.message);
    }
    return err_set(e, ERR_PEER, "an exchange of rank %d failed", c->rank);
}

/* As transport_ops.wait, in short waits. It asks c->changed() before each of them, since nothing
 * else announces a change. */
static int wait_watching(struct comm *c, struct comm_op *op, int parts, double deadline,
                         bool *changed)
{
    int rc = COMM_UNDER_WAY;
    double until = 0;
    while (rc == COMM_UNDER_WAY && !(*changed = c->changed(c->changed_ctx)) &&
           (deadline <= 0 || until != deadline)) {
        until = comm_now(c) + LOOK_SECONDS;
        until = deadline > 0 && deadline < until ? deadline : until;
        rc = c->t->ops->wait(c->t, op, parts, until);
    }
    return rc;
}

int comm_wait_parts(struct comm *c, struct comm_op *op, int parts, struct err *e)
{
    double deadline = c->deadline > 0 ? comm_now(c) + c->deadline : 0;
    bool changed = false;
    int rc = c->watches && c->changed ? wait_watching(c, op, parts, deadline, &changed)
                                      : c->t->ops->wait(c->t, op, parts, deadline);
    if (changed) {
        return err_set(e, ERR_CANCELLED, "a worker was lost, or has come back");
    }
    if (rc == COMM_UNDER_WAY) {
        comm_abandon(c);
        return err_set(e, ERR_TIMEOUT, "rank %d waited %.0f s for another rank", c->rank,
                       c->deadline);
    }
    return rc < 0 ? failed_op(c, op, e) : 0;
}

int comm_wait_on_stack(struct comm *c, struct comm_op *op, struct err *e)
{
    int rc = comm_wait(c, op, e);
    if (rc < 0) {
        comm_abandon(c);
    }
    return rc;
}

int comm_wait_for(struct comm *c, struct comm_op *op, double seconds, struct err *e)
{
    int rc = c->t->ops->wait(c->t, op, INT_MAX, comm_now(c) + seconds);
    return rc < 0 ? failed_op(c, op, e) : rc;
}

void comm_abandon(struct comm *c)
{
    if (c->t->ops->abandon) {
        c->t->ops->abandon(c->t);
    }
}

/* ---- workers that are lost ------------------------------------------------------------------- */

int comm_end_requests(struct comm_op *op, struct transport *t, struct transport_req **receives,
                      int n, struct transport_req **sends, int m)
{
    bool first = op->cancelled_at == 0;
    double now = t->ops->now(t);
    op->cancelled_at = first ? now : op->cancelled_at;
    op->torn = false;
    for (int i = 0; i < n; i++) {
        if (first) {
            t->ops->cancel(t, receives[i]);
        }
        op->torn = t->ops->test(t, receives[i]) == COMM_UNDER_WAY || op->torn;
    }
    if (op->torn && now - op->cancelled_at < SETTLE_SECONDS) {
        return COMM_UNDER_WAY;
    }
    for (int i = 0; i < n; i++) {
        t->ops->forget(t, receives[i]);
    }
    for (int i = 0; i < m; i++) {
        t->ops->forget(t, sends[i]);
    }
    return err_set(&op->err, ERR_CANCELLED, "an exchange was given up: a worker is lost");
}

int comm_cancel(struct comm *c, struct comm_op *op, struct err *e)
{
    atomic_store(&op->cancelled, true);
    int rc = c->t->ops->wait(c->t, op, INT_MAX, comm_now(c) + CANCEL_SECONDS);
    if (rc == COMM_UNDER_WAY) {
        comm_abandon(c);
        return err_set(e, ERR_TIMEOUT, "rank %d cannot give up an exchange", c->rank);
    }
    return 0;
}

static void drop_from(struct comm *c, enum comm_group group, const int *lost, int n)
{
    int left = 0;
    for (int i = 0; i < c->n_members[group]; i++) {
        int rank = c->members[group][i];
        bool gone = false;
        for (int k = 0; k < n; k++) {
            gone = gone || lost[k] == rank;
        }
        if (!gone) {
            c->place[group] = rank == c->rank ? left : c->place[group];
            c->members[group][left++] = rank;
        }
    }
    c->n_members[group] = left;
    c->remote[group] = leaves_host(c, group);
    c->serials[group] = 0;
}

void comm_drop(struct comm *c, const int *lost, int n, int generation)
{
    BUG_ON(generation > COMM_GENERATIONS);
    take_all(c);
    take_mine(c);
    drop_from(c, COMM_ALL, lost, n);
    drop_from(c, COMM_MINE, lost, n);
    c->generation = generation;
}

/* ---- messages -------------------------------------------------------------------------------- */

enum { PHASE_BEGIN, PHASE_HEAD, PHASE_BODY };

static int fail(struct message *m, const char *what)
{
    return err_set(&m->op.err, ERR_PEER, "%s rank %d failed (tag %d)", what, m->from, m->tag);
}

static bool has_body(const struct message *m)
{
    return m->body_bytes > 0 || m->hollow > 0;
}

static int head_tag(const struct message *m)
{
    return (m->tag & ~TRANSPORT_LENT) | TRANSPORT_CONTROL;
}

static int end_cancelled(struct message *m, struct transport *t)
{
    struct transport_req *under_way[2];
    int n = 0;
    if (m->phase == PHASE_HEAD) {
        under_way[n++] = &m->r[0];
    }
    if (has_body(m) && (m->phase == PHASE_BODY || (m->sending && m->phase == PHASE_HEAD))) {
        under_way[n++] = &m->r[1];
    }
    return comm_end_requests(&m->op, t, under_way, m->sending ? 0 : n, under_way,
                             m->sending ? n : 0);
}

static int send_step(struct comm_op *op, struct transport *t)
{
    struct message *m = (struct message *)op;
    if (atomic_load(&op->cancelled)) {
        return end_cancelled(m, t);
    }
    if (m->phase == PHASE_BEGIN) {
        if (t->ops->send(t, m->peer, head_tag(m), m->head, m->head_bytes, &m->r[0]) < 0) {
            return fail(m, "sending to");
        }
        if (m->hollow) {
            t->ops->weigh(t, m->hollow * sizeof(float));
        }
        if (has_body(m) && t->ops->send(t, m->peer, m->tag, m->body, m->body_bytes, &m->r[1]) < 0) {
            return fail(m, "sending to");
        }
        m->phase = PHASE_HEAD;
    }
    if (m->phase == PHASE_HEAD) {
        int rc = t->ops->test(t, &m->r[0]);
        if (rc <= 0) {
            return rc < 0 ? fail(m, "sending to") : 0;
        }
        m->phase = PHASE_BODY;
    }
    int rc = has_body(m) ? t->ops->test(t, &m->r[1]) : 1;
    return rc < 0 ? fail(m, "sending to") : rc;
}

/* The sender of the header also sends the body. */
static int recv_step(struct comm_op *op, struct transport *t)
{
    struct message *m = (struct message *)op;
    if (atomic_load(&op->cancelled)) {
        return end_cancelled(m, t);
    }
    if (m->phase == PHASE_BEGIN) {
        if (t->ops->recv(t, m->peer, head_tag(m), m->head, m->head_bytes, &m->r[0]) < 0) {
            return fail(m, "receiving from");
        }
        m->phase = PHASE_HEAD;
    }
    if (m->phase == PHASE_HEAD) {
        int rc = t->ops->test(t, &m->r[0]);
        if (rc <= 0) {
            return rc < 0 ? fail(m, "receiving from") : 0;
        }
        m->from = m->r[0].from;
        if (!has_body(m)) {
            return 1;
        }
        if (t->ops->recv(t, m->from, m->tag, m->body, m->body_bytes, &m->r[1]) < 0) {
            return fail(m, "receiving from");
        }
        m->phase = PHASE_BODY;
    }
    int rc = t->ops->test(t, &m->r[1]);
    if (rc > 0) {
        m->body_bytes = m->r[1].bytes;
        m->body = m->r[1].at;
    }
    return rc < 0 ? fail(m, "receiving from") : rc;
}

/* It sets field by field, since zeroing the message in `err` would be most of the cost of starting
 * an operation. */
static void op_init(struct comm_op *op, int (*step)(struct comm_op *, struct transport *))
{
    op->step = step;
    atomic_init(&op->state, COMM_UNDER_WAY);
    atomic_init(&op->parts, 0);
    atomic_init(&op->cancelled, false);
    op->cancelled_at = op->started = op->finished = 0;
    op->torn = false;
    op->wanted = 0;
    op->next = NULL;
    err_clear(&op->err);
}

struct bytes {
    void *at;
    size_t n;
};

static void begin(struct message *m, struct comm *c, int peer, int tag, struct bytes head,
                  struct bytes body, bool sending)
{
    op_init(&m->op, sending ? send_step : recv_step);
    memset(m->r, 0, sizeof m->r);
    m->phase = PHASE_BEGIN;
    m->comm = c;
    m->peer = m->from = peer;
    m->tag = tag;
    m->sending = sending;
    m->head = head.at;
    m->head_bytes = head.n;
    m->body = body.at;
    m->body_bytes = body.n;
    m->hollow = body.at && body.n == 0 ? c->hollow_body : 0;
    c->t->ops->start(c->t, &m->op);
}

void message_send(struct message *m, struct comm *c, int to, int tag, void *head, size_t head_bytes,
                  float *body, size_t floats)
{
    begin(m, c, to, tag, (struct bytes){head, head_bytes},
          (struct bytes){body, floats * sizeof(float)}, true);
}

void message_recv(struct message *m, struct comm *c, int from, int tag, void *head,
                  size_t head_bytes, float *body, size_t floats)
{
    begin(m, c, from, tag, (struct bytes){head, head_bytes},
          (struct bytes){body, floats * sizeof(float)}, false);
}

/* ---- broadcast ------------------------------------------------------------------------------- */

/* A binomial tree over ranks counted from the root:  0 ─► 1, then 0 ─► 2, 1 ─► 3, then 0 ─► 4 …
 * Each rank receives once. */
int comm_broadcast(struct comm *c, int root, void *data, size_t bytes, struct err *e)
{
    int size = c->workers + c->servers, me = (c->rank - root + size) % size, rc = 0;
    char none = 0;
    struct message m;
    for (int reach = 1; reach < size && rc >= 0; reach *= 2) { /* ranks below it have the data */
        bool gives = me < reach && me + reach < size, takes = me >= reach && me < 2 * reach;
        int peer = ((gives ? me + reach : me - reach) + root + size) % size;
        if (gives || takes) {
            begin(&m, c, peer, BROADCAST_TAG, (struct bytes){&none, 1}, (struct bytes){data, bytes},
                  gives);
            rc = comm_wait(c, &m.op, e);
        }
    }
    return rc < 0 ? err_prefix(e, "cannot broadcast between the ranks") : 0;
}

/* Dissemination (Hensgen, Finkel & Manber, 1988): after round k every rank has heard from the 2^k
 * ranks before it. */
int comm_meet(struct comm *c, struct err *e)
{
    int size = c->workers + c->servers, rc = 0;
    char none = 0, any;
    for (int reach = 1; reach < size && rc >= 0; reach *= 2) {
        struct message out, in;
        message_send(&out, c, (c->rank + reach) % size, MEET_TAG, &none, 1, NULL, 0);
        message_recv(&in, c, (c->rank - reach + size) % size, MEET_TAG, &any, 1, NULL, 0);
        int came = comm_wait(c, &in.op, e); /* both, since both lie on this stack */
        rc = comm_wait(c, &out.op, came < 0 ? NULL : e);
        rc = came < 0 ? came : rc;
    }
    return rc < 0 ? err_prefix(e, "cannot wait for the other ranks at a barrier") : 0;
}
