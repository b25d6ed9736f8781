/* What the server keeps to answer again: digests of files by path, size and time
 * (http/content/digests.c), and answers that many ask for (http/answer/recent.c). Also answers that
 * depend on something not known yet.
 */
#include "tests/unit/http/fixture.h"

#include <fcntl.h>

#include "http/content/files.h"
#include "http/content/text.h"
#include "http/answer/recent.h"

/* ---- digests --------------------------------------------------------------------------------- */

static void digest_of(struct digests *d, const char *dir, const char *name, char out[65])
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    OK(digests_get(d, path, out, &err_));
}

/* Other bytes with the same length and time: only a kept digest still has the old value. */
static void write_unseen(const char *dir, const char *name, const char *text)
{
    char path[200];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
    const struct timespec times[] = {st.st_atim, st.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void a_file_is_hashed_once_while_its_size_and_time_stay(void **state)
{
    static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    struct site *s = *state;
    struct digests *d = digests_new();
    char one[65], other[65], again[65];
    site_write(s->dir, "a", "abc");
    site_write(s->dir, "b", "abd");
    digest_of(d, s->dir, "a", one);
    digest_of(d, s->dir, "b", other);
    assert_string_equal(one, abc);
    assert_string_not_equal(one, other);
    write_unseen(s->dir, "a", "xyz");
    write_unseen(s->dir, "b", "xyz");
    digest_of(d, s->dir, "a", again); /* both are kept at once */
    assert_string_equal(again, one);
    digest_of(d, s->dir, "b", again);
    assert_string_equal(again, other);
    site_write(s->dir, "a", "abcd");
    digest_of(d, s->dir, "a", again);
    assert_string_not_equal(again, one);
    digests_free(d);
}

/* 256 are kept; the oldest is dropped. */
static void digests_of_many_files_are_right(void **state)
{
    enum { FILES = 300 };
    struct site *s = *state;
    struct digests *d = digests_new(), *fresh;
    char name[32], text[32], kept[65], made[65];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < FILES; i++) {
            snprintf(name, sizeof name, "f%d", i);
            snprintf(text, sizeof text, "%d", i);
            if (round == 0) {
                site_write(s->dir, name, text);
            }
            fresh = digests_new();
            digest_of(d, s->dir, name, kept);
            digest_of(fresh, s->dir, name, made);
            assert_string_equal(kept, made);
            digests_free(fresh);
        }
    }
    digests_free(d);
}

/* ---- answers that many ask for --------------------------------------------------------------- */

static int waiting, woken;

static void count_wait(struct recent_waiter *w)
{
    (void)w;
    waiting++;
}

static void count_wake(struct recent_waiter *w)
{
    (void)w;
    woken++;
}

static void keep(struct recent *r, const struct recent_ticket *ticket)
{
    struct text *answer = text_new("text/plain", strdup("x"), 1);
    recent_made(r, ticket, answer);
    text_drop(answer);
}

static enum recent_found find(struct recent *r, const char *key, struct recent_waiter *w,
                              struct recent_ticket *ticket)
{
    struct text *answer = NULL;
    *w = (struct recent_waiter){.wait = count_wait, .wake = count_wake};
    enum recent_found found = recent_get(r, key, w, ticket, &answer);
    assert_int_equal(found == RECENT_GIVEN, answer != NULL);
    text_drop(answer);
    return found;
}

static void what_is_kept_of_one_path_is_no_answer_to_another(void **state)
{
    struct recent *r = recent_new();
    struct recent_ticket ticket, other;
    struct recent_waiter w;
    (void)state;
    assert_int_equal(find(r, "/a", &w, &ticket), RECENT_MAKE);
    keep(r, &ticket);
    assert_int_equal(find(r, "/b", &w, &other), RECENT_MAKE);
    assert_int_equal(find(r, "/", &w, &other), RECENT_MAKE);
    recent_free(r);
}

static void what_was_made_before_a_change_is_not_kept_and_what_is_kept_not_given(void **state)
{
    struct recent *r = recent_new();
    struct recent_ticket before, now;
    struct recent_waiter w;
    (void)state;
    find(r, "/a", &w, &before);
    recent_changed(r);
    keep(r, &before);
    assert_int_equal(find(r, "/a", &w, &now), RECENT_MAKE);
    keep(r, &now);
    recent_changed(r);
    assert_int_equal(find(r, "/a", &w, &now), RECENT_MAKE);
    recent_free(r);
}

