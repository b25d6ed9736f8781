/* Samples that the host gathers and sends ahead: the copy overlaps the step before, and the step
 * that uses them has to wait for it.
 *
 * Stand-ins run work as late as the order of streams allows. So a step that did not wait for the
 * copy would read what was there before, and a copy on the stream of another kind of work would run
 * with that. The tests check for both.
 */
#include "tests/cuda/judge.h"

static const char model[] =
    "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, \"kernel\": 3},"
    "{\"type\": \"batch_norm\"}, {\"type\": \"relu\"},"
    "{\"type\": \"dropout\"}, {\"type\": \"dense\", \"units\": 9}, {\"type\": \"tanh\"}, "
    "{\"type\": \"dense\", \"units\": 4}]}";
static const struct optimizer_spec momentum = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9};
enum { SIZE = 6 * 5 * 3, LARGEST = 8, STEPS = 9, OUTPUTS = 4 };

/* Minibatches of a run: sizes of the program change, some are not full, some are evaluations. */
static const struct {
    int program, count;
    bool training;
} runs[STEPS] = {{4, 4, true}, {4, 3, true},  {8, 8, true},  {8, 5, false}, {4, 4, true},
                 {8, 7, true}, {8, 8, false}, {4, 2, false}, {4, 4, true}};

struct stream {
    struct judge *j;
    struct dev_feed *feed[2];
    float *x[2];
};

static struct dev_input input_of(struct judge *j, int step)
{
    struct dev_input in = ref_input(&j->net, runs[step].count, (uint64_t)step + 1);
    in.training = runs[step].training;
    in.epoch = step;
    return in;
}

static void send_step(struct stream *s, int step)
{
    struct dev_input in = input_of(s->j, step);
    size_t floats = (size_t)in.count * SIZE;
    memcpy(s->x[step % 2], in.x, floats * sizeof(float));
    ref_input_free(&in);
    judge_ok(s->j, s->j->gpu->ops->feed->send(s->feed[step % 2], floats, &s->j->e));
}

static struct stream open_stream(struct judge *j)
{
    struct stream s = {.j = j};
    for (int i = 0; i < 2; i++) {
        s.feed[i] = j->gpu->ops->feed->make(j->gpu, LARGEST * SIZE, &s.x[i], &j->e);
        if (!s.feed[i]) {
            fail_msg("%s", j->e.message);
        }
    }
    return s;
}

static void close_stream(struct stream *s)
{
    for (int i = 0; i < 2; i++) {
        s->j->gpu->ops->feed->free(s->feed[i]);
    }
}

/* As the loader does: the next minibatch is sent while this one is computed. */
struct sender {
    struct stream *s;
    int next;
};
static void send_next(void *ctx, int bucket)
{
    struct sender *send = ctx;
    if (bucket == 0 && send->next < STEPS) {
        send_step(send->s, send->next);
    }
}

/* All steps; what they gave: losses and logits, then the parameters. */
static size_t train_all(const char *precision, bool feeds, float *out)
{
    struct judge *j = judge_new(model, &momentum, precision);
    struct dev_program *small = judge_program(j, &j->on_gpu, 4),
                       *large = judge_program(j, &j->on_gpu, LARGEST);
    struct stream s = open_stream(j);
    size_t n = 0;
    if (feeds) {
        send_step(&s, 0);
    }
    for (int step = 0; step < STEPS; step++) {
        struct dev_input in = input_of(j, step), own = in;
        struct dev_result result;
        struct sender send = {&s, step + 1};
        in.x = feeds ? s.x[step % 2] : in.x;
        in.fed = feeds ? s.feed[step % 2] : NULL;
        if (feeds && !in.training) { /* no bucket is marked */
            send_next(&send, 0);
        }
        struct dev_program *p = runs[step].program == 4 ? small : large;
        judge_ok(j, j->gpu->ops->compute(p, &in, &result, out + n + 2, feeds ? send_next : NULL,
                                         &send, &j->e));
        out[n] = (float)result.loss;
        out[n + 1] = (float)result.correct;
        n += 2 + (size_t)in.count * OUTPUTS;
        if (in.training) {
            judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.05, 1, &j->e));
        }
        ref_input_free(&own);
    }
    judge_fetch(j, DEV_PARAMS);
    memcpy(out + n, j->on_gpu.host[DEV_PARAMS], j->net.n_params * sizeof(float));
    n += j->net.n_params;
    close_stream(&s);
    j->gpu->ops->program_free(small);
    j->gpu->ops->program_free(large);
    judge_free(j);
    return n;
}

static void fed_minibatches_of_any_size_give_the_bits_of_those_handed_in(void **state)
{
    const struct standin_control *c = judge_control();
    static const char *const precisions[] = {"fp32", "bf16"};
    static float expected[4096], got[4096];
    for (size_t i = 0; i < 2; i++) {
        size_t n = train_all(precisions[i], false, expected);
        assert_true(n < 4096);
        for (int eager = 0; eager < (c ? 2 : 1); eager++) {
            if (c) {
                c->set_eager(eager);
            }
            memset(got, 0, sizeof(got));
            assert_int_equal(train_all(precisions[i], true, got), n);
            assert_memory_equal(got, expected, n * sizeof(float));
        }
        if (c) {
            c->set_eager(0);
        }
        for (size_t k = 0; k < n; k++) {
            assert_true(isfinite(expected[k]));
        }
    }
}

