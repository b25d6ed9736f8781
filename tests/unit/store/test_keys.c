/* Keys of the store: the list in store/redis/keys.def is complete. It contains every written key, a
 * job's keys are deleted with it, and users of Redis may access exactly what their role needs. */
#include "store/sweeps.h"
#include "store/webhooks.h"
#include "tests/unit/store/fixture.h"

#include <ctype.h>
#include <fnmatch.h>
#include <glob.h>
#include <hiredis/hiredis.h>

#include "job/hostkey.h"
#include "store/internal.h"
#include "store/loads.h"
#include "store/redis/keys.h"

static const char *const spec_text = "{\"name\":\"keys\"}";

/* The answer to a command whose words are separated by single blanks. */
static redisReply *ask(struct place *p, const char *command)
{
    enum { WORDS = 64 };
    char text[2000];
    const char *words[WORDS];
    int n = 0;
    snprintf(text, sizeof text, "%s", command);
    for (char *at = text; at && n < WORDS; n++) {
        words[n] = at;
        if ((at = strchr(at, ' '))) {
            *at++ = '\0';
        }
    }
    redisContext *c = redisConnectUnix(p->url + 5);
    assert_true(c && !c->err);
    redisReply *r = redisCommandArgv(c, n, words, NULL);
    assert_non_null(r);
    redisFree(c);
    return r;
}

static bool is_listed(const char *key)
{
    char pattern[STORE_KEY];
    for (int k = 0; k < KEY_COUNT; k++) {
        key_glob(pattern, (enum store_key)k);
        /* a name has no colon: FNM_PATHNAME keeps '*' from going past one */
        char text[STORE_KEY], *at;
        snprintf(text, sizeof text, "%s", key);
        for (at = text; (at = strchr(at, ':'));) {
            *at = '/';
        }
        for (at = pattern; (at = strchr(at, ':'));) {
            *at = '/';
        }
        if (!fnmatch(pattern, text, FNM_PATHNAME)) {
            return true;
        }
    }
    return false;
}

/* How many keys there are; `strange` gets one that is not in the list, or "". */
static int look_at_keys(struct place *p, char strange[STORE_KEY])
{
    redisReply *r = ask(p, "KEYS *");
    int n = (int)r->elements;
    strange[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (!is_listed(r->element[i]->str)) {
            snprintf(strange, STORE_KEY, "%s", r->element[i]->str);
        }
    }
    freeReplyObject(r);
    return n;
}

/* Writes everything that the store can write about a job. */
static void write_a_job(struct store *s, const char *id)
{
    json_t *doc = json_of("{\"a\":1}");
    struct row row = row_blank();
    OK(store_doc_set(s, id, "plan", doc, &err_));
    OK(store_doc_set(s, id, "control", doc, &err_));
    OK(store_doc_set(s, id, "live", doc, &err_));
    OK(store_doc_set(s, id, "detail:x", doc, &err_));
    OK(store_assignment_add(s, id, doc, &err_));
    OK(report_rows(s, id, 0, &row, 1, &err_));
    OK(report_rows(s, id, STORE_RANKS - 1, &row, 1, &err_));
    OK(report_beat(s, id, 0, doc, &err_));
    OK(store_fact_add(s, id, doc, &err_));
    json_decref(doc);
}

static int64_t a_clock(void)
{
    static int64_t now;
    return now += 1000;
}

static void use_a_node(struct store *s, const char *name, const char *id)
{
    store_clock(s, a_clock);
    assert_int_equal(store_node_claim(s, name, id, &err_), CLAIM_OURS);
    assert_int_equal(store_node_release(s, name, id, &err_), CLAIM_OURS);
    store_clock(s, NULL);
}

static void write_the_rest(struct store *s, const char *id)
{
    const struct host_beat host = {.name = "h", .instance = "i"};
    json_t *node = json_of("{\"name\":\"n\"}"), *refusal = json_of("{\"host\":\"h\"}");
    OK(store_node_put(s, node, &err_));
    OK(store_gpu_put(s, "n", node, &err_));
    OK(store_loads_put(s, &(struct load_mean_of){"n", 0, {.seconds = 2}}, 1, &err_));
    use_a_node(s, "n", id);
    assert_int_equal(store_node_claim(s, "n", id, &err_), CLAIM_OURS);
    OK(store_profile_put(s, "n", "0123", node, &err_));
    OK(store_host_put(s, &host, &err_));
    OK(store_mail_put(s, "join", "text", 60, &err_));
    OK(store_lease_set(s, "launch.1", 60, &err_));
    json_t *who = json_object();
    struct store_fence fence = {0};
    struct store_candidate me = {"0123456789abcdef0123456789abcdef", who, NULL, false, NULL};
    OK(store_leader_take(s, &me, &fence, NULL, &err_));
    json_decref(who);
    OK(store_refused_add(s, "join.forged", &err_));
    OK(store_refusal_put(s, "h", refusal, &err_));
    OK(store_secret_put(s, "any", "value", 60, &err_));
    OK(store_webhook_put(s, "w", node, &err_));
    assert_int_equal(store_webhook_queue(s, "w", "msg_1", node, &err_), WEBHOOK_QUEUED);
    OK(store_webhook_tried(s, "w", "msg_1", node, node, &err_));
    OK(store_webhook_place_set(s, "1-0", &err_));
    char sweep[STORE_ID];
    OK(store_sweep_create(s, node, NULL, "", sweep, &err_));
    json_decref(node);
    json_decref(refusal);
}

