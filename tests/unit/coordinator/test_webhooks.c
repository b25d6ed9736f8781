/* What webhooks send, when they try again, and how they sign; without a network. */
#include "coordinator/webhooks/hooks.h"
#include "coordinator/webhooks/send.h"
#include "tests/unit/store/fixture.h"

static const int64_t day = (int64_t)86400 * 1000;

static void put(struct store *s, const char *id, const char *scope, const char *owner,
                const char *since)
{
    struct webhook w = {.address = "https://a.example",
                        .states = {JOB_FAILED, JOB_QUEUED},
                        .n_states = 2,
                        .own = strcmp(scope, "own") == 0,
                        .secret = "whsec_AAAA"};
    snprintf(w.id, sizeof w.id, "%s", id);
    snprintf(w.owner, sizeof w.owner, "%s", owner);
    snprintf(w.since, sizeof w.since, "%s", since);
    json_t *hook = webhook_json(&w);
    OK(store_webhook_put(s, id, hook, &err_));
    json_decref(hook);
}

static void tell(struct hooks *h, const char *id, const char *job, const char *from,
                 const char *state)
{
    char data[300];
    snprintf(data, sizeof data, "{\"id\":\"%s\",\"name\":\"n\",\"from\":\"%s\",\"state\":\"%s\"}",
             job, from, state);
    struct event_entry told = {.id = id, .job = job, .type = "job", .data = data};
    OK(hooks_event(h, &told, &err_));
}

static int waiting(const struct hooks *h, const char *id)
{
    int n = 0;
    for (const struct hook *hook = h->first; hook; hook = hook->next) {
        for (const struct delivery *d = strcmp(hook->about.id, id) ? NULL : hook->waiting; d;
             d = d->next) {
            n++;
        }
    }
    return n;
}

static void only_changes_that_concern_a_hook_are_queued(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    struct hooks h = {.store = s};
    char job[STORE_ID];
    json_t *spec = json_pack("{s:s}", "name", "n");
    OK(store_job_create(s, spec, 0, NULL, "olga", job, &err_));
    json_decref(spec);
    put(s, "aaaaaaaaaaaaaaaa", "all", "admin", "5-0");
    put(s, "bbbbbbbbbbbbbbbb", "own", "olga", "5-0");
    put(s, "cccccccccccccccc", "own", "otto", "5-0");
    put(s, "dddddddddddddddd", "all", "admin", "20-9");
    OK(hooks_load(&h, &err_));
    tell(&h, "5-0", job, "", "queued");          /* before any webhook */
    tell(&h, "20-9", job, "", "queued");         /* to a and b */
    tell(&h, "20-9", job, "", "queued");         /* read again */
    tell(&h, "20-10", job, "queued", "queued");  /* its priority changes */
    tell(&h, "20-11", job, "running", "failed"); /* and d */
    tell(&h, "20-12", job, "queued", "launching");
    tell(&h, "20-13", "0123456789abcdef", "", "queued"); /* of a deleted job, which has no owner */
    assert_int_equal(waiting(&h, "aaaaaaaaaaaaaaaa"), 3);
    assert_int_equal(waiting(&h, "bbbbbbbbbbbbbbbb"), 2);
    assert_int_equal(waiting(&h, "cccccccccccccccc"), 0);
    assert_int_equal(waiting(&h, "dddddddddddddddd"), 2);
    hooks_release(&h);
    OK(hooks_load(&h, &err_)); /* a new coordinator */
    assert_int_equal(waiting(&h, "aaaaaaaaaaaaaaaa"), 3);
    OK(store_webhook_remove(s, "aaaaaaaaaaaaaaaa", &err_));
    OK(hooks_load(&h, &err_));
    assert_int_equal(waiting(&h, "aaaaaaaaaaaaaaaa"), 0);
    hooks_release(&h);
    OK(store_webhook_remove(s, "bbbbbbbbbbbbbbbb", &err_));
    OK(store_webhook_remove(s, "cccccccccccccccc", &err_));
    OK(store_webhook_remove(s, "dddddddddddddddd", &err_));
}