/* The next minibatch is sent when the first bucket is ready, then buckets are fetched and the step
 * ends; nobody has waited for the copy. */
struct watch {
    struct stream *s;
    const struct standin_control *c;
    long sent; /* items that sending put on streams */
    int marks;
};
static void watch_bucket(void *ctx, int bucket)
{
    struct watch *w = ctx;
    struct judge *j = w->s->j;
    if (bucket == 0) {
        long before = w->c->waiting();
        assert_true(before > 0); /* the rest of the step has not run */
        send_step(w->s, 1);
        w->sent = w->c->waiting() - before;
    }
    /* waits for the copy stream */
    judge_ok(j, j->gpu->ops->fetch(&j->on_gpu, DEV_GRADS, 0, 1, &j->e));
    w->marks++;
}

/* The same samples, sent ahead and handed in. */
static void assert_same_result(struct judge *j, struct dev_program *p, const struct dev_input *fed,
                               const struct dev_input *own)
{
    struct dev_result a, b;
    judge_ok(j, j->gpu->ops->compute(p, fed, &a, NULL, NULL, NULL, &j->e));
    judge_ok(j, j->gpu->ops->compute(p, own, &b, NULL, NULL, NULL, &j->e));
    assert_true(a.loss == b.loss && a.correct == b.correct);
}

static void a_copy_of_samples_waits_for_no_step_and_no_step_for_it(void **state)
{
    const struct standin_control *c = judge_control();
    if (!c) {
        skip();
    }
    struct judge *j = judge_new(model, NULL, "fp32");
    struct dev_program *p = j->gpu->ops->program_new(&j->on_gpu, 4, 100, &j->e);
    struct stream s = open_stream(j);
    struct dev_input in = input_of(j, 0), own = in;
    struct dev_result result;
    struct watch w = {&s, c, 0, 0};
    assert_non_null(p);
    assert_true(((struct dev_program_head *)p)->n_buckets > 2);
    send_step(&s, 0);
    in.x = s.x[0];
    in.fed = s.feed[0];
    judge_ok(j, j->gpu->ops->compute(p, &in, &result, NULL, watch_bucket, &w, &j->e));
    assert_true(w.marks > 2);
    /* the copy and its mark: nothing ran because of them, and they wait for nothing */
    assert_int_equal(w.sent, 2);
    /* the step is over, and they still have not run: they stand on a stream of their own */
    assert_int_equal(c->waiting(), 2);
    struct dev_input next = input_of(j, 1), next_own = next;
    next.x = s.x[1];
    next.fed = s.feed[1];
    assert_same_result(j, p, &next, &next_own);
    ref_input_free(&own);
    ref_input_free(&next_own);
    close_stream(&s);
    j->gpu->ops->program_free(p);
    judge_free(j);
}

/* A wrong hint: what was sent is never computed on, and the next minibatch takes its place. */
static void a_minibatch_that_nobody_takes_is_overwritten(void **state)
{
    struct judge *j = judge_new(model, NULL, "fp32");
    struct dev_program *p = judge_program(j, &j->on_gpu, 4);
    struct stream s = open_stream(j);
    struct dev_input in = input_of(j, 0), own = in;
    send_step(&s, 2);
    send_step(&s, 0);
    in.x = s.x[0];
    in.fed = s.feed[0];
    assert_same_result(j, p, &in, &own);
    send_step(&s, 1); /* and one that is under way when the feed goes */
    ref_input_free(&own);
    close_stream(&s);
    j->gpu->ops->program_free(p);
    judge_free(j);
}

static void what_was_not_sent_is_not_computed_on(void **state)
{
    struct judge *j = judge_new(model, NULL, "fp32");
    struct dev_program *p = judge_program(j, &j->on_gpu, 4);
    struct stream s = open_stream(j);
    struct dev_input in = input_of(j, 0), own = in;
    struct dev_result r;
    in.x = s.x[0];
    in.fed = s.feed[0];
    assert_int_equal(j->gpu->ops->compute(p, &in, &r, NULL, NULL, NULL, &j->e), -ERR_INTERNAL);
    judge_ok(j, j->gpu->ops->feed->send(s.feed[0], 4 * SIZE - 1, &j->e));
    assert_int_equal(j->gpu->ops->compute(p, &in, &r, NULL, NULL, NULL, &j->e), -ERR_INTERNAL);
    assert_int_equal(j->gpu->ops->feed->send(s.feed[0], LARGEST * SIZE + 1, &j->e), -ERR_INTERNAL);
    ref_input_free(&own);
    close_stream(&s);
    j->gpu->ops->program_free(p);
    judge_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fed_minibatches_of_any_size_give_the_bits_of_those_handed_in),
        cmocka_unit_test(a_copy_of_samples_waits_for_no_step_and_no_step_for_it),
        cmocka_unit_test(a_minibatch_that_nobody_takes_is_overwritten),
        cmocka_unit_test(what_was_not_sent_is_not_computed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
