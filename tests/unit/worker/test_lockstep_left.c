/* Steps that were cut in advance, of ranks that lose one of them at any step (docs/decisions/0029),
 * which comes back later, or not (0074): those that are there cut alike from then on, and each
 * sample is in one step of each epoch. What
 * rank a rank can be at when it learns of the loss is drawn: in the step, or one further than
 * others, which get its sums. With real programs: tests/survival/test_lost_worker.py. */
#include "fixture.h"
#include "no_messages.h"

#include "worker/exchange/lockstep/steps/lockstep.h"

enum { W = 4, BATCH = 16, SAMPLES = 104, EPOCHS = 2, STEPS_MOST = 40 };

/* ---- ranks without messages ------------------------------------------------------------------ */

struct rank {
    struct silent wire;
    struct comm comm;
    struct rank_env env;
    struct lockstep l;
    struct work work;
};

static void begin(struct rank *r, int number, int ahead, const struct jobspec *spec)
{
    struct run_state from = {.cursor = {.samples = SAMPLES, .epochs = EPOCHS}};
    *r = (struct rank){.wire = {{&no_messages}, number, W + 1}};
    OK(comm_init(&r->comm, &r->wire.t, W, 1, &err_));
    r->env = (struct rank_env){.spec = spec,
                               .comm = &r->comm,
                               .train_samples = SAMPLES,
                               .program.ahead = ahead,
                               .first_sizes = {4, 5, 4, 3},
                               .first_version = 1};
    lockstep_init(&r->l, &r->env, &from);
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct run {
    struct rank ranks[W];
    bool gone[W];
    int second;                 /* lost after the first one; -1: none */
    int times[EPOCHS][SAMPLES]; /* how often a sample was in a step that was made */
    unsigned seed;
};

static int draw(struct run *x, int n)
{
    x->seed = x->seed * 1664525 + 1013904223;
    return (int)((x->seed >> 16) % (unsigned)n);
}

static void count(struct run *x, const struct rank *r)
{
    const struct slice *s = &r->work.slice;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t epoch = s->epoch,
                at = leftovers_position(r->work.parts[0].left, &epoch, s->start + i);
        assert_in_range(at, 0, SAMPLES - 1);
        x->times[epoch][at]++;
    }
}

static void train(struct run *x, int i)
{
    struct rank *r = &x->ranks[i];
    r->work = (struct work){0};
    lockstep_train(&r->l, &r->work);
    (void)x;
}

/* All present ranks make the step that they began, with or without the lost rank's gradient. */
static void make(struct run *x, int i)
{
    count(x, &x->ranks[i]);
    lockstep_done(&x->ranks[i].l);
}

/* One rank is lost. Returns 0, or the error, which is the same on all remaining ranks. */
static int lose(struct run *x, int dead)
{
    static const int sizes[W][SPEC_WORKERS] = {
        {0, 6, 5, 5}, {6, 0, 5, 5}, {6, 5, 0, 5}, {6, 5, 5, 0}};
    int first = 1;
    x->gone[dead] = true;
    for (int i = 0; i < W; i++) {
        struct rank *r = &x->ranks[i];
        if (i != dead) {
            int rc = lockstep_lose(&r->l, &dead, 1, NULL, 0, &err_);
            first = first == 1 ? rc : first;
            assert_int_equal(rc, first);
            comm_drop(&r->comm, &dead, 1, 1);
            lockstep_adopt(&r->l, 2, sizes[dead]);
        }
    }
    return first;
}

static void hear_of(struct rank *r, const int *dead, int n, int each)
{
    int sizes[SPEC_WORKERS] = {each, each, each, each};
    OK(lockstep_lose(&r->l, dead, n, NULL, 0, &err_));
    for (int i = 0; i < n; i++) {
        sizes[dead[i]] = 0;
    }
    comm_drop(&r->comm, dead, n, n);
    lockstep_adopt(&r->l, 1 + n, sizes);
}

/* One of two ranks lacks the sums of step `at`, and the other one is lost while it gives them: the
 * sums come from a third rank, and the first hears of both losses at once. */
static int lose_both(struct run *x, const int *dead)
{
    int late = draw(x, 2), nth = 0;
    for (int i = 0; i < W; i++) {
        make(x, i);
        x->gone[i] = i == dead[0] || i == dead[1];
    }
    for (int i = 0; i < W; i++) {
        if (x->gone[i]) {
            continue;
        }
        bool is_late = nth++ == late;
        if (!is_late) {
            train(x, i);
            hear_of(&x->ranks[i], dead, 1, 5);
        }
        hear_of(&x->ranks[i], dead, 2, BATCH / 2);
        if (is_late) {
            train(x, i);
        }
    }
    return 0;
}

/* Step `at` is under way. Either no rank has its sums, so it is made without the dead rank; or some
 * have them and have begun the next step, while the others receive them. */
