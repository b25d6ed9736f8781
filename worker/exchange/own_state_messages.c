/* See own_state_messages.h. A header tells how many bytes follow. They are sent in pieces, since a
 * message counts its bytes as an int. */
#include "worker/exchange/own_state_messages.h"

enum { TAG_OWN_STATE = 30, TAG_OWN_PIECE };
enum { PIECE_FLOATS = 16 << 20 };

struct own_head {
    int64_t bytes;
};

typedef void message_fn(struct message *m, struct comm *c, int peer, int tag, void *head,
                        size_t head_bytes, float *body, size_t floats);

/* How a message is awaited. */
struct waiting {
    own_state_wait_fn *fn;
    void *ctx;
    bool torn; /* the last message may still arrive */
};

static int move_pieces(struct comm *c, int peer, message_fn *begin, const struct own_state *s,
                       struct waiting *by, struct err *e)
{
    size_t left = own_state_floats(s->n);
    float *at = (float *)(void *)s->bytes;
    int rc = 0;
    while (left > 0 && rc == 0) {
        size_t n = left < PIECE_FLOATS ? left : PIECE_FLOATS;
        struct message m;
        char none = 0;
        begin(&m, c, peer, TAG_OWN_PIECE, &none, 1, at, n);
        rc = by->fn(by->ctx, &m, e);
        by->torn = m.op.torn;
        at += n;
        left -= n;
    }
    return rc;
}

static int wait_for(void *ctx, struct message *m, struct err *e)
{
    return comm_wait_on_stack(ctx, &m->op, e);
}

int own_state_send_by(struct comm *c, int to, const struct own_state *s, own_state_wait_fn *wait,
                      void *ctx, struct err *e)
{
    struct own_head head = {.bytes = (int64_t)s->n};
    struct waiting by = {.fn = wait, .ctx = ctx};
    struct message m;
    message_send(&m, c, to, TAG_OWN_STATE, &head, sizeof head, NULL, 0);
    int rc = wait(ctx, &m, e);
    return rc == 0 ? move_pieces(c, to, message_send, s, &by, e) : rc;
}

int own_state_send(struct comm *c, int to, const struct own_state *s, struct err *e)
{
    double deadline = c->deadline;
    c->deadline = 0;
    int rc = own_state_send_by(c, to, s, wait_for, c, e);
    c->deadline = deadline;
    return rc < 0 ? rc : 0;
}

static int receive(struct comm *c, int from, struct own_state *out, struct waiting *by,
                   struct err *e)
{
    struct own_head head = {0};
    struct message m;
    int rc;
    message_recv(&m, c, from, TAG_OWN_STATE, &head, sizeof head, NULL, 0);
    if ((rc = by->fn(by->ctx, &m, e)) != 0) {
        return rc;
    }
    if (head.bytes < 0 || head.bytes > OWN_STATE_MOST) {
        return err_set(e, ERR_PEER, "rank %d sent a state of %lld bytes", from,
                       (long long)head.bytes);
    }
    if (head.bytes == 0) {
        return 0;
    }
    if ((rc = own_state_alloc(out, (size_t)head.bytes, e)) < 0) {
        return rc;
    }
    if ((rc = move_pieces(c, from, message_recv, out, by, e)) != 0 && by->torn) {
        *out = (struct own_state){0}; /* a piece may still be written to it */
    } else if (rc != 0) {
        own_state_release(out);
    }
    return rc;
}

int own_state_receive_by(struct comm *c, int from, struct own_state *out, own_state_wait_fn *wait,
                         void *ctx, struct err *e)
{
    struct waiting by = {.fn = wait, .ctx = ctx};
    *out = (struct own_state){0};
    return receive(c, from, out, &by, e);
}

int own_state_receive(struct comm *c, int from, struct own_state *out, struct err *e)
{
    double deadline = c->deadline;
    c->deadline = 0;
    int rc = own_state_receive_by(c, from, out, wait_for, c, e);
    c->deadline = deadline;
    return rc < 0 ? rc : 0;
}
