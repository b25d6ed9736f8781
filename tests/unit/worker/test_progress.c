/* Progress: what was written is read again, also from the first version, and values out of range
 * are refused. */
#include <math.h>

#include "fixture.h"

#include "worker/checkpoint/progress.h"

static const char *const spec_text =
    "{\"name\": \"t\", \"model\": \"mlp\", \"data\": {\"format\": \"glyphs\", \"samples\": 60000, "
    "\"test_samples\": 10}, \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1}, "
    "\"strategy\": {\"type\": \"ssp\", \"s\": 3}, \"batching\": {\"global_batch\": 32, "
    "\"policy\": \"equal\"}, \"workers\": 2, \"epochs\": 2, \"seed\": 5}";

static struct run_state state_, again; /* large */

static void what_was_written_is_read_again(void **state)
{
    struct jobspec *spec = make_spec(spec_text);
    struct progress_run of;
    char hash[17];
    (void)state;
    state_ = (struct run_state){.version = 1234,
                                .applied_samples = 39488,
                                .cursor = {60000, 2, 1, 39488},
                                .n_out = 2,
                                .out = {{0, 128, 32}, {1, 0, 60000}},
                                .staleness = json_pack("[i,i]", 1, 2),
                                .best = 0.25,
                                .elapsed = 71.5};
    json_t *j = progress_json(spec, &state_);
    OK(progress_read(&again, &of, j, &err_));
    assert_int_equal(again.version, 1234);
    assert_int_equal(again.applied_samples, 39488);
    assert_memory_equal(&again.cursor, &state_.cursor, sizeof again.cursor);
    assert_int_equal(again.n_out, 2);
    assert_memory_equal(again.out, state_.out, 2 * sizeof again.out[0]);
    assert_true(json_equal(again.staleness, state_.staleness));
    assert_true(again.best == 0.25);
    assert_true(again.elapsed == 71.5);
    network_hash(&spec->network, hash);
    assert_string_equal(of.network, hash);
    assert_string_equal(of.optimizer, "sgd");
    assert_string_equal(of.strategy, "ssp");
    json_decref(again.staleness);
    json_decref(state_.staleness);
    json_decref(j);
    drop_spec(spec);
}

/* A progress in which the value at `key` of `within` (NULL: of the whole) is replaced. */
static json_t *altered(const char *within, const char *key, json_t *value)
{
    json_t *j = json_pack("{s:i, s:i, s:{s:i, s:i, s:i, s:i}, s:[[i,i,i]]}", "version", 5,
                          "applied_samples", 50, "cursor", "samples", 100, "epochs", 2, "epoch", 0,
                          "position", 50, "out", 0, 40, 10);
    json_object_set_new(within ? json_object_get(j, within) : j, key, value);
    return j;
}

static void the_first_version_kept_neither_best_nor_staleness(void **state)
{
    struct progress_run of;
    json_t *j = altered(NULL, "version", json_integer(6));
    (void)state;
    OK(progress_read(&again, &of, j, &err_));
    assert_int_equal(again.version, 6);
    assert_true(again.best == -INFINITY);
    assert_true(again.elapsed == 0);
    assert_null(again.staleness);
    assert_string_equal(of.network, "");
    json_decref(j);
}

static void what_is_out_of_range_is_refused(void **state)
{
    static const char malformed[] = "its progress is malformed",
                      elsewhere[] = "its slice 0 is of samples that are not there";
    json_t *many = json_array();
    for (int i = 0; i <= RUN_SLICES; i++) {
        json_array_append_new(many, json_pack("[i,i,i]", 0, 0, 1));
    }
    struct {
        json_t *j;
        const char *message;
    } const refused[] = {
        {altered(NULL, "version", json_integer(-1)), malformed},
        {altered(NULL, "applied_samples", json_integer(-1)), malformed},
        {altered("cursor", "samples", json_integer(0)), malformed},
        {altered("cursor", "epoch", json_integer(-1)), malformed},
        {altered("cursor", "position", json_integer(-1)), malformed},
        {altered("cursor", "position", json_integer(101)), malformed},
        {altered(NULL, "out", many), malformed},
        {altered(NULL, "out", json_pack("[[i,i,i]]", -1, 0, 1)), elsewhere},
        {altered(NULL, "out", json_pack("[[i,i,i]]", 0, -1, 1)), elsewhere},
        {altered(NULL, "out", json_pack("[[i,i,i]]", 0, 0, 0)), elsewhere},
        {altered(NULL, "out", json_pack("[[i,i,i]]", 0, 91, 10)), elsewhere},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct progress_run of;
        struct err e = {0};
        assert_int_equal(progress_read(&again, &of, refused[i].j, &e), -ERR_DATA);
        assert_string_equal(e.message, refused[i].message);
        json_decref(refused[i].j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_again),
        cmocka_unit_test(the_first_version_kept_neither_best_nor_staleness),
        cmocka_unit_test(what_is_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
