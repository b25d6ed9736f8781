/* Workers of a lockstep strategy without ranks (worker/exchange/lockstep/survival/survival.h). Each
 * stands alone; what it sends is recorded, and the test hands it on to another worker. The keeper
 * and the coordinator are a script. */
#ifndef TESTS_UNIT_WORKER_WORKER_ALONE_H
#define TESTS_UNIT_WORKER_WORKER_ALONE_H

#include <math.h>

#include "fixture.h"
#include "no_messages.h"

#include "kernels/device.h"
#include "worker/exchange/gradients/gradients.h"
#include "worker/exchange/lockstep/survival/parts.h"

enum { W = 4, KEEPER = W, PARCELS = 64 };

/* A header or a body on its way. */
struct parcel {
    int peer, tag;
    size_t bytes;
    void *data; /* owned */
};

static struct coordinator { /* what it tells all */
    int seats[W], lost[W], n_lost;
} coordinator;

struct place {
    struct silent wire; /* first: the transport */
    double now;
    struct parcel in[PARCELS], out[PARCELS]; /* for it, by it */
    int n_in, n_out;
    struct comm_op *waits;                       /* its background receive; NULL: none */
    int doors, reached[W], admitted[W], at_door; /* at_door: a rank that waits there; -1: none */
    struct jobspec *spec;
    struct device *dev;
    struct dev_replica r;
    struct comm comm;
    struct rank_env env;
    struct lockstep l;
    struct gradients *g;
    struct survival *s;
    struct work work; /* of the current step */
    struct row rows[16];
    int n_rows;
    struct evaluation told; /* the last one */
    int n_told;
    int64_t undone[2]; /* steps, samples */
    int given_up;
    double taken; /* by all, since the last average */
};

/* ---- the transport --------------------------------------------------------------------------- */

static double place_now(struct transport *t)
{
    return ((struct place *)t)->now;
}

static struct parcel copy_parcel(int peer, int tag, const void *data, size_t bytes)
{
    struct parcel p = {peer, tag, bytes, malloc(bytes + 1)};
    assert_non_null(p.data);
    memcpy(p.data, data, bytes);
    return p;
}

static int place_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                      struct transport_req *r)
{
    struct place *p = (struct place *)t;
    (void)r;
    assert_true(p->n_out < PARCELS);
    p->out[p->n_out++] = copy_parcel(to, tag, data, bytes);
    r->impl[0] = 0;
    return 0;
}

static int place_recv(struct transport *t, int from, int tag, void *data, size_t bytes,
                      struct transport_req *r)
{
    (void)t;
    *r = (struct transport_req){.from = from, .bytes = bytes, .at = data};
    r->impl[0] = 1;
    r->impl[1] = (uint64_t)tag;
    return 0;
}

/* The first parcel from that sender with that tag. */
static int place_test(struct transport *t, struct transport_req *r)
{
    struct place *p = (struct place *)t;
    for (int i = 0; i < p->n_in && r->impl[0]; i++) {
        struct parcel *in = &p->in[i];
        if (in->peer == r->from && (uint64_t)in->tag == r->impl[1]) {
            assert_int_equal(in->bytes, r->bytes);
            memcpy(r->at, in->data, in->bytes);
            free(in->data);
            p->n_in--;
            memmove(in, in + 1, (size_t)(p->n_in - i) * sizeof *in);
            r->impl[0] = 0;
        }
    }
    return r->impl[0] ? COMM_UNDER_WAY : COMM_DONE;
}

static int place_cancel(struct transport *t, struct transport_req *r)
{
    (void)t;
    r->impl[0] = 0;
    return 0;
}

static void place_forget(struct transport *t, struct transport_req *r)
{
    (void)t;
    (void)r;
}

static void place_step(struct place *p, struct comm_op *op)
{
    op->state = op->step(op, &p->wire.t);
    p->waits = op->state == COMM_UNDER_WAY ? op : p->waits == op ? NULL : p->waits;
}

static void place_start(struct transport *t, struct comm_op *op)
{
    place_step((struct place *)t, op);
}

/* A message that is not there yet never comes: a wait ends at once, and a wait without a deadline
 * fails. */
static int place_wait(struct transport *t, struct comm_op *op, int parts, double deadline)
{
    (void)parts;
    if (op->state == COMM_UNDER_WAY) {
        place_step((struct place *)t, op);
    }
    ((struct place *)t)->now += deadline > 0 ? 0.02 : 0;
    return op->state;
}

