/* Hosts with agents (store/hosts.c): which agent offers a name, how old a heartbeat is, boxes of
 * messages, leases, and refusals.
 */
#include "tests/unit/store/fixture.h"

static struct store *s;

static int setup(void **state)
{
    int rc = place_open(state);
    s = rc == 0 ? ((struct place *)*state)->store : NULL;
    return rc;
}

static int put(const char *name, const char *instance)
{
    const struct host_beat host = {.name = name, .instance = instance};
    err_clear(&err_);
    return store_host_put(s, &host, &err_);
}

static void a_host_is_as_it_was_put_with_the_age_of_its_heartbeat(void **state)
{
    (void)state;
    OK(put("beta", "one"));
    json_t *got = store_host_get(s, "beta", &err_);
    assert_string_equal(text_at(got, "/instance"), "one");
    assert_in_range((uint64_t)number_at(got, "/heartbeat_age_seconds"), 0, 3600);
    json_decref(got);
    assert_null(store_host_get(s, "nobody", &err_));
    OK(put("alpha", "two"));
    got = store_hosts(s, &err_);
    assert_int_equal(json_array_size(got), 2);
    json_decref(got);
}

/* The heartbeat's time is set back, so the test waits for nothing. */
static void a_host_whose_heartbeat_is_old_is_lost_and_its_name_is_free(void **state)
{
    OK(put("gamma", "one"));
    raw(*state, "HSET es:host:gamma at 99999999999999"); /* however slow this machine is */
    assert_int_equal(put("gamma", "other"), -ERR_CONFLICT);
    raw(*state, "HSET es:host:gamma at 1000");
    json_t *got = store_host_get(s, "gamma", &err_);
    assert_true(json_is_true(at(got, "/lost")));
    assert_true(number_at(got, "/heartbeat_age_seconds") > 1e6);
    json_decref(got);
    OK(put("gamma", "other"));
    assert_int_equal(put("gamma", "one"), -ERR_CONFLICT);
}

static void a_clock_that_was_put_back_makes_no_negative_age(void **state)
{
    OK(put("delta", "one"));
    raw(*state, "HSET es:host:delta at 99999999999999");
    json_t *got = store_host_get(s, "delta", &err_);
    assert_float_equal(number_at(got, "/heartbeat_age_seconds"), 0, 0);
    assert_true(json_is_false(at(got, "/lost")));
    json_decref(got);
    /* its agent may have died meanwhile: the next one waits as long as ever, not until that time */
    assert_int_equal(put("delta", "other"), -ERR_CONFLICT);
    raw(*state, "HINCRBY es:host:delta at -60000");
    OK(put("delta", "other"));
}

static void a_host_is_removed_by_its_own_instance_alone(void **state)
{
    (void)state;
    OK(put("epsilon", "one"));
    OK(store_host_remove(s, "epsilon", "other", &err_));
    json_t *got = store_host_get(s, "epsilon", &err_);
    assert_non_null(got);
    json_decref(got);
    OK(store_host_remove(s, "epsilon", "one", &err_));
    assert_null(store_host_get(s, "epsilon", &err_));
}

static void assert_taken(const char *box, const char *expected)
{
    char *text = store_mail_take(s, box, 0, &err_);
    assert_int_equal(err_.code, ERR_NONE);
    assert_true(text && expected ? strcmp(text, expected) == 0 : text == expected);
    free(text);
}

static void messages_of_a_box_come_in_order_and_once(void **state)
{
    (void)state;
    assert_taken("x", NULL);
    OK(store_mail_put(s, "x", "first", 60, &err_));
    OK(store_mail_put(s, "x", "second", 60, &err_));
    OK(store_mail_put(s, "y", "other", 60, &err_));
    assert_taken("x", "first");
    assert_taken("x", "second");
    assert_taken("x", NULL);
    char *text = store_mail_take(s, "y", 60000, &err_); /* one that waits takes it too */
    assert_string_equal(text, "other");
    free(text);
}

