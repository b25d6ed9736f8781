/* The nodes that jobs used: each interval from a claim to its release counts once, on its days
 * (store/claims.c). The clock is the test's. */
#include "tests/unit/store/fixture.h"

enum { HOUR = 3600000, DAY = 24 * HOUR };

static int64_t now_;

static int64_t test_clock(void)
{
    return now_;
}

static void begin(struct place *p, const char *owner, char id[STORE_ID])
{
    json_t *spec = json_of("{\"name\": \"mine\"}");
    store_clock(p->store, test_clock);
    now_ = (int64_t)20000 * DAY + 10 * HOUR;
    raw(p, "FLUSHALL");
    OK(store_job_create(p->store, spec, 0, NULL, owner, id, &err_));
    json_decref(spec);
}

static void claim(struct place *p, const char *node, const char *id)
{
    assert_int_equal(store_node_claim(p->store, node, id, &err_), CLAIM_OURS);
}

/* The job's ms on these days. */
static int64_t used(struct place *p, const char *id, int64_t first, int64_t last)
{
    json_t *all = store_accounting(p->store, first, last, &err_), *one;
    int64_t sum = 0;
    size_t i;
    assert_non_null(all);
    json_array_foreach(all, i, one) {
        if (strcmp(text_at(one, "/job"), id) == 0) {
            assert_string_equal(text_at(one, "/name"), "mine");
            assert_string_equal(text_at(one, "/owner"), "ada");
            sum += (int64_t)number_at(one, "/ms");
        }
    }
    json_decref(all);
    return sum;
}

static void a_claim_counts_from_its_beginning_to_its_release(void **state)
{
    struct place *p = *state;
    char id[STORE_ID];
    begin(p, "ada", id);
    claim(p, "n1", id);
    now_ += 1234;
    assert_int_equal(used(p, id, 20000, 20000), 1234); /* while it holds */
    claim(p, "n2", id);
    now_ += 1000;
    OK(store_node_release(p->store, "n1", id, &err_));
    now_ += 500;
    assert_int_equal(used(p, id, 20000, 20000), 2234 + 1500);
    OK(store_node_release(p->store, "n2", id, &err_));
    now_ += HOUR;
    assert_int_equal(used(p, id, 20000, 20000), 2234 + 1500);
    assert_int_equal(used(p, id, 19000, 19999), 0);
}

static void claiming_or_releasing_again_counts_once(void **state)
{
    struct place *p = *state;
    char id[STORE_ID];
    begin(p, "ada", id);
    claim(p, "n1", id);
    now_ += 1000;
    claim(p, "n1", id); /* a coordinator that was killed in between */
    now_ += 1000;
    OK(store_node_release(p->store, "n1", id, &err_));
    now_ += 1000;
    assert_int_equal(store_node_release(p->store, "n1", id, &err_), CLAIM_LOST);
    assert_int_equal(used(p, id, 20000, 20000), 2000);
}

static void a_use_is_divided_at_midnight(void **state)
{
    struct place *p = *state;
    char id[STORE_ID];
    begin(p, "ada", id);
    claim(p, "n1", id);
    now_ += 14 * HOUR + DAY + 5; /* 5 ms into the day after the next */
    assert_int_equal(used(p, id, 20002, 20002), 5);
    OK(store_node_release(p->store, "n1", id, &err_));
    assert_int_equal(used(p, id, 20000, 20000), 14 * HOUR);
    assert_int_equal(used(p, id, 20001, 20001), DAY);
    assert_int_equal(used(p, id, 20002, 20002), 5);
    assert_int_equal(used(p, id, 20000, 20002), 14 * HOUR + DAY + 5);
}

static void a_pause_counts_nothing_and_attempts_add_up(void **state)
{
    struct place *p = *state;
    char id[STORE_ID];
    begin(p, "ada", id);
    for (int attempt = 1; attempt <= 3; attempt++) {
        claim(p, "n1", id);
        now_ += 1000 * attempt;
        OK(store_node_release(p->store, "n1", id, &err_));
        now_ += HOUR;
    }
    assert_int_equal(used(p, id, 20000, 20000), 6000);
}

static void what_was_used_stays_when_the_job_is_deleted(void **state)
{
    struct place *p = *state;
    char id[STORE_ID];
    begin(p, "ada", id);
    claim(p, "n1", id);
    now_ += 777;
    OK(store_node_release(p->store, "n1", id, &err_));
    OK(store_job_request(p->store, id, "cancel", &err_));
    OK(store_job_transition(p->store, id, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    OK(store_job_delete(p->store, id, NULL, &err_));
    assert_int_equal(used(p, id, 20000, 20000), 777);
}

static void a_clock_that_goes_back_takes_nothing_away(void **state)
{
    struct place *p = *state;
    char id[STORE_ID];
    begin(p, "ada", id);
    claim(p, "n1", id);
    now_ -= HOUR;
    assert_int_equal(used(p, id, 19999, 20001), 0);
    OK(store_node_release(p->store, "n1", id, &err_));
    assert_int_equal(used(p, id, 19999, 20001), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_counts_from_its_beginning_to_its_release),
        cmocka_unit_test(claiming_or_releasing_again_counts_once),
        cmocka_unit_test(a_use_is_divided_at_midnight),
        cmocka_unit_test(a_pause_counts_nothing_and_attempts_add_up),
        cmocka_unit_test(what_was_used_stays_when_the_job_is_deleted),
        cmocka_unit_test(a_clock_that_goes_back_takes_nothing_away),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
