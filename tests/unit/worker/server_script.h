/* A server whose workers die (worker/exchange/server/lost.c) and come back (seats.c): the workers
 * are a script on a transport without ranks. It answers each wait of the server with the push of a
 * worker that computes, and kills workers, or has them come back, at given pushes. */
#ifndef TESTS_UNIT_WORKER_SERVER_SCRIPT_H
#define TESTS_UNIT_WORKER_SERVER_SCRIPT_H

#include "fixture.h"
#include "rank_alone.h"

#include "worker/exchange/seat.h"
#include "worker/exchange/server/push.h"
#include "worker/exchange/strategy.h"

enum { W = 4, SAMPLES = 64, TEST_SAMPLES = 300, EPOCHS = 3, FLOATS = 64 };

/* The activity in which a worker dies. */
enum death { COMPUTING, IN_ITS_PUSH, WAITING, EVALUATING, ALIVE };

struct script {
    struct transport transport;
    struct comm comm;
    struct jobspec *spec;
    struct rank_env env;
    struct run_state state;
    float params[FLOATS];
    struct reply_head replies[W];
    bool busy[W], dead[W]; /* has an answer to work on */
    int next;              /* rank that pushes next, if it can */
    int pushes, looks;     /* gradients so far; waits in vain */
    enum death how[W];
    int when[W];                    /* after this many pushes of all workers */
    int back[W];                    /* it comes back after this many; 0: never */
    bool falls_at_door[W], fell[W]; /* the first process let in dies then, and a second one comes */
    int seats[W], n_back, waits;
    int on_its_way; /* checks of the door before it arrives */
    int away;       /* failed waits until it is restarted */
    int away_until; /* … of `looks` */
    bool stale;     /* a gradient was stale */
    int torn;       /* rank whose gradient stops in the middle; -1 */
    int declared[W], n_declared;
    struct departure left[W];
    int n_left;
    uint8_t applied[EPOCHS][SAMPLES], tested[TEST_SAMPLES];
    int evaluations;
    struct push_head coming;
    bool programs;             /* users' own: their next slice is announced */
    struct slice announced[W]; /* count 0: nothing follows */
    bool begun[W];
};

static struct script *of(struct transport *t)
{
    return (struct script *)t;
}

static int my_rank(struct transport *t)
{
    (void)t;
    return W;
}

static int size_of(struct transport *t)
{
    (void)t;
    return W + 1;
}

static double now(struct transport *t)
{
    return 1 + 0.05 * of(t)->looks;
}

/* ---- the workers ----------------------------------------------------------------------------- */

static void declare(struct script *s, int rank)
{
    s->dead[rank] = true;
    s->busy[rank] = false;
    s->away_until = s->looks + s->away;
    s->declared[s->n_declared++] = rank;
}

/* Kills the workers that are to die now, after what they are to die in. */
static void kill_some(struct script *s)
{
    for (int r = 0; r < W; r++) {
        bool fits = s->how[r] == COMPUTING    ? s->busy[r] && s->replies[r].action == DO_TRAIN
                    : s->how[r] == EVALUATING ? s->busy[r] && s->replies[r].action == DO_EVALUATE
                    : s->how[r] == WAITING    ? !s->busy[r]
                                              : false;
        if (!s->dead[r] && fits && s->pushes >= s->when[r]) {
            declare(s, r);
        }
    }
}

/* A program's loader has read the announced slice: it gets that slice and no other. */
static void take_announced(struct script *s, int r)
{
    const struct slice *due = &s->announced[r], *is = &s->replies[r].slice;
    if (s->begun[r] && (due->epoch != is->epoch || due->start != is->start ||
                        due->count != is->count || is->count == 0)) {
        fail_msg("worker %d was told of slice %lld of epoch %lld and got %lld of %lld", r,
                 (long long)due->start, (long long)due->epoch, (long long)is->start,
                 (long long)is->epoch);
    }
    s->begun[r] = true;
    s->announced[r] = s->replies[r].hint;
}

/* After its end a program gives its state. */
static bool gives_state(struct script *s)
{
    for (int r = 0; r < W && s->programs; r++) {
        if (s->busy[r] && s->replies[r].action == DO_END) {
            s->coming = (struct push_head){.kind = PUSH_OWN_STATE, .rank = r};
            s->busy[r] = false;
            return true;
        }
    }
    return false;
}