static int place_admit(struct transport *t, const int *seats, int workers)
{
    struct place *p = (struct place *)t;
    int rank = p->at_door;
    assert_int_equal(workers, W);
    if (rank < 0 || seats[rank] == 0) {
        return -1;
    }
    p->at_door = -1;
    p->admitted[rank]++;
    return rank;
}

static void place_open_door(struct transport *t)
{
    ((struct place *)t)->doors++;
}

static int place_reach(struct transport *t, int rank, double seconds, struct err *e)
{
    (void)seconds;
    (void)e;
    ((struct place *)t)->reached[rank]++;
    return 0;
}

static const char *place_host(struct transport *t, int rank)
{
    (void)t;
    (void)rank;
    return "here";
}

static const struct transport_ops place_ops = {.rank = number_of,
                                               .size = size_of,
                                               .host = place_host,
                                               .weigh = weigh,
                                               .now = place_now,
                                               .send = place_send,
                                               .recv = place_recv,
                                               .test = place_test,
                                               .cancel = place_cancel,
                                               .forget = place_forget,
                                               .start = place_start,
                                               .wait = place_wait,
                                               .admit = place_admit,
                                               .open_door = place_open_door,
                                               .reach = place_reach};

/* ---- the rank -------------------------------------------------------------------------------- */

static int say_lost(void *ctx, int *out)
{
    (void)ctx;
    memcpy(out, coordinator.lost, sizeof coordinator.lost);
    return coordinator.n_lost;
}

static inline int say_seats(void *ctx, int *out)
{
    (void)ctx;
    memcpy(out, coordinator.seats, sizeof coordinator.seats);
    return 1;
}

static void note_row(void *ctx, const struct row *row)
{
    struct place *p = ctx;
    assert_true(p->n_rows < 16);
    p->rows[p->n_rows++] = *row;
}

static void note_evaluation(void *ctx, const struct evaluation *ev)
{
    struct place *p = ctx;
    p->told = *ev;
    p->n_told++;
}

static void note_undone(void *ctx, int staleness, int64_t steps, int64_t samples)
{
    struct place *p = ctx;
    (void)staleness;
    p->undone[0] += steps;
    p->undone[1] += samples;
}

static bool is_ready(void *ctx, int batch)
{
    (void)ctx;
    (void)batch;
    return true;
}

static void no_control(void *ctx, struct control *out)
{
    (void)ctx;
    (void)out;
}

static void no_phase(void *ctx, bool on)
{
    (void)ctx;
    (void)on;
}

static inline void fill(const struct place *p, float value)
{
    static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
    for (int b = 0; b < 3; b++) {
        for (size_t i = 0; i < p->r.count[blocks[b]]; i++) {
            p->r.host[blocks[b]][i] = value + (float)(i % 97) + 1000 * (float)b;
        }
    }
}

/* Rank `rank` of four at the start of a run, with a replica filled from `value`. */
static inline struct place *stand(int rank, float value)
{
    const struct run_state from = {.cursor = {.samples = 64, .epochs = 2}, .best = -INFINITY};
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->wire = (struct silent){{&place_ops}, rank, W + 1};
    p->at_door = -1;
    p->spec = make_spec(
        "{\"model\": {\"input\": [28, 28, 1], \"layers\": [{\"type\": \"dense\", \"units\": 30}, "
        "{\"type\": \"batch_norm\"}, {\"type\": \"dense\", \"units\": 10}]}, \"data\": "
        "{\"format\": \"glyphs\", \"samples\": 64}, \"batching\": {\"global_batch\": 16}, "
        "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1, \"momentum\": 0.9}, "
        "\"workers\": 4, \"epochs\": 2}");
    p->dev = dev_open("cpu:1", &err_);
    assert_non_null(p->dev);
    OK(p->dev->ops->replica_init(p->dev, &p->r, &p->spec->network, &p->spec->optimizer, &err_));
    OK(comm_init(&p->comm, &p->wire.t, W, 1, &err_));
    p->env = (struct rank_env){.spec = p->spec,
                               .comm = &p->comm,
                               .replica = &p->r,
                               .train_samples = 64,
                               .test_samples = 20,
                               .n_params = p->r.count[DEV_PARAMS],
                               .n_stats = p->r.count[DEV_STATS],
                               .first_sizes = {4, 5, 4, 3},
                               .ctx = p,
                               .row = note_row,
                               .evaluated = note_evaluation,
                               .undone = note_undone,
                               .control = no_control,
                               .ready = is_ready,
                               .aside = no_phase,
                               .lost = say_lost};
    fill(p, value);
    lockstep_init(&p->l, &p->env, &from);
    return p;
}

