/* One coordinator at a time (store/redis/fence.c): which one gets the lease, and that a coordinator
 * without it changes nothing. */
#include "tests/unit/store/fixture.h"

static const char first[] = "11111111111111111111111111111111",
                  second[] = "22222222222222222222222222222222";

static int take(struct place *p, const char *instance, struct store_fence *fence, const char *dead,
                bool patient, struct store_leader *leader)
{
    json_t *who = json_pack("{s:s}", "host", instance[0] == '1' ? "one" : "two");
    struct store_candidate c = {instance, who, dead, patient, NULL};
    int rc = store_leader_take(p->store, &c, fence, leader, &err_);
    json_decref(who);
    OK(rc);
    return rc;
}

static void only_one_has_the_lease_and_says_who_it_is(void **state)
{
    struct place *p = *state;
    struct store_fence a = {0}, b = {0};
    struct store_leader leader = {.instance = ""};
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1);
    assert_true(a.token > 0);
    assert_int_equal(take(p, second, &b, NULL, false, &leader), 0);
    assert_string_equal(leader.instance, first);
    assert_string_equal(text_at(leader.who, "/host"), "one");
    assert_true(leader.age < 5 && b.token == 0);
    store_leader_release(&leader);
    int64_t before = a.token;
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1); /* renewed */
    assert_true(a.token == before);
    OK(store_leader_give(p->store, first, &err_));
    assert_int_equal(take(p, second, &b, NULL, false, NULL), 1);
    assert_true(b.token > a.token);
    assert_int_equal(take(p, first, &a, NULL, false, &leader), 0); /* no renewal brings it back */
    store_leader_release(&leader);
    OK(store_leader_give(p->store, first, &err_)); /* nor gives it what is another's */
    assert_int_equal(take(p, second, &b, NULL, false, NULL), 1);
    OK(store_leader_give(p->store, second, &err_));
}

static void a_lease_that_ran_out_is_taken_but_not_by_the_patient(void **state)
{
    struct place *p = *state;
    struct store_fence a = {0}, b = {0};
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1);
    raw(p, "HINCRBY es:leader at -7000");
    assert_int_equal(take(p, second, &b, NULL, true, NULL), 0);
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1); /* late, but nobody took it */
    raw(p, "HINCRBY es:leader at -7000");
    assert_int_equal(take(p, second, &b, NULL, false, NULL), 1);
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 0);
    OK(store_leader_give(p->store, second, &err_));
}

/* The clock of the store's host was an hour ahead. The lease's holder renews it as usual; once the
 * holder has ended, nobody has to wait for that hour to pass again. */
static void a_clock_that_was_set_back_makes_no_lease_longer(void **state)
{
    struct place *p = *state;
    struct store_fence a = {0}, b = {0};
    struct store_leader leader = {.instance = ""};
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1);
    raw(p, "HINCRBY es:leader at 3600000");
    assert_int_equal(take(p, second, &b, NULL, false, &leader), 0);
    store_leader_release(&leader);
    raw(p, "HINCRBY es:leader at -7000");
    assert_int_equal(take(p, second, &b, NULL, false, NULL), 1);
    OK(store_leader_give(p->store, second, &err_));
}

static void the_lease_of_one_that_is_known_to_have_ended_is_free(void **state)
{
    struct place *p = *state;
    struct store_fence a = {0}, b = {0};
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1);
    assert_int_equal(take(p, second, &b, second, false, NULL), 0); /* another one's end */
    assert_int_equal(take(p, second, &b, first, false, NULL), 1);
    OK(store_leader_give(p->store, second, &err_));
}

static void a_store_that_was_emptied_gives_no_old_token_again(void **state)
{
    struct place *p = *state;
    struct store_fence a = {0};
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1);
    int64_t before = a.token;
    raw(p, "DEL es:leader");
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1);
    assert_true(a.token > before);
    OK(store_leader_give(p->store, first, &err_));
}

/* Everything that a turn of the scheduler changes. */
static void refused_all(struct place *p, const char *id)
{
    char place[STORE_PLACE] = "0-0";
    struct store_tail tail = {0, place};
    json_t *doc = json_pack("{s:i}", "x", 1);
    const struct store_news news = {"live", "live", doc};
    struct store *s = p->store;
    double rest;
#define REFUSED(call)                                        \
    do {                                                     \
        err_clear(&err_);                                    \
        assert_int_equal((int)(call), -ERR_UNAVAILABLE);     \
        assert_non_null(strstr(err_.message, "taken over")); \
    } while (0)
    REFUSED(store_job_transition(s, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    REFUSED(store_job_increment(s, id, "attempt", &err_));
    REFUSED(store_job_set(s, id, "launch", "{}", &err_));
    REFUSED(store_doc_set(s, id, "plan", doc, &err_));
    REFUSED(store_assignment_add(s, id, doc, &err_));
    REFUSED(store_publish(s, id, &news, 1, &err_));
    REFUSED(store_event(s, id, "log", doc, &err_));
    REFUSED(store_node_claim(s, "n1", id, &err_));
    REFUSED(store_node_release(s, "n1", id, &err_));
    REFUSED(store_node_set(s, "n1", "drained", "1", &err_));
    REFUSED(store_node_failed(s, "n1", "why", &rest, &err_));
    REFUSED(store_node_well(s, "n1", &err_));
    REFUSED(store_profile_put(s, "n1", "abc", doc, &err_));
    REFUSED(store_beats_clear(s, id, &err_));
    REFUSED(store_rows_trim(s, id, &tail, 1, &err_));
    REFUSED(store_facts_trim(s, id, "1-1", &err_));
    REFUSED(store_mail_put(s, "welcome.x", "hello", 1, &err_));
    json_decref(doc);
}

static void who_lost_the_lease_changes_nothing_more(void **state)
{
    struct place *p = *state;
    struct store_fence a = {0}, b = {0};
    char id[STORE_ID];
    enum job_state now;
    new_job(p->store, "{\"name\": \"a\"}", 0, id);
    assert_int_equal(take(p, first, &a, NULL, false, NULL), 1);
    store_fence(p->store, &a);
    OK(store_job_set(p->store, id, "waiting", "for a node", &err_)); /* while it has it */
    OK(store_event(p->store, id, "log", NULL, &err_));
    store_fence(p->store, NULL);
    assert_int_equal(take(p, second, &b, first, false, NULL), 1);
    store_fence(p->store, &a);
    refused_all(p, id);
    store_fence(p->store, &b);
    OK(store_job_transition(p->store, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    store_fence(p->store, NULL);
    OK(store_job_state(p->store, id, &now, &err_));
    assert_int_equal(now, JOB_LAUNCHING);
    assert_null(store_job_field(p->store, id, "launch", &err_));
    OK(store_leader_give(p->store, second, &err_));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_has_the_lease_and_says_who_it_is),
        cmocka_unit_test(a_lease_that_ran_out_is_taken_but_not_by_the_patient),
        cmocka_unit_test(a_clock_that_was_set_back_makes_no_lease_longer),
        cmocka_unit_test(the_lease_of_one_that_is_known_to_have_ended_is_free),
        cmocka_unit_test(a_store_that_was_emptied_gives_no_old_token_again),
        cmocka_unit_test(who_lost_the_lease_changes_nothing_more),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