/* A request that comes while an answer is being made waits for it, unless its making began before a
 * change. In that case the next request makes another answer, for which all wait. If making fails,
 * they wake up too. */
static void equal_requests_wait_for_the_one_answer_that_is_being_made(void **state)
{
    struct recent *r = recent_new();
    struct recent_ticket first, second, none;
    struct recent_waiter w[5];
    (void)state;
    waiting = woken = 0;
    assert_int_equal(find(r, "/a", &w[0], &first), RECENT_MAKE);
    assert_int_equal(find(r, "/a", &w[1], &none), RECENT_WAITS);
    assert_int_equal(find(r, "/a", &w[2], &none), RECENT_WAITS);
    assert_int_equal(find(r, "/b", &w[3], &none), RECENT_MAKE);
    assert_int_equal(waiting, 2);
    recent_changed(r);
    assert_int_equal(find(r, "/a", &w[3], &second), RECENT_MAKE);
    assert_int_equal(find(r, "/a", &w[4], &none), RECENT_WAITS);
    keep(r, &first); /* begun before the change: of no use to anybody */
    assert_int_equal(woken, 0);
    recent_made(r, &second, NULL);
    assert_int_equal(woken, 3);
    assert_int_equal(find(r, "/a", &w[0], &first), RECENT_MAKE);
    recent_free(r);
}

/* 64 are kept; a new one replaces the oldest. While 64 are being made, others are made without
 * being kept. */
static void more_paths_than_places_do_no_harm(void **state)
{
    struct recent *r = recent_new();
    char key[300];
    struct recent_ticket tickets[200];
    struct recent_waiter w;
    (void)state;
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "/%d", i);
        assert_int_equal(find(r, key, &w, &tickets[0]), RECENT_MAKE);
        keep(r, &tickets[0]);
    }
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0; /* longer than a key may be */
    find(r, key, &w, &tickets[0]);
    keep(r, &tickets[0]);
    assert_int_equal(find(r, key, &w, &tickets[0]), RECENT_MAKE);
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "/made/%d", i);
        assert_int_equal(find(r, key, &w, &tickets[i]), RECENT_MAKE);
    }
    for (int i = 0; i < 200; i++) {
        keep(r, &tickets[i]);
    }
    recent_free(r);
}

/* ---- logs ------------------------------------------------------------------------------------ */

static void a_rank_that_may_yet_come_has_an_empty_log_and_one_that_cannot_none(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[100];
    submit(s, SPEC("waits"), id);
    snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=7", id);
    struct answer a = get(s, path);
    expect_status(&a, 200);
    assert_int_equal(a.len, 0);
    answer_release(&a);
    json_t *live = json_of("{\"workers\": [{\"rank\": 0}], \"servers\": [{\"rank\": 1}]}");
    OK(store_doc_set(s->store, id, "live", live, &err_));
    json_decref(live);
    a = get(s, path);
    expect_problem(&a, 404, NULL);
    answer_release(&a);
    for (int rank = 0; rank < 2; rank++) {
        snprintf(path, sizeof path, "/api/v1/jobs/%s/logs?rank=%d", id, rank);
        a = get(s, path);
        expect_status(&a, 200);
        answer_release(&a);
    }
}

/* ---- tokens and cookies ---------------------------------------------------------------------- */

static struct http_server *server_with_token(struct site *s, const char *token)
{
    char path[160];
    site_write(s->dir, "one-token", token);
    snprintf(path, sizeof path, "%s/one-token", s->dir);
    struct http_config c = {.listen = "127.0.0.1:0",
                            .data_dir = s->dir,
                            .static_dir = s->static_dir,
                            .store_url = s->store_url,
                            .token_file = path};
    err_clear(&err_);
    return http_start(&c, &err_);
}

