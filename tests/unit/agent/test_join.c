/* The agent's half of joining (agent/join.c), against a coordinator that the test plays in its own
 * thread: what the agent sends, what it believes, and every refusal.
 */
#include "tests/unit/store/fixture.h"

#include <pthread.h>
#include <signal.h>

#include "agent/join.h"
#include "job/hostkey.h"

static struct sign_key secret, other_secret, host_key;
static const char salt[] = "2222222222222222222222222222222222222222222222222222222222222222",
                  coordinator_id[] = "the-coordinator";

/* The coordinator's answer, and the request that it got. */
struct coordinator {
    const char *store_url;
    json_t *answer;              /* borrowed; the sealed answer, without "key" if `wraps` */
    const char *text;            /* sent as it is instead, or NULL */
    const struct sign_key *with; /* the secret that it signs with */
    bool wraps;                  /* puts the host's key into the answer */
    json_t *asked;               /* owned */
};

static void *answer_one(void *arg)
{
    struct coordinator *c = arg;
    struct err e = {0};
    struct sign_key key, wrapped = host_key;
    char box[96], hex[SIGN_HEX];
    struct store *s = store_open(c->store_url, NULL, &e);
    char *text = store_mail_take(s, "join", 60000, &e);
    hostkey_join(&secret, &key);
    c->asked = text ? sign_open(&key, "join", text, &e) : NULL;
    const char *nonce = json_string_value(json_object_get(c->asked, "nonce"));
    if (nonce) {
        json_t *answer = json_deep_copy(c->answer);
        hostkey_wrap(&secret, nonce, salt, &wrapped);
        sign_hex(&wrapped, hex);
        if (c->wraps) {
            json_object_set_new(answer, "key", json_string(hex));
        }
        hostkey_welcome(c->with, nonce, &key);
        char *sealed = sign_seal(&key, "welcome", answer, &e);
        snprintf(box, sizeof box, "welcome.%s", nonce);
        store_mail_put(s, box, c->text ? c->text : sealed, 60, &e);
        free(sealed);
        json_decref(answer);
    }
    free(text);
    store_close(s);
    return NULL;
}

static int setup(void **state)
{
    sign_secret("the secret of this cluster", &secret);
    sign_secret("the secret of another cluster", &other_secret);
    return sign_random(&host_key, &err_) < 0 ? -1 : place_open(state);
}

static int join_with(struct place *p, struct coordinator *c, struct welcome *out, struct err *e)
{
    static const volatile sig_atomic_t go_on = 0;
    json_t *who = json_pack("{s:s}", "host", "beta"), *copy = json_deep_copy(who);
    pthread_t thread;
    memset(out, 0, sizeof *out);
    err_clear(e);
    c->store_url = p->url;
    c->with = c->with ? c->with : &secret;
    assert_int_equal(pthread_create(&thread, NULL, answer_one, c), 0);
    int rc = join_ask(p->store, &secret, who, 60, &go_on, out, e);
    pthread_join(thread, NULL);
    assert_true(json_equal(who, copy));
    json_decref(who);
    json_decref(copy);
    return rc;
}

static json_t *acceptance(void)
{
    return json_pack("{s:b, s:s, s:s}", "accepted", 1, "salt", salt, "coordinator", coordinator_id);
}

static void who_is_accepted_has_the_key_that_the_coordinator_gave(void **state)
{
    struct welcome w;
    struct err e;
    struct coordinator c = {.answer = acceptance(), .wraps = true};
    int rc = join_with(*state, &c, &w, &e);
    assert_int_equal(rc, 0);
    assert_memory_equal(&w.key, &host_key, sizeof w.key);
    assert_string_equal(w.coordinator, coordinator_id);
    assert_string_equal(json_string_value(json_object_get(c.asked, "host")), "beta");
    assert_true(json_is_integer(json_object_get(c.asked, "at")));
    json_decref(c.asked);
    json_decref(c.answer);
}

static void assert_join(void **state, struct coordinator *c, int code, const char *message,
                        const char *hint)
{
    struct welcome w;
    struct err e;
    int rc = join_with(*state, c, &w, &e);
    assert_int_equal(rc, -code);
    assert_int_equal(e.code, code);
    assert_string_equal(e.message, message);
    assert_string_equal(e.hint, hint);
    json_decref(c->asked);
    json_decref(c->answer);
}