static void what_is_written_is_in_the_list_and_a_job_leaves_nothing(void **state)
{
    struct place *p = *state;
    char id[STORE_ID], strange[STORE_KEY], pattern[STORE_KEY], command[STORE_KEY + 16];
    json_t *spec = json_of(spec_text);
    OK(store_job_create(p->store, spec, 0, "once", NULL, id, &err_));
    write_a_job(p->store, id);
    write_the_rest(p->store, id);
    look_at_keys(p, strange);
    assert_string_equal(strange, "");
    for (int k = 0; k < KEY_COUNT; k++) { /* and whatever is in the list was written */
        key_glob(pattern, (enum store_key)k);
        snprintf(command, sizeof command, "KEYS %s", pattern);
        redisReply *r = ask(p, command);
        if (r->elements == 0 && k != KEY_COORDINATOR) {
            fail_msg("nothing wrote '%s'", store_keys[k].pattern);
        }
        freeReplyObject(r);
    }
    OK(store_job_request(p->store, id, "cancel", &err_));
    OK(store_job_transition(p->store, id, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    OK(store_job_delete(p->store, id, NULL, &err_));
    redisReply *left = ask(p, "KEYS es:job:*"), *idempotency = ask(p, "KEYS es:idempotency:*");
    assert_int_equal(left->elements, 0);
    assert_int_equal(idempotency->elements, 0);
    freeReplyObject(left);
    freeReplyObject(idempotency);
    json_decref(spec);
}

static void a_key_that_is_not_in_the_list_is_noticed(void **state)
{
    struct place *p = *state;
    char strange[STORE_KEY];
    freeReplyObject(ask(p, "SET es:job:0123456789abcdef:other 1"));
    look_at_keys(p, strange);
    assert_string_equal(strange, "es:job:0123456789abcdef:other");
    assert_false(is_listed("es:job:0123456789abcdef:rows:0:1"));
    assert_true(is_listed("es:job:0123456789abcdef:rows:17"));
}

/* A quoted text that begins like a key. */
static bool spells_a_key(const char *text)
{
    for (const char *at = text; (at = strstr(at, "es:")); at++) {
        if (at > text && (at[-1] == '"' || at[-1] == '\'' || (at[-1] == ' ' && isupper(at[-2])))) {
            return true;
        }
    }
    return false;
}

/* Otherwise a key could be written that is never deleted. */
static void no_file_but_the_list_spells_a_key(void **state)
{
    static const char *const files_of[] = {
        "{store,agent,http,coordinator,worker}/{*,*/*,*/*/*}.[ch]", "store/lua/{*,*/*}.lua"};
    (void)state;
    assert_true(spells_a_key("x = \"es:job:\";") && spells_a_key("'es:events'"));
    assert_true(spells_a_key("\"HGET es:x y\"") && !spells_a_key("resources: 1, \"files:\""));
    for (size_t f = 0; f < sizeof files_of / sizeof *files_of; f++) {
        glob_t files;
        assert_int_equal(glob(files_of[f], GLOB_BRACE, NULL, &files), 0);
        for (size_t i = 0; i < files.gl_pathc; i++) {
            char *text = proc_read_file(files.gl_pathv[i], 1 << 20, NULL, &err_);
            assert_non_null(text);
            if (spells_a_key(text) && strcmp(files.gl_pathv[i], "store/redis/keys.h")) {
                fail_msg("%s spells a key", files.gl_pathv[i]);
            }
            free(text);
        }
        globfree(&files);
    }
}

/* ---- users of Redis -------------------------------------------------------------------------- */

/* May the user make this call? Redis itself is asked. */
static bool may(struct place *p, const char *user, const char *command)
{
    char text[400];
    snprintf(text, sizeof text, "ACL DRYRUN %s %s", user, command);
    redisReply *r = ask(p, text);
    bool ok = r->type == REDIS_REPLY_STATUS && !strcmp(r->str, "OK");
    freeReplyObject(r);
    return ok;
}

static void make_user(struct place *p, const char *name, enum key_user user)
{
    char command[2000];
    struct buf rights;
    buf_init(&rights, 2000);
    key_rights(&rights, user);
    snprintf(command, sizeof command, "ACL SETUSER %s on nopass resetkeys +@all %s", name,
             rights.data);
    redisReply *r = ask(p, command);
    assert_int_equal(r->type, REDIS_REPLY_STATUS);
    freeReplyObject(r);
    buf_release(&rights);
}

static void users_of_redis_may_touch_what_their_role_needs(void **state)
{
    struct place *p = *state;
    redisReply *info = ask(p, "INFO server");
    const char *version = strstr(info->str, "redis_version:");
    int major = version ? (int)strtol(version + 14, NULL, 10) : 0;
    freeReplyObject(info);
    if (major < 7) {
        print_message("             skipped: Redis %d has no read-only key patterns\n", major);
        return;
    }
    make_user(p, "worker", KEY_WORKER);
    make_user(p, "agent", KEY_AGENT);
    make_user(p, "keeper", KEY_KEEPER);
    assert_true(may(p, "keeper", "GET es:job:1:plan") &&
                may(p, "keeper", "HSET es:job:1:beats 0 x") &&
                may(p, "keeper", "RPUSH es:mail:host.a x") && may(p, "keeper", "SET es:lease:a x"));
    assert_false(may(p, "keeper", "SET es:job:1:plan x") ||
                 may(p, "keeper", "HSET es:node:a json x") || may(p, "keeper", "GET es:secret:1"));
    assert_true(may(p, "worker", "GET es:job:1:plan") && may(p, "worker", "HGETALL es:job:1"));
    assert_true(may(p, "worker", "XADD es:job:1:rows:3 * r x") &&
                may(p, "worker", "HSET es:job:1:beats 0 x") &&
                may(p, "worker", "XADD es:job:1:facts * j x"));
    assert_false(may(p, "worker", "SET es:job:1:plan x") || may(p, "worker", "HSET es:job:1 a b") ||
                 may(p, "worker", "LPOP es:mail:host.a") || may(p, "worker", "GET es:secret:1"));
    assert_true(may(p, "agent", "HSET es:node:a json x") &&
                may(p, "agent", "XADD es:events * a b") && may(p, "agent", "LPOP es:mail:host.a") &&
                may(p, "agent", "GET es:lease:a"));
    assert_false(may(p, "agent", "SET es:lease:a x") || may(p, "agent", "GET es:job:1:plan") ||
                 may(p, "agent", "SET es:claim:a x") || may(p, "agent", "GET es:secret:1"));
}

static void the_coordinators_secret_is_named_by_its_digest(void **state)
{
    char digest[65];
    (void)state;
    store_hex_sha256(HOSTKEY_COORDINATOR, strlen(HOSTKEY_COORDINATOR), digest);
    assert_string_equal(key_text(KEY_COORDINATOR) + strlen("es:secret:"), digest);
}

/* ---- spelling -------------------------------------------------------------------------------- */

static void names_are_put_where_the_pattern_has_capitals(void **state)
{
    char key[STORE_KEY];
    (void)state;
    OK(key_of_job(key, KEY_JOB, "0f", &err_));
    assert_string_equal(key, "es:job:0f");
    OK(key_of_job(key, KEY_JOB_PLAN, "0f", &err_));
    assert_string_equal(key, "es:job:0f:plan");
    OK(key_of_rank(key, KEY_JOB_ROWS, "0f", 12, &err_));
    assert_string_equal(key, "es:job:0f:rows:12");
    OK(key_named(key, KEY_MAIL, "host.a", &err_));
    assert_string_equal(key, "es:mail:host.a");
    OK(key_named(key, KEY_SECRET, "0f", &err_));
    assert_string_equal(key, "es:secret:0f");
    assert_int_equal(key_of_rank(key, KEY_JOB_ROWS, "0f", STORE_RANKS, &err_), -ERR_INVALID);
    assert_int_equal(key_of_job(key, KEY_JOB, "a:b", &err_), -ERR_NOT_FOUND);
    assert_int_equal(key_named(key, KEY_NODE, "a:b", &err_), -ERR_INVALID);
    assert_int_equal(key_named(key, KEY_NODE, "", &err_), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_in_the_list_and_a_job_leaves_nothing,
                                        place_open, place_close),
        cmocka_unit_test_setup_teardown(a_key_that_is_not_in_the_list_is_noticed, place_open,
                                        place_close),
        cmocka_unit_test_setup_teardown(users_of_redis_may_touch_what_their_role_needs, place_open,
                                        place_close),
        cmocka_unit_test(no_file_but_the_list_spells_a_key),
        cmocka_unit_test(the_coordinators_secret_is_named_by_its_digest),
        cmocka_unit_test(names_are_put_where_the_pattern_has_capitals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