static void a_token_has_at_least_16_characters(void **state)
{
    struct http_server *h = server_with_token(*state, "0123456789abcdef\n");
    assert_non_null(h);
    http_stop(h);
    assert_null(server_with_token(*state, "0123456789abcde\n"));
    assert_non_null(strstr(err_.message, "the token in line 1 has less than 16 characters"));
    assert_null(server_with_token(*state, "# none\n"));
    assert_non_null(strstr(err_.message, "it has no token"));
    assert_null(server_with_token(*state, "0123456789abcdef\n0123456789abcdeg king\n"));
    assert_non_null(
        strstr(err_.message, "the role in line 2 is not viewer, operator, programs or admin"));
}

static void names_of_a_token_file_are_such_as_can_be_told_apart(void **state)
{
    static const struct {
        const char *file, *told;
    } cases[] = {
        {"0123456789abcdef viewer a\xe2\x80\x8b\n",
         "the name in line 1 contains the invisible character U+200B at byte 1"},
        {"# people\n0123456789abcdef viewer \xe2\x80\xae"
         "a\n",
         "the name in line 2 contains a control character at byte 0"},
        {"0123456789abcdef viewer "
         "0123456789012345678901234567890123456789012345678901234567890123\n",
         "the name in line 1 has more than 63 bytes"},
        {"\xef\xbb\xbf"
         "0123456789abcdef viewer a\n",
         "the token in line 1 has a character that is not ASCII"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(server_with_token(*state, cases[i].file));
        assert_non_null(strstr(err_.message, cases[i].told));
    }
}

/* The headers of a request with the cookie of a new session. */
static void sign_in(struct site *s, char cookie[300], char origin[100])
{
    char header[256];
    struct answer a = ask(s, (struct ask){.method = "POST",
                                          .path = "/api/v1/session",
                                          .body = "{\"token\": \"admin-0123456789abcdef\"}"});
    expect_status(&a, 201);
    assert_true(header_of(&a, "Set-Cookie", header));
    answer_release(&a);
    snprintf(cookie, 300, "Cookie: %.*s", (int)strcspn(header, ";"), header);
    snprintf(origin, 100, "Origin: %s", s->base);
}

static struct answer sign_out(struct site *s, const char *cookie, const char *origin)
{
    return ask(s, (struct ask){
                      .method = "DELETE", .path = "/api/v1/session", .headers = {cookie, origin}});
}

/* Another process of the service would still know the session. */
static void who_signs_out_while_the_store_is_away_is_told(void **state)
{
    struct site *s = *state;
    char cookie[300], origin[100];
    sign_in(s, cookie, origin);
    redis_private_stop(s->dir);
    struct answer a = sign_out(s, cookie, origin);
    OK(redis_private_start(s->dir, s->store_url, &s->pid, &err_));
    expect_problem(&a, 503, NULL);
    answer_release(&a);
}

static void who_signs_out_loses_the_cookie(void **state)
{
    struct site *s = *state;
    char header[256], cookie[300], origin[100], expected[100];
    sign_in(s, cookie, origin);
    struct answer a = sign_out(s, cookie, origin);
    expect_status(&a, 204);
    assert_true(header_of(&a, "Set-Cookie", header));
    snprintf(expected, sizeof expected, "evenstep_%d=; ", s->port);
    assert_int_equal(strncmp(header, expected, strlen(expected)), 0);
    assert_non_null(strstr(header, "Max-Age=0"));
    answer_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_hashed_once_while_its_size_and_time_stay),
        cmocka_unit_test(digests_of_many_files_are_right),
        cmocka_unit_test(what_is_kept_of_one_path_is_no_answer_to_another),
        cmocka_unit_test(what_was_made_before_a_change_is_not_kept_and_what_is_kept_not_given),
        cmocka_unit_test(equal_requests_wait_for_the_one_answer_that_is_being_made),
        cmocka_unit_test(equal_requests_wait_for_the_one_answer_that_is_being_made),
        cmocka_unit_test(more_paths_than_places_do_no_harm),
        cmocka_unit_test(a_rank_that_may_yet_come_has_an_empty_log_and_one_that_cannot_none),
        cmocka_unit_test(a_token_has_at_least_16_characters),
        cmocka_unit_test(names_of_a_token_file_are_such_as_can_be_told_apart),
        cmocka_unit_test(who_signs_out_loses_the_cookie),
        cmocka_unit_test(who_signs_out_while_the_store_is_away_is_told),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