static inline void leave(struct place *p)
{
    survival_free(p->s);
    gradients_free(p->g);
    lockstep_release(&p->l);
    comm_release(&p->comm);
    p->dev->ops->replica_release(&p->r);
    dev_close(p->dev);
    drop_spec(p->spec);
    for (int i = 0; i < p->n_in + p->n_out; i++) {
        free(i < p->n_in ? p->in[i].data : p->out[i - p->n_in].data);
    }
    free(p);
}

/* ---- between them ---------------------------------------------------------------------------- */

static inline void put(struct place *to, int from, int tag, const void *data, size_t bytes)
{
    assert_true(to->n_in < PARCELS);
    to->in[to->n_in++] = copy_parcel(from, tag, data, bytes);
    if (to->waits) {
        place_step(to, to->waits);
    }
}

/* The keeper sends it. */
static inline void say(struct place *to, const struct verdict *v)
{
    put(to, KEEPER, TAG_VERDICT | TRANSPORT_CONTROL, v, sizeof *v);
}

/* Delivers what `from` has sent to `to` so far. */
static inline int hand_on(const struct place *from, struct place *to)
{
    int n = 0;
    for (int i = 0; i < from->n_out; i++) {
        const struct parcel *o = &from->out[i];
        if (o->peer == to->comm.rank) {
            put(to, from->comm.rank, o->tag, o->data, o->bytes);
            n++;
        }
    }
    return n;
}

/* The n-th word that it has sent to the keeper, from 0. */
static inline const struct worker_word *word(const struct place *p, int n)
{
    for (int i = 0; i < p->n_out; i++) {
        const struct parcel *o = &p->out[i];
        if (o->peer == KEEPER && o->tag == (TAG_STATE | TRANSPORT_CONTROL) && n-- == 0) {
            assert_int_equal(o->bytes, sizeof(struct worker_word));
            return o->data;
        }
    }
    fail_msg("it has not said so much to the keeper");
    return NULL;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static inline struct place *stand_in_sync(int rank, float value)
{
    struct place *p = stand(rank, value);
    p->g = gradients_new(&p->env, lockstep_words(&p->l), &err_);
    assert_non_null(p->g);
    p->s = survival_new(&p->l, p->g, &err_);
    assert_non_null(p->s);
    return p;
}

static inline void begin_step(struct place *p)
{
    p->work = (struct work){0};
    lockstep_train(&p->l, &p->work);
}

/* The sums of words, which all ranks get. */
static inline void end_step(struct place *p, float loss, bool stops)
{
    float words[64] = {[WORD_LOSS] = loss, [WORD_CORRECT] = 8, [WORD_STOP] = stops};
    assert_true(lockstep_words(&p->l) <= 64);
    lockstep_done(&p->l);
    survival_note(p->s, words);
    lockstep_agree(&p->l, words);
}

static inline void make_steps(struct place *p, int n)
{
    for (int i = 0; i < n; i++) {
        begin_step(p);
        end_step(p, 32, false);
    }
}

static inline int recover(struct place *p)
{
    const struct survival_step step = {&p->work, 0.25, 0};
    return survival_recover(p->s, -ERR_CANCELLED, &step, &err_);
}

static inline void begin_coordinator(void)
{
    memset(&coordinator, 0, sizeof coordinator);
}

static inline void dies(int rank)
{
    coordinator.lost[coordinator.n_lost++] = rank;
}

/* Rank 3 takes no part from this round on. */
static inline struct verdict without_rank_3(enum keeper_saying what, int round)
{
    struct verdict v = {.saying = what, .members = {.round = round, .n_lost = 1, .lost = {3}}};
    v.best = -INFINITY;
    return v;
}

static inline struct verdict decides(int round, int64_t step, int giver)
{
    struct verdict v = without_rank_3(KEEPER_DECIDES, round);
    v.step = step;
    v.giver = giver;
    v.version = 9;
    v.sizes[0] = 6;
    v.sizes[1] = 6;
    v.sizes[2] = 4;
    return v;
}

static inline void ask(struct place *p, int round)
{
    struct verdict v = without_rank_3(KEEPER_ASKS, round);
    say(p, &v);
}

static inline void assert_same_replica(const struct place *a, const struct place *b)
{
    static const enum dev_block blocks[] = {DEV_PARAMS, DEV_OPTIM, DEV_STATS};
    for (int i = 0; i < 3; i++) {
        assert_true(a->r.count[blocks[i]] > 0);
        assert_memory_equal(a->r.host[blocks[i]], b->r.host[blocks[i]],
                            a->r.count[blocks[i]] * sizeof(float));
    }
}

#endif
