/* What the server keeps to answer again: digests of files by path, size and time (http/content/digests.c)
 * and answers that many ask for (http/recent.c); and answers that depend on what is not known yet.
 */
#include "tests/unit/http/fixture.h"

#include <fcntl.h>

#include "http/content/files.h"
#include "http/recent.h"
#include "http/content/text.h"

/* ---- digests --------------------------------------------------------------------------------- */

static void digest_of(struct digests *d, const char *dir, const char *name, char out[65])
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    OK(digests_get(d, path, out, &err_));
}

/* Other bytes of the same length and time: only what was kept can say what they were. */
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

/* 256 are kept; the oldest goes. */
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

/* ---- answers that many ask for ---------------------------------------------------------------- */

static void keep(struct recent *r, const char *key, long generation)
{
    struct text *answer = text_new("text/plain", strdup("x"), 1);
    recent_keep(r, key, generation, answer);
    text_drop(answer);
}

static bool finds(struct recent *r, const char *key, long *generation)
{
    struct text *found = recent_get(r, key, generation);
    text_drop(found);
    return found != NULL;
}

static void what_is_kept_of_one_path_is_no_answer_to_another(void **state)
{
    struct recent *r = recent_new();
    long generation;
    (void)state;
    assert_false(finds(r, "/a", &generation));
    keep(r, "/a", generation);
    assert_false(finds(r, "/b", &generation));
    assert_false(finds(r, "/", &generation));
    recent_free(r);
}

static void what_was_made_before_a_change_is_not_kept_and_what_is_kept_not_given(void **state)
{
    struct recent *r = recent_new();
    long before, now;
    (void)state;
    finds(r, "/a", &before);
    recent_changed(r);
    keep(r, "/a", before);
    assert_false(finds(r, "/a", &now));
    keep(r, "/a", now);
    recent_changed(r);
    assert_false(finds(r, "/a", &now));
    recent_free(r);
}

/* 64 are kept; whatever else comes takes the place of the oldest. */
static void more_paths_than_places_do_no_harm(void **state)
{
    struct recent *r = recent_new();
    char key[300];
    long generation;
    (void)state;
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "/%d", i);
        assert_false(finds(r, key, &generation));
        keep(r, key, generation);
    }
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0; /* longer than a key may be */
    finds(r, key, &generation);
    keep(r, key, generation);
    assert_false(finds(r, key, &generation));
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

static void who_signs_out_loses_the_cookie(void **state)
{
    struct site *s = *state;
    char header[256], cookie[300], origin[100], expected[100];
    struct answer a = ask(s, (struct ask){.method = "POST",
                                          .path = "/api/v1/session",
                                          .body = "{\"token\": \"admin-0123456789abcdef\"}"});
    expect_status(&a, 201);
    assert_true(header_of(&a, "Set-Cookie", header));
    answer_release(&a);
    snprintf(cookie, sizeof cookie, "Cookie: %.*s", (int)strcspn(header, ";"), header);
    snprintf(origin, sizeof origin, "Origin: %s", s->base);
    a = ask(s, (struct ask){
                   .method = "DELETE", .path = "/api/v1/session", .headers = {cookie, origin}});
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
        cmocka_unit_test(more_paths_than_places_do_no_harm),
        cmocka_unit_test(a_rank_that_may_yet_come_has_an_empty_log_and_one_that_cannot_none),
        cmocka_unit_test(a_token_has_at_least_16_characters),
        cmocka_unit_test(who_signs_out_loses_the_cookie),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
