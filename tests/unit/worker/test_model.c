/* Programs by minibatch: built in the background, kept, and what happens if the device's memory is
 * smaller than the estimate. The device is the CPU, told to run out of memory above a size.
 */
#include "tests/unit/worker/fixture.h"

#include "common/clock.h"
#include "worker/model/model.h"

static const struct device_ops *cpu;
static int most; /* the largest minibatch that this device holds */
static int room,
    taken; /* samples of all programs together that there is memory for, and that there are */

static struct dev_program *limited_program(struct dev_replica *r, int batch, size_t bucket_bytes,
                                           struct err *e)
{
    if (batch > most) {
        err_set(e, ERR_MEMORY, "a minibatch of %d does not fit", batch);
        return NULL;
    }
    if (room > 0 && taken + batch > room) {
        err_set(e, ERR_MEMORY, "a minibatch of %d does not fit beside %d", batch, taken);
        return NULL;
    }
    taken += batch;
    return cpu->program_new(r, batch, bucket_bytes, e);
}

static void free_program(struct dev_program *p)
{
    taken -= ((struct dev_program_head *)p)->batch;
    cpu->program_free(p);
}

struct fixture {
    struct device_ops ops;
    struct device *dev;
    struct jobspec *spec;
    struct model model;
};

static void open_model(struct fixture *f, bool threaded)
{
    f->spec = make_spec(
        "{\"model\": \"mlp\", \"data\": {\"format\": \"glyphs\"}, \"workers\": 2, "
        "\"batching\": {\"global_batch\": 64}}");
    f->dev = dev_open("cpu:1", &err_);
    assert_non_null(f->dev);
    cpu = f->dev->ops;
    f->ops = *cpu;
    f->ops.program_new = limited_program;
    f->ops.program_free = free_program;
    f->dev->ops = &f->ops;
    OK(model_init(&f->model, f->dev, f->spec, threaded, &err_));
}

static void close_model(struct fixture *f)
{
    model_release(&f->model);
    f->dev->ops = cpu;
    dev_close(f->dev);
    drop_spec(f->spec);
}

/* Until a requested size has not fitted. */
static void wait_for_less(struct model *m)
{
    double until = clock_now() + 60;
    while (model_limit(m) == 64 && clock_now() < until) {
        clock_sleep(0.005);
    }
    assert_true(model_limit(m) < 64);
}

static void check_refusal(bool threaded)
{
    struct fixture f = {0};
    most = 20;
    open_model(&f, threaded);
    assert_int_equal(model_limit(&f.model), 64);
    assert_non_null(model_program(&f.model, 16, &err_));
    assert_false(model_ready(&f.model, 48));
    wait_for_less(&f.model);
    assert_int_equal(model_limit(&f.model), 31); /* between 16, which runs, and 48 */
    assert_false(model_ready(&f.model, 48));
    assert_null(model_program(&f.model, 48, &err_));
    assert_int_equal(err_.code, ERR_MEMORY);
    assert_non_null(strstr(err_.message, "at most 31 may"));
    assert_non_null(model_program(&f.model, 16, &err_)); /* what ran runs on */
    assert_non_null(model_program(&f.model, 20, &err_));
    close_model(&f);
}

static void a_minibatch_that_does_not_fit_lowers_the_limit(void **state)
{
    (void)state;
    check_refusal(false);
    check_refusal(true);
}

/* The device reports that 60 would fit; 12 of them are taken by memory that it does not know of. */
static void the_size_that_is_named_was_tried(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct err e = {0};
    most = 48;
    open_model(&f, true);
    assert_null(model_program(&f.model, 64, &e));
    int fits = model_find_limit(&f.model, 64, &e);
    assert_in_range(fits, 45, 48);
    char end[40];
    snprintf(end, sizeof end, "are free: one of %d does", fits);
    assert_non_null(strstr(e.message, end));
    assert_non_null(strstr(e.message, "a minibatch of 64 does not fit"));
    assert_non_null(model_program(&f.model, fits, &err_));
    assert_int_equal(model_limit(&f.model), fits);
    most = 0; /* nothing fits: the first reason stays */
    struct err kept = e;
    assert_int_equal(model_find_limit(&f.model, 64, &e), 0);
    assert_string_equal(e.message, kept.message);
    close_model(&f);
}

static void a_minibatch_is_ready_once_it_has_been_prepared(void **state)
{
    (void)state;
    struct fixture f = {0};
    most = 64;
    open_model(&f, true);
    assert_non_null(model_program(&f.model, 8, &err_));
    double until = clock_now() + 60;
    while (!model_ready(&f.model, 24) && clock_now() < until) {
        clock_sleep(0.005);
    }
    assert_true(model_ready(&f.model, 24));
    assert_int_equal(model_largest_program(&f.model), 24);
    close_model(&f);
}

static bool becomes_ready(struct model *m, int batch)
{
    double until = clock_now() + 60;
    while (!model_ready(m, batch) && clock_now() < until) {
        clock_sleep(0.005);
    }
    return model_ready(m, batch);
}

static void check_room(bool threaded)
{
    struct fixture f = {0};
    most = 64;
    room = 100;
    open_model(&f, threaded);
    struct dev_program *runs = model_program(&f.model, 16, &err_);
    assert_non_null(runs);
    assert_true(becomes_ready(&f.model, 24));
    assert_true(becomes_ready(&f.model, 40));
    assert_true(becomes_ready(&f.model, 48)); /* 24 and 40 are kept for nobody */
    assert_int_equal(taken, 16 + 48);
    assert_int_equal(model_limit(&f.model), 64);
    assert_ptr_equal(model_program(&f.model, 16, &err_), runs);
    assert_non_null(model_program(&f.model, 60, &err_)); /* built by the one who trains */
    assert_int_equal(taken, 16 + 60);
    assert_false(model_ready(&f.model, 64)); /* 60 is in use, and there is no room for both */
    wait_for_less(&f.model);
    assert_non_null(model_program(&f.model, 50, &err_)); /* it is given up for this one, as is 16 */
    assert_int_equal(taken, 50);
    close_model(&f);
    assert_int_equal(taken, 0);
    room = 0;
}

static void programs_that_are_kept_make_room_for_one_that_is_wanted(void **state)
{
    (void)state;
    check_room(false);
    check_room(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minibatch_that_does_not_fit_lowers_the_limit),
        cmocka_unit_test(programs_that_are_kept_make_room_for_one_that_is_wanted),
        cmocka_unit_test(the_size_that_is_named_was_tried),
        cmocka_unit_test(a_minibatch_is_ready_once_it_has_been_prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
