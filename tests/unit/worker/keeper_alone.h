/* A keeper without ranks (worker/exchange/lockstep/survival/survivors.h). What it sends is
 * recorded, and a message to a dead process never arrives. The coordinator's orders are a script,
 * and the keeper's reports to it are recorded. */
#ifndef TESTS_UNIT_WORKER_KEEPER_ALONE_H
#define TESTS_UNIT_WORKER_KEEPER_ALONE_H

#include "fixture.h"
#include "no_messages.h"

#include "worker/exchange/lockstep/survival/survivors.h"
#include "worker/exchange/seat.h"

enum { W = 4, SENT = 64 };

static struct wire {
    struct transport t;
    double now;
    int at_door; /* a rank that waits to be let in; -1: none */
    int dead;    /* no message gets through to this rank; -1: to all */
    int n;
    struct sent {
        int to, tag;
        struct verdict said; /* of TAG_VERDICT */
    } sent[SENT];
    int n_given_up;
} wire;

static struct coordinator { /* its orders, and what it was told */
    int seats[W], lost[W], n_lost;
    struct told {
        int who, others;
        int64_t step, pushes, samples;
        bool gone;
    } told[SENT];
    int n;
} coordinator;

static struct keeper {
    struct jobspec *spec;
    struct comm comm;
    struct rank_env env;
    struct survivors s;
} keeper;

/* ---- the transport --------------------------------------------------------------------------- */

static double wire_now(struct transport *t)
{
    (void)t;
    return wire.now;
}

static int wire_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                     struct transport_req *r)
{
    struct sent s = {.to = to, .tag = tag & ~TRANSPORT_CONTROL};
    (void)t;
    if (s.tag == TAG_VERDICT) {
        assert_int_equal(bytes, sizeof s.said);
        memcpy(&s.said, data, bytes);
    }
    assert_true(wire.n < SENT);
    wire.sent[wire.n++] = s;
    r->impl[0] = to == wire.dead;
    return 0;
}

static int wire_test(struct transport *t, struct transport_req *r)
{
    (void)t;
    return r->impl[0] ? COMM_UNDER_WAY : COMM_DONE;
}

static void wire_forget(struct transport *t, struct transport_req *r)
{
    (void)t;
    (void)r;
    wire.n_given_up++;
}

static void wire_start(struct transport *t, struct comm_op *op)
{
    op->state = op->step(op, t);
}

static int wire_wait(struct transport *t, struct comm_op *op, int parts, double deadline)
{
    (void)parts;
    (void)deadline;
    if (op->state == COMM_UNDER_WAY) {
        op->state = op->step(op, t);
    }
    return op->state;
}

static int wire_admit(struct transport *t, const int *seats, int workers)
{
    int rank = wire.at_door;
    (void)t;
    assert_int_equal(workers, W);
    if (rank < 0 || seats[rank] == 0) {
        return -1;
    }
    wire.at_door = -1;
    return rank;
}

static const struct transport_ops ops = {.rank = number_of,
                                         .size = size_of,
                                         .weigh = weigh,
                                         .now = wire_now,
                                         .send = wire_send,
                                         .test = wire_test,
                                         .forget = wire_forget,
                                         .start = wire_start,
                                         .wait = wire_wait,
                                         .admit = wire_admit};

/* ---- the coordinator ------------------------------------------------------------------------- */

static int seats(void *ctx, int *out)
{
    (void)ctx;
    memcpy(out, coordinator.seats, sizeof coordinator.seats);
    return 1;
}

static int lost(void *ctx, int *out)
{
    (void)ctx;
    memcpy(out, coordinator.lost, sizeof coordinator.lost);
    return coordinator.n_lost;
}

static void control(void *ctx, struct control *out)
{
    (void)ctx;
    out->version = 5;
    for (int i = 0; i < W; i++) {
        out->sizes[i] = 10 + i;
    }
}

static void note_told(const struct departure *d, bool gone)
{
    assert_true(coordinator.n < SENT);
    coordinator.told[coordinator.n++] = (struct told){.who = d->who,
                                                      .others = d->others,
                                                      .step = d->step,
                                                      .pushes = d->pushes,
                                                      .samples = (int64_t)d->staleness.samples,
                                                      .gone = gone};
}

static void tell_left(void *ctx, const struct departure *d)
{
    (void)ctx;
    note_told(d, true);
}

static void tell_returned(void *ctx, const struct departure *d)
{
    (void)ctx;
    note_told(d, false);
}

static inline void dies(int rank)
{
    coordinator.lost[coordinator.n_lost++] = rank;
}

/* All lost workers are to take part again, once they have joined. */
static inline void is_started_again(int rank)
{
    coordinator.seats[rank]++;
    coordinator.n_lost = 0;
    wire.at_door = rank;
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static struct silent at_home; /* rank and size */

/* Of a run of four workers that started from step 3, with 10 samples. */
static inline void serve(void)
{
    const struct run_state from = {.version = 3, .applied_samples = 10};
    struct keeper *k = &keeper;
    at_home = (struct silent){{&ops}, W, W + 1};
    memset(k, 0, sizeof *k);
    memset(&coordinator, 0, sizeof coordinator);
    wire = (struct wire){.at_door = -1, .dead = -1, .now = 100};
    k->spec = make_spec(
        "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", \"samples\": 64}, "
        "\"batching\": {\"global_batch\": 16}, \"workers\": 4, \"epochs\": 1}");
    OK(comm_init(&k->comm, &at_home.t, W, 1, &err_));
    k->env = (struct rank_env){.spec = k->spec,
                               .comm = &k->comm,
                               .lost = lost,
                               .seats = seats,
                               .control = control,
                               .left = tell_left,
                               .returned = tell_returned};
    OK(survivors_init(&k->s, &k->env, &from, &err_));
}

static inline void end(void)
{
    survivors_release(&keeper.s);
    comm_release(&keeper.comm);
    drop_spec(keeper.spec);
}

static inline void look(void)
{
    OK(survivors_look(&keeper.s, &err_));
}

/* Makes it check as often as it does while it waits. */
static inline void look_for(double seconds)
{
    for (double until = wire.now + seconds; wire.now < until;) {
        wire.now += 0.02;
        look();
    }
}

#endif