static int lose_within(struct run *x, int dead)
{
    bool further[W] = {false};
    if (x->second >= 0) {
        return lose_both(x, (int[]){dead, x->second});
    }
    if (draw(x, 2) == 0) {
        return lose(x, dead);
    }
    count(x, &x->ranks[dead]);
    for (int i = 0; i < W; i++) {
        if (i != dead) {
            make(x, i);
            further[i] = draw(x, 2) && !lockstep_over(&x->ranks[i].l);
        }
        if (further[i]) {
            train(x, i);
        }
    }
    int rc = lose(x, dead);
    for (int i = 0; i < W && rc >= 0; i++) {
        if (i != dead && !further[i]) {
            train(x, i);
        }
    }
    return rc;
}

/* The next process of that rank takes over the position of `giver`. */
static void enter(struct run *x, int dead, const struct rank *giver)
{
    struct rank *r = &x->ranks[dead];
    struct lockstep_mark mark;
    struct own_state steps;
    const struct jobspec *spec = giver->env.spec;
    int ahead = giver->env.program.ahead;
    lockstep_release(&r->l);
    comm_release(&r->comm);
    begin(r, dead, ahead, spec);
    lockstep_stand(&giver->l, &mark);
    OK(advance_write(&giver->l, &steps, &err_));
    lockstep_stand_at(&r->l, &mark, 0);
    lockstep_adopt(&r->l, giver->l.version, giver->l.sizes);
    OK(advance_read(&r->l, &steps, &err_));
    own_state_release(&steps);
    x->gone[dead] = false;
}

/* Step `at` is under way: no rank has its sums, or all have, and some have begun the next step. The
 * newcomer gets everybody's position from a rank that is furthest. */
static void come_back(struct run *x, int dead)
{
    static const int sizes[SPEC_WORKERS] = {4, 5, 4, 3};
    bool made = draw(x, 2) > 0, further[W] = {false};
    int giver = -1;
    for (int i = 0; i < W; i++) {
        if (i != dead && made) {
            make(x, i);
            further[i] = draw(x, 2) && !lockstep_over(&x->ranks[i].l);
        }
        if (further[i]) {
            train(x, i);
        }
        giver = i != dead && (giver < 0 || (further[i] && !further[giver])) ? i : giver;
    }
    enter(x, dead, &x->ranks[giver]);
    for (int i = 0; i < W; i++) {
        OK(lockstep_lose(&x->ranks[i].l, NULL, 0, NULL, 0, &err_));
        comm_drop(&x->ranks[i].comm, NULL, 0, 2);
        lockstep_adopt(&x->ranks[i].l, 3, sizes);
        if (i == dead || (made && !further[i])) {
            train(x, i);
        }
    }
}

static void check_alike(const struct run *x)
{
    const struct lockstep *first = NULL;
    int64_t sum = 0;
    for (int i = 0; i < W; i++) {
        const struct lockstep *l = &x->ranks[i].l;
        if (!x->gone[i] && x->ranks[i].work.action == DO_TRAIN) {
            first = first ? first : l;
            assert_int_equal(l->slice.count, first->slice.count);
            assert_int_equal(l->at.cursor.position, first->at.cursor.position);
            sum += x->ranks[i].work.slice.count;
        }
    }
    if (first) { /* else the run is over */
        assert_int_equal(sum, first->slice.count);
        assert_in_range(sum, 1, BATCH + BATCH / 4);
    }
}

static bool step(struct run *x, int dead, int back, int *rc)
{
    bool any = false;
    for (int i = 0; i < W; i++) {
        if (!x->gone[i]) {
            train(x, i);
            any = x->ranks[i].work.action == DO_TRAIN;
        }
    }
    if (any && dead >= 0) {
        *rc = lose_within(x, dead);
    }
    if (any && back >= 0) {
        come_back(x, back);
    }
    for (int i = 0; i < W && *rc >= 0 && any; i++) {
        if (!x->gone[i] && x->ranks[i].work.action == DO_TRAIN) {
            make(x, i);
        }
    }
    if (any && *rc >= 0) {
        check_alike(x);
    }
    return any && *rc >= 0;
}

static void check_each_once(const struct run *x)
{
    for (int e = 0; e < EPOCHS; e++) {
        for (int i = 0; i < SAMPLES; i++) {
            assert_int_equal(x->times[e][i], 1);
        }
    }
}

enum { EPOCH_STEPS = 7 }; /* the last one of 8 samples */

/* Worker `dead` is lost in step `at` and back in step `back`; `second` is lost after it; -1: not at
 * all. */