/* The next push of a computing worker; false: none computes. */
static bool next_push(struct script *s)
{
    kill_some(s);
    if (gives_state(s)) {
        return true;
    }
    for (int i = 0; i < W; i++) {
        int r = (s->next + i) % W;
        if (!s->busy[r] || s->replies[r].action > DO_EVALUATE) {
            continue;
        }
        bool trains = s->replies[r].action == DO_TRAIN;
        if (trains && s->programs) {
            take_announced(s, r);
        }
        s->coming = (struct push_head){.kind = trains ? PUSH_GRADIENT : PUSH_EVALUATION,
                                       .rank = r,
                                       .version = s->replies[r].version,
                                       .slice = s->replies[r].slice,
                                       .weight = (double)s->replies[r].slice.count,
                                       .learning_rate = 0.1};
        if (!trains) {
            s->coming.slice = (struct slice){0, s->replies[r].eval_first, s->replies[r].eval_count};
        }
        s->busy[r] = false;
        s->next = (r + 1) % W;
        if (trains && s->how[r] == IN_ITS_PUSH && s->pushes >= s->when[r]) {
            s->torn = r;
        }
        return true;
    }
    return false;
}

static void apply(struct script *s)
{
    const struct slice *done = &s->coming.slice;
    for (int64_t i = 0; i < done->count; i++) {
        if (s->coming.kind == PUSH_GRADIENT) {
            s->applied[done->epoch][done->start + i]++;
        } else {
            s->tested[done->start + i]++;
        }
    }
    s->pushes += s->coming.kind == PUSH_GRADIENT;
}

/* ---- the transport --------------------------------------------------------------------------- */

enum { DONE = 1, HEAD = 2, BODY = 3, NEVER = 4 }; /* transport_req.impl[0] */

static int take_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                     struct transport_req *r)
{
    struct script *s = of(t);
    bool taken = !s->dead[to] || tag == (TAG_SEAT | TRANSPORT_CONTROL); /* by the kernel */
    r->impl[0] = taken ? DONE : NEVER;
    if (tag == (TAG_REPLY | TRANSPORT_CONTROL) && !s->dead[to]) {
        assert_int_equal(bytes, sizeof s->replies[to]);
        memcpy(&s->replies[to], data, bytes);
        s->stale |= s->replies[to].staleness > 0;
        s->busy[to] = true;
    }
    return 0;
}

static int post_receive(struct transport *t, int from, int tag, void *data, size_t bytes,
                        struct transport_req *r)
{
    (void)t;
    *r = (struct transport_req){.from = from, .bytes = bytes, .at = data};
    r->impl[0] = tag == (TAG_PUSH | TRANSPORT_CONTROL) ? HEAD : tag == TAG_GRADIENT ? BODY : DONE;
    return 0;
}

static int test_one(struct transport *t, struct transport_req *r)
{
    struct script *s = of(t);
    if (r->impl[0] == HEAD && s->env.seats && s->waits++ % 5 < 2) {
        return COMM_UNDER_WAY; /* so that it looks who is lost or there again */
    }
    if (r->impl[0] == HEAD && next_push(s)) {
        memcpy(r->at, &s->coming, sizeof s->coming);
        r->from = s->coming.rank;
        if (s->coming.kind == PUSH_EVALUATION) {
            apply(s);
        }
        r->impl[0] = DONE;
    } else if (r->impl[0] == BODY && s->torn < 0) {
        apply(s);
        r->impl[0] = DONE;
    } else if (r->impl[0] == BODY && !s->dead[s->torn]) {
        declare(s, s->torn);
        s->torn = -1;
        r->impl[0] = NEVER;
    }
    return r->impl[0] == DONE ? COMM_DONE : COMM_UNDER_WAY;
}

static void forget(struct transport *t, struct transport_req *r)
{
    (void)t;
    (void)r;
}

static int admit(struct transport *t, const int *seats, int workers)
{
    struct script *s = of(t);
    for (int r = 0; r < workers; r++) {
        if (seats[r] > 0 && s->dead[r] && s->on_its_way-- <= 0) {
            s->how[r] = ALIVE;
            s->dead[r] = s->falls_at_door[r] && !s->fell[r];
            s->fell[r] = s->dead[r];
            s->falls_at_door[r] = s->begun[r] = false;
            return r;
        }
    }
    return -1;
}

static int wait_op(struct transport *t, struct comm_op *op, int parts, double deadline)
{
    (void)parts;
    (void)deadline;
    if (op->state == COMM_UNDER_WAY) {
        op->state = op->step(op, t);
    }
    if (op->state == COMM_UNDER_WAY && ++of(t)->looks > 1000) {
        fail_msg("the server waits for ever, after %d pushes", of(t)->pushes);
    }
    return op->state;
}