static void a_failed_one_waits_longer_each_time_and_is_given_up_after_a_day(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    struct hooks h = {.store = s};
    static const int expected[] = {5, 20, 80, 320, 1280, 3600, 3600};
    int64_t now = 1000;
    int tries = 0;
    put(s, "eeeeeeeeeeeeeeee", "all", "admin", "0-0");
    OK(hooks_load(&h, &err_));
    tell(&h, "1000-0", "0123456789abcdef", "", "failed");
    tell(&h, "2000-0", "0123456789abcdef", "", "failed");
    assert_null(hooks_due(&h, 999));
    for (struct hook *hook; (hook = hooks_due(&h, now)) && hook->waiting == hook->sending;
         tries++) {
        assert_null(hooks_due(&h, now)); /* one delivery at a time */
        OK(hooks_answered(&h, hook, &(struct hooks_answer){500, "it answered 500", 0}, now, &err_));
        if (!hook->waiting->tries) { /* the other delivery: the first was given up */
            break;
        }
        int64_t wait = hook->waiting->due - now;
        assert_int_equal(wait / 1000, expected[tries < 6 ? tries : 6]);
        hook->waiting->next->due = 3 * day; /* postpones it */
        now = hook->waiting->due;
    }
    assert_true(now > day && now < day + 2 * 3600 * 1000);
    json_t *tried = store_webhook_tries(s, "eeeeeeeeeeeeeeee", &err_);
    assert_string_equal(text_at(tried, "/0/outcome"), "given_up");
    assert_string_equal(text_at(tried, "/1/outcome"), "waits");
    json_decref(tried);
    assert_int_equal(store_webhook_count(s, "eeeeeeeeeeeeeeee", &err_), 1);
    struct hook *hook = hooks_due(&h, 4 * day);
    assert_non_null(hook);
    OK(hooks_answered(&h, hook, &(struct hooks_answer){204, NULL, 0}, 4 * day, &err_));
    assert_int_equal(store_webhook_count(s, "eeeeeeeeeeeeeeee", &err_), 0);
    assert_null(hooks_due(&h, 9 * day));
    hooks_release(&h);
    OK(store_webhook_remove(s, "eeeeeeeeeeeeeeee", &err_));
}

static void a_receiver_may_ask_for_more_time_and_not_for_less(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    struct hooks h = {.store = s};
    static const int asked[] = {12, 12, 300, INT32_MAX}, expected[] = {12, 20, 300, 3600};
    int64_t now = 1000;
    put(s, "dddddddddddddddd", "all", "admin", "0-0");
    OK(hooks_load(&h, &err_));
    tell(&h, "1000-0", "0123456789abcdef", "", "failed");
    for (int i = 0; i < 4; i++) {
        struct hook *hook = hooks_due(&h, now);
        assert_non_null(hook);
        OK(hooks_answered(&h, hook, &(struct hooks_answer){503, "it answered 503", asked[i]}, now,
                          &err_));
        assert_int_equal((hook->waiting->due - now) / 1000, expected[i]);
        now = hook->waiting->due;
    }
    hooks_release(&h);
    OK(store_webhook_remove(s, "dddddddddddddddd", &err_));
}

static void places_are_compared_by_time(void **state)
{
    (void)state;
    assert_true(store_stream_compare("9-0", "10-0") < 0);
    assert_true(store_stream_compare("10-2", "10-10") < 0);
    assert_true(store_stream_compare("10-2", "10-2") == 0);
    assert_true(store_stream_compare("10-2", "0-0") > 0);
}

/* The example of standardwebhooks.com's libraries. */
static void the_signature_is_that_of_standard_webhooks(void **state)
{
    char out[SEND_SIGNATURE];
    struct send_wish w = {.secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                          .id = "msg_p5jXN8AQM9LWM0D4loKWxJek",
                          .body = "{\"test\": 2432232314}",
                          .seconds = 1614265330};
    (void)state;
    OK(send_sign(&w, out, &err_));
    assert_string_equal(out, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    w.secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert_int_equal(send_sign(&w, out, &err_), -ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_changes_that_concern_a_hook_are_queued),
        cmocka_unit_test(a_failed_one_waits_longer_each_time_and_is_given_up_after_a_day),
        cmocka_unit_test(a_receiver_may_ask_for_more_time_and_not_for_less),
        cmocka_unit_test(places_are_compared_by_time),
        cmocka_unit_test(the_signature_is_that_of_standard_webhooks),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