static void a_box_keeps_its_last_64_messages(void **state)
{
    char text[8];
    (void)state;
    for (int i = 1; i <= 65; i++) {
        snprintf(text, sizeof text, "%d", i);
        OK(store_mail_put(s, "full", text, 60, &err_));
    }
    for (int i = 2; i <= 65; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_taken("full", text);
    }
    assert_taken("full", NULL);
}

static void a_lease_is_there_until_it_is_given_back(void **state)
{
    (void)state;
    assert_int_equal(store_lease_there(s, "launch.1", &err_), LEASE_GONE);
    OK(store_lease_set(s, "launch.1", 60, &err_));
    assert_int_equal(store_lease_there(s, "launch.1", &err_), LEASE_HELD);
    assert_int_equal(store_lease_there(s, "launch.2", &err_), LEASE_GONE);
    OK(store_lease_set(s, "launch.1", 0, &err_));
    assert_int_equal(store_lease_there(s, "launch.1", &err_), LEASE_GONE);
}

static void refused_messages_are_counted_by_cause(void **state)
{
    (void)state;
    OK(store_refused_add(s, "launch.forged", &err_));
    OK(store_refused_add(s, "launch.forged", &err_));
    OK(store_refused_add(s, "join.expired", &err_));
    json_t *got = store_refused(s, &err_), *expected = json_of(
                                               "{\"launch.forged\": 2, "
                                               "\"join.expired\": 1}");
    assert_true(json_equal(got, expected));
    json_decref(got);
    json_decref(expected);
}

static void refuse(int i)
{
    char name[16];
    snprintf(name, sizeof name, "h%02d", i);
    json_t *one = json_pack("{s:s, s:i}", "host", name, "i", i);
    OK(store_refusal_put(s, name, one, &err_));
    json_decref(one);
}

static void the_hosts_refused_of_late_are_told_by_name_the_newest_of_each(void **state)
{
    (void)state;
    refuse(2);
    refuse(1);
    json_t *again = json_of("{\"host\": \"h02\", \"i\": 20}");
    OK(store_refusal_put(s, "h02", again, &err_));
    json_decref(again);
    json_t *got = store_refusals(s, &err_);
    assert_int_equal(json_array_size(got), 2);
    assert_string_equal(text_at(got, "/0/host"), "h01");
    assert_int_equal((int)number_at(got, "/1/i"), 20);
    assert_in_range((uint64_t)number_at(got, "/0/age_seconds"), 0, 30);
    json_decref(got);
    OK(store_refusal_remove(s, "h02", &err_));
    OK(store_refusal_remove(s, "h01", &err_));
    got = store_refusals(s, &err_);
    assert_int_equal(json_array_size(got), 0);
    json_decref(got);
}

static void at_most_32_refused_hosts_are_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        refuse(i);
    }
    json_t *got = store_refusals(s, &err_);
    assert_int_equal(json_array_size(got), 32);
    json_decref(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_as_it_was_put_with_the_age_of_its_heartbeat),
        cmocka_unit_test(a_host_whose_heartbeat_is_old_is_lost_and_its_name_is_free),
        cmocka_unit_test(a_clock_that_was_put_back_makes_no_negative_age),
        cmocka_unit_test(a_host_is_removed_by_its_own_instance_alone),
        cmocka_unit_test(messages_of_a_box_come_in_order_and_once),
        cmocka_unit_test(a_box_keeps_its_last_64_messages),
        cmocka_unit_test(a_lease_is_there_until_it_is_given_back),
        cmocka_unit_test(refused_messages_are_counted_by_cause),
        cmocka_unit_test(the_hosts_refused_of_late_are_told_by_name_the_newest_of_each),
        cmocka_unit_test(at_most_32_refused_hosts_are_kept),
    };
    return cmocka_run_group_tests(tests, setup, place_close);
}