static const struct transport_ops ops = {.rank = my_rank,
                                         .size = size_of,
                                         .host = host_of,
                                         .send = take_send,
                                         .recv = post_receive,
                                         .test = test_one,
                                         .forget = forget,
                                         .admit = admit,
                                         .now = now,
                                         .start = start_op,
                                         .wait = wait_op};

/* ---- the rank -------------------------------------------------------------------------------- */

static void count_evaluation(void *ctx, const struct evaluation *ev)
{
    struct script *s = ctx;
    (void)ev;
    s->evaluations++;
    for (int i = 0; i < TEST_SAMPLES; i++) {
        assert_int_equal(s->tested[i], s->evaluations);
    }
}

static int tell_lost(void *ctx, int *out)
{
    struct script *s = ctx;
    memcpy(out, s->declared, sizeof(int) * (size_t)s->n_declared);
    return s->n_declared;
}

/* A worker that will be restarted is no longer lost. */
static int tell_seats(void *ctx, int *out)
{
    struct script *s = ctx;
    int n = 0;
    for (int i = 0; i < s->n_declared; i++) {
        int r = s->declared[i];
        s->seats[r] = s->back[r] > 0 && s->pushes >= s->back[r] && s->looks >= s->away_until;
        s->declared[n] = r;
        n += !s->seats[r];
    }
    s->n_declared = n;
    for (int r = 0; r < W; r++) {
        s->seats[r] += s->fell[r] && s->seats[r] == 1;
    }
    memcpy(out, s->seats, sizeof s->seats); /* 0: never started again */
    return W;
}

static void note_returned(void *ctx, const struct departure *back)
{
    ((struct script *)ctx)->n_back += back->who == 1;
}

static void note_left(void *ctx, const struct departure *left)
{
    struct script *s = ctx;
    s->left[s->n_left++] = *left;
}

static struct script *make_script(const char *strategy)
{
    char text[700];
    struct script *s = calloc(1, sizeof *s);
    assert_non_null(s);
    snprintf(text, sizeof text,
             "{\"name\": \"t\", \"model\": {\"input\": [3], \"layers\": [{\"type\": \"dense\", "
             "\"units\": 2}]},"
             "\"data\": {\"format\": \"npy\", \"path\": \"x\"}, \"optimizer\": {\"type\": \"sgd\","
             "\"learning_rate\": 0.1}, \"strategy\": %s, \"evaluate\": {\"every_epochs\": 1},"
             "\"batching\": {\"global_batch\": 16, \"policy\": \"equal\"}, \"workers\": %d,"
             "\"epochs\": %d, \"seed\": 1}",
             strategy, W, EPOCHS);
    s->spec = make_spec(text);
    s->transport.ops = &ops;
    s->torn = -1;
    OK(comm_init(&s->comm, &s->transport, W, 1, &err_));
    size_t n = s->spec->network.n_params;
    assert_true(n <= FLOATS);
    s->state = (struct run_state){.params = s->params, .n_params = n};
    cursor_init(&s->state.cursor, SAMPLES, EPOCHS);
    static const uint8_t decay[FLOATS];
    s->env = (struct rank_env){.spec = s->spec,
                               .comm = &s->comm,
                               .train_samples = SAMPLES,
                               .test_samples = TEST_SAMPLES,
                               .n_params = n,
                               .decay = decay,
                               .first_sizes = {4, 4, 4, 4},
                               .first_version = 1,
                               .ctx = s,
                               .evaluated = count_evaluation,
                               .control = no_control,
                               .lost = tell_lost,
                               .left = note_left,
                               .aside = no_phase};
    for (int r = 0; r < W; r++) {
        s->how[r] = ALIVE;
    }
    return s;
}

static void free_script(struct script *s)
{
    comm_release(&s->comm);
    drop_spec(s->spec);
    free(s);
}

static void serve(struct script *s)
{
    OK(strategy_find(s->spec->strategy.type)->serve(&s->env, &s->state, &err_));
    for (int e = 0; e < EPOCHS; e++) {
        for (int i = 0; i < SAMPLES; i++) {
            if (s->applied[e][i] != 1) {
                fail_msg("sample %d of epoch %d counts %d times", i, e, s->applied[e][i]);
            }
        }
    }
    assert_true(s->evaluations >= EPOCHS);
}

#endif