static void run_of(const struct jobspec *spec, int ahead, int at, int back, int dead, int second,
                   unsigned seed)
{
    struct run *x = calloc(1, sizeof *x);
    int rc = 0, n = 0;
    x->seed = seed;
    x->second = second;
    for (int i = 0; i < W; i++) {
        begin(&x->ranks[i], i, ahead, spec);
    }
    while (step(x, n == at ? dead : -1, n == back ? dead : -1, &rc)) {
        assert_true(++n < STEPS_MOST);
    }
    if (rc < 0) { /* only where the run's end was told */
        assert_int_equal(rc, -ERR_PEER);
        assert_non_null(strstr(err_.message, "whose end the programs know"));
        assert_in_range(at + ahead, EPOCHS * EPOCH_STEPS - 2, (EPOCHS + 1) * EPOCH_STEPS);
    } else {
        check_each_once(x);
        bool little = at % EPOCH_STEPS + ahead < 2; /* is left over for each of the later steps */
        int64_t most = EPOCHS * EPOCH_STEPS + (second >= 0 ? 4 : little ? 0 : 2);
        int alive = 0;
        while (x->gone[alive]) {
            alive++;
        }
        assert_in_range(x->ranks[alive].l.at.step, EPOCHS * EPOCH_STEPS, most);
    }
    for (int i = 0; i < W; i++) {
        lockstep_release(&x->ranks[i].l);
        comm_release(&x->ranks[i].comm);
    }
    free(x);
}

static void run(const struct jobspec *spec, int ahead, int at, int back, int dead, unsigned seed)
{
    run_of(spec, ahead, at, back, dead, -1, seed);
}

static void each_sample_is_in_one_step_of_an_epoch_whoever_is_lost_and_when(void **state)
{
    (void)state;
    struct jobspec *spec = make_spec(
        "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", \"samples\": 104}, "
        "\"batching\": {\"global_batch\": 16}, \"workers\": 4, \"epochs\": 2}");
    for (int ahead = 1; ahead <= 4; ahead++) {
        for (int at = 0; at < 14; at++) {
            for (int dead = 0; dead < W; dead++) {
                for (unsigned seed = 0; seed < 8; seed++) {
                    run(spec, ahead, at, -1, dead, seed * 7919 + 1);
                }
            }
        }
    }
    drop_spec(spec);
}

static void so_it_is_where_the_lost_one_comes_back_whenever_that_is(void **state)
{
    (void)state;
    struct jobspec *spec = make_spec(
        "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", \"samples\": 104}, "
        "\"batching\": {\"global_batch\": 16}, \"workers\": 4, \"epochs\": 2}");
    for (int ahead = 1; ahead <= 4; ahead++) {
        for (int at = 0; at < 2 * EPOCH_STEPS; at++) {
            for (int away = 1; at + away < 2 * EPOCH_STEPS; away++) {
                for (unsigned seed = 0; seed < 8; seed++) {
                    run(spec, ahead, at, at + away, (at + away) % W, seed * 7919 + 1);
                }
            }
        }
    }
    drop_spec(spec);
}

static void so_it_is_where_one_hears_of_two_losses_at_once_and_another_of_each(void **state)
{
    (void)state;
    struct jobspec *spec = make_spec(
        "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", \"samples\": 104}, "
        "\"batching\": {\"global_batch\": 16}, \"workers\": 4, \"epochs\": 2}");
    for (int ahead = 1; ahead <= 4; ahead++) {
        for (int at = 0; at + ahead < 2 * EPOCH_STEPS - 2; at++) {
            for (int pair = 0; pair < W * W; pair++) {
                for (unsigned seed = 0; seed < 4 && pair / W != pair % W; seed++) {
                    run_of(spec, ahead, at, -1, pair / W, pair % W, seed * 7919 + 1);
                }
            }
        }
    }
    drop_spec(spec);
}

static void steps_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct jobspec *spec = make_spec(
        "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", \"samples\": 104}, "
        "\"batching\": {\"global_batch\": 16}, \"workers\": 4, \"epochs\": 2}");
    struct run *x = calloc(1, sizeof *x);
    struct own_state steps;
    begin(&x->ranks[0], 0, 4, spec);
    begin(&x->ranks[1], 1, 4, spec);
    train(x, 0);
    OK(advance_write(&x->ranks[0].l, &steps, &err_));
    for (steps.n--;; steps.n /= 2) {
        FAILS(advance_read(&x->ranks[1].l, &steps, &err_), ERR_PEER, "not of this job");
        if (steps.n == 0) {
            break;
        }
    }
    own_state_release(&steps);
    for (int i = 0; i < 2; i++) {
        lockstep_release(&x->ranks[i].l);
        comm_release(&x->ranks[i].comm);
    }
    free(x);
    drop_spec(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_is_in_one_step_of_an_epoch_whoever_is_lost_and_when),
        cmocka_unit_test(so_it_is_where_the_lost_one_comes_back_whenever_that_is),
        cmocka_unit_test(so_it_is_where_one_hears_of_two_losses_at_once_and_another_of_each),
        cmocka_unit_test(steps_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