static void a_refusal_is_told_in_the_coordinators_words(void **state)
{
    struct coordinator c = {.answer = json_pack("{s:b, s:s, s:s}", "accepted", 0, "message",
                                                "another agent has that name", "hint", "stop it")};
    assert_join(state, &c, ERR_FORBIDDEN, "another agent has that name", "stop it");
    c = (struct coordinator){.answer = json_pack("{s:b}", "accepted", 0)};
    assert_join(state, &c, ERR_FORBIDDEN, "the coordinator refused this host", "");
}

/* A key without the word is no acceptance, and neither is a word that is not true. */
static void what_does_not_say_accepted_is_a_refusal(void **state)
{
    struct coordinator c = {.answer = acceptance(), .wraps = true};
    json_object_del(c.answer, "accepted");
    assert_join(state, &c, ERR_FORBIDDEN, "the coordinator refused this host", "");
    c = (struct coordinator){.answer = acceptance(), .wraps = true};
    json_object_set_new(c.answer, "accepted", json_string("true"));
    assert_join(state, &c, ERR_FORBIDDEN, "the coordinator refused this host", "");
}

static void an_answer_of_another_secret_is_not_believed(void **state)
{
    static const char why[] =
        "the coordinator's answer is signed with another secret than this agent's";
    static const char hint[] = "give this agent the coordinator's secret: --secret-file";
    struct coordinator c = {.answer = acceptance(), .wraps = true, .with = &other_secret};
    assert_join(state, &c, ERR_FORBIDDEN, why, hint);
    c = (struct coordinator){.answer = acceptance(), .text = "{\"accepted\": true}"};
    assert_join(state, &c, ERR_FORBIDDEN, why, hint);
}

static void an_acceptance_that_lacks_something_is_malformed(void **state)
{
    static const char *const lacking[] = {"salt", "coordinator"};
    static const char why[] = "the coordinator's answer is malformed";
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        struct coordinator c = {.answer = acceptance(), .wraps = true};
        json_object_del(c.answer, lacking[i]);
        assert_join(state, &c, ERR_SYNTAX, why, "");
    }
    struct coordinator c = {.answer = acceptance()};
    assert_join(state, &c, ERR_SYNTAX, why, "");
    c = (struct coordinator){.answer = acceptance()};
    json_object_set_new(c.answer, "key", json_string("0123"));
    assert_join(state, &c, ERR_SYNTAX, why, "");
    c = (struct coordinator){.answer = acceptance(), .wraps = true};
    json_object_set_new(c.answer, "salt", json_string(salt + 1));
    assert_join(state, &c, ERR_SYNTAX, why, "");
}

/* ---- no answer ------------------------------------------------------------------------------- */

static int ask_in_vain(struct store *s, sig_atomic_t stop, struct err *e)
{
    struct welcome w;
    volatile sig_atomic_t told = stop;
    json_t *who = json_pack("{s:s}", "host", "beta");
    int rc = join_ask(s, &secret, who, 0, &told, &w, e);
    json_decref(who);
    return rc;
}

static void nobody_who_answers_is_told_with_the_store_that_was_asked(void **state)
{
    struct place *p = *state;
    struct err e = {0};
    char expected[700];
    assert_int_equal(ask_in_vain(p->store, 0, &e), -ERR_TIMEOUT);
    snprintf(expected, sizeof expected, "no coordinator answers at the store '%s'",
             store_url(p->store));
    assert_string_equal(e.message, expected);
    free(store_mail_take(p->store, "join", 0, &e));
}

static void an_agent_that_is_told_to_stop_waits_no_longer(void **state)
{
    struct place *p = *state;
    struct err e = {0};
    assert_int_equal(ask_in_vain(p->store, 1, &e), -ERR_CANCELLED);
    free(store_mail_take(p->store, "join", 0, &e));
}

static void a_store_that_is_away_is_told_as_such(void **state)
{
    struct err e = {0};
    struct store *s = store_open("unix:/nowhere/redis.sock", NULL, &e);
    (void)state;
    assert_non_null(s);
    assert_int_equal(ask_in_vain(s, 0, &e), -ERR_UNAVAILABLE);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_accepted_has_the_key_that_the_coordinator_gave),
        cmocka_unit_test(a_refusal_is_told_in_the_coordinators_words),
        cmocka_unit_test(what_does_not_say_accepted_is_a_refusal),
        cmocka_unit_test(an_answer_of_another_secret_is_not_believed),
        cmocka_unit_test(an_acceptance_that_lacks_something_is_malformed),
        cmocka_unit_test(nobody_who_answers_is_told_with_the_store_that_was_asked),
        cmocka_unit_test(an_agent_that_is_told_to_stop_waits_no_longer),
        cmocka_unit_test(a_store_that_is_away_is_told_as_such),
    };
    return cmocka_run_group_tests(tests, setup, place_close);
}
