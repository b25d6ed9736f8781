/* What `sync` does about a worker that dies, piece by piece (docs/decisions/0022): the keeper's
 * decision for every order in which ranks can stand, and a replica that is put back to the begin of
 * its step bit by bit. With real ranks and kill -9: tests/integration/test_lost_worker.py. */
#include "fixture.h"

#include "kernels/device.h"
#include "worker/exchange/gradients/ways.h"
#include "worker/exchange/lockstep/verdict.h"

/* ---- the decision ---------------------------------------------------------------------------- */

enum { W = 4, STEP = 7 };

/* Where a rank can stand: neighbouring steps, evaluated or not, or with half of another's state. */
static const struct standing places[] = {
    {.step = STEP},
    {.step = STEP, .evaluated = 1},
    {.step = STEP + 1},
    {.step = STEP + 1, .evaluated = 1},
    {.step = STEP, .torn = 1},
};
enum { PLACES = sizeof places / sizeof *places };

static int furthest(const struct standing *of, const int *left, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        int far = (int)(2 * of[left[i]].step + of[left[i]].evaluated);
        best = !of[left[i]].torn && far > best ? far : best;
    }
    return best;
}

static void check_decision(const struct standing *of, const int *left, int n)
{
    struct verdict v = {0};
    int far = furthest(of, left, n), giver = -1;
    if (far < 0) {
        FAILS(verdict_decide(&v, of, left, n, &err_), ERR_PEER, "no worker");
        return;
    }
    OK(verdict_decide(&v, of, left, n, &err_));
    assert_int_equal(2 * v.step + v.evaluated, far);
    for (int i = n - 1; i >= 0; i--) {
        const struct standing *s = &of[left[i]];
        bool there = !s->torn && 2 * s->step + s->evaluated == far;
        assert_int_equal(v.behind[left[i]], !there);
        giver = there ? left[i] : giver;
    }
    assert_int_equal(v.giver, giver); /* the lowest of those that are there */
}

static void all_get_to_the_furthest_step_of_a_survivor(void **state)
{
    (void)state;
    static const int left[][W] = {{0, 1, 2, 3}, {1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {2, 3}, {1}};
    static const int n[] = {4, 3, 3, 3, 2, 1};
    int all = PLACES * PLACES * PLACES * PLACES;
    for (int set = 0; set < 6; set++) {
        for (int k = 0; k < all; k++) {
            struct standing of[W];
            for (int r = 0, rest = k; r < W; r++, rest /= PLACES) {
                of[r] = places[rest % PLACES];
            }
            check_decision(of, left[set], n[set]);
        }
    }
}

static void ranks_two_steps_apart_are_refused(void **state)
{
    (void)state;
    static const int left[] = {0, 1, 2, 3};
    struct standing of[W] = {{.step = 9}, {.step = 9}, {.step = 7}, {.step = 8}};
    struct verdict v = {0};
    FAILS(verdict_decide(&v, of, left, W, &err_), ERR_PEER, "worker 2 behind 7");
}

/* ---- the replica ----------------------------------------------------------------------------- */

static void fill(float *x, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(seed >> 8) / (float)(1 << 24);
    }
}

static float *copy_of(const struct dev_replica *r, enum dev_block b)
{
    float *copy = malloc((r->count[b] + 1) * sizeof(float));
    memcpy(copy, r->host[b], r->count[b] * sizeof(float));
    return copy;
}

/* `parts` of 5 parts are updated, and the statistics change; then the step is undone. */
static void undo_after(const char *optimizer, int parts)
{
    char text[600];
    snprintf(
        text, sizeof text,
        "{\"model\": {\"input\": [28, 28, 1], \"layers\": [{\"type\": \"dense\", \"units\": 30}, "
        "{\"type\": \"batch_norm\"}, {\"type\": \"dense\", \"units\": 10}]}, \"data\": "
        "{\"format\": \"glyphs\", \"samples\": 64}, \"batching\": {\"global_batch\": 16}, "
        "\"optimizer\": %s, \"workers\": 2, \"epochs\": 1}",
        optimizer);
    struct jobspec *spec = make_spec(text);
    struct device *dev = dev_open("cpu:1", &err_);
    struct dev_replica r;
    assert_non_null(dev);
    OK(dev->ops->replica_init(dev, &r, &spec->network, &spec->optimizer, &err_));
    for (int b = 0; b < DEV_BLOCKS; b++) {
        fill(r.host[b], r.count[b], (unsigned)b + 1);
    }
    struct comm comm = {.workers = 8};
    struct bucket bucket = {0};
    struct rank_env env = {.comm = &comm, .replica = &r};
    struct gradients g = {.env = &env, .buckets = &bucket, .n_buckets = 1};
    OK(gradients_keep(&g, &err_));
    float *before[DEV_BLOCKS];
    for (int b = 0; b < DEV_BLOCKS; b++) {
        before[b] = copy_of(&r, (enum dev_block)b);
    }
    size_t n = r.count[DEV_PARAMS];
    gradients_begin_parts(&g);
    for (int p = 0; p < parts; p++) {
        int at = (3 * p + 1) % 5; /* in some order */
        size_t first = n * (size_t)at / 5, end = n * ((size_t)at + 1) / 5;
        gradients_keep_part(&g, first, end - first);
        OK(dev_update_part(&r, first, end - first, 0.1, 1.0, p == 4, &err_));
    }
    fill(r.host[DEV_STATS], r.count[DEV_STATS], 99);
    assert_true(parts == 0 ||
                memcmp(before[DEV_PARAMS], r.host[DEV_PARAMS], n * sizeof(float)) != 0);
    OK(gradients_undo(&g, &err_));
    for (int b = 0; b < DEV_BLOCKS; b++) {
        assert_memory_equal(before[b], r.host[b], r.count[b] * sizeof(float));
        free(before[b]);
    }
    gradients_undo_free(&g);
    dev->ops->replica_release(&r);
    dev_close(dev);
    drop_spec(spec);
}

static void a_step_is_undone_bit_by_bit_however_far_it_came(void **state)
{
    (void)state;
    static const char *const optimizers[] = {
        "{\"type\": \"sgd\", \"learning_rate\": 0.1}",
        "{\"type\": \"sgd\", \"learning_rate\": 0.1, \"momentum\": 0.9}",
        "{\"type\": \"adam\", \"learning_rate\": 0.1}",
    };
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        for (int parts = 0; parts <= 5; parts++) {
            undo_after(optimizers[i], parts);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_to_the_furthest_step_of_a_survivor),
        cmocka_unit_test(ranks_two_steps_apart_are_refused),
        cmocka_unit_test(a_step_is_undone_bit_by_bit_however_far_it_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
