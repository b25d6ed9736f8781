/* The audit: what requests record in it, who may read it, and its files. */
#include "http/access/audit.h"
#include "tests/unit/http/fixture.h"

/* The newest entry whose path ends this way; a new reference. */
static json_t *entry_of(struct site *s, const char *end)
{
    struct answer a = get(s, "/api/v1/audit?limit=500");
    json_t *one, *found = NULL;
    size_t i, n = strlen(end);
    expect_status(&a, 200);
    json_array_foreach(json_object_get(a.json, "entries"), i, one) {
        const char *path = text_at(one, "/path");
        if (!found && strlen(path) >= n && strcmp(path + strlen(path) - n, end) == 0) {
            found = json_incref(one);
        }
    }
    answer_release(&a);
    return found;
}

static void every_change_says_who_what_from_where_when_and_the_answer(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[100];
    struct answer a = ask(s, (struct ask){.method = "POST",
                                          .path = "/api/v1/jobs",
                                          .body = SPEC("seen"),
                                          .token = s->operator_token,
                                          .headers = {"X-Request-Id: audit-1"}});
    expect_status(&a, 201);
    snprintf(id, sizeof id, "%s", text_at(a.json, "/id"));
    answer_release(&a);
    json_t *e = entry_of(s, "/jobs");
    assert_non_null(e);
    assert_string_equal(text_at(e, "/who"), "Olga");
    assert_string_equal(text_at(e, "/role"), "operator");
    assert_string_equal(text_at(e, "/by"), "token");
    assert_string_equal(text_at(e, "/from"), "127.0.0.1");
    assert_string_equal(text_at(e, "/method"), "POST");
    assert_string_equal(text_at(e, "/path"), "/api/v1/jobs");
    assert_string_equal(text_at(e, "/request"), "audit-1");
    assert_int_equal((int)number_at(e, "/status"), 201);
    assert_non_null(strstr(text_at(e, "/note"), id));
    assert_int_equal(strlen(text_at(e, "/time")), strlen("2026-01-02T03:04:05.678Z"));
    assert_int_equal(strlen(text_at(e, "/token")), 16);
    json_decref(e);
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    a = ask(s, (struct ask){.method = "PATCH",
                            .path = path,
                            .token = s->viewer_token,
                            .body = "{\"priority\": 3}"});
    expect_status(&a, 403);
    answer_release(&a);
    e = entry_of(s, id); /* what was refused, too */
    assert_string_equal(text_at(e, "/who"), "viewer");
    assert_int_equal((int)number_at(e, "/status"), 403);
    json_decref(e);
}

static void what_only_reads_or_tries_leaves_nothing(void **state)
{
    struct site *s = *state;
    struct answer before = get(s, "/api/v1/audit"), a;
    a = get(s, "/api/v1/jobs");
    answer_release(&a);
    a = post(s, "/api/v1/jobs?dryRun=true", SPEC("tried"));
    expect_status(&a, 200);
    answer_release(&a);
    struct answer after = get(s, "/api/v1/audit");
    assert_true(json_equal(before.json, after.json));
    answer_release(&before);
    answer_release(&after);
}

static void no_secret_gets_into_it(void **state)
{
    struct site *s = *state;
    char path[128], text[64], body[128];
    struct answer a = post(s, "/api/v1/tokens", "{\"name\": \"quiet\", \"role\": \"viewer\"}");
    expect_status(&a, 201);
    snprintf(text, sizeof text, "%s", text_at(a.json, "/token"));
    answer_release(&a);
    snprintf(body, sizeof body, "{\"token\": \"%s\"}", text);
    a = ask(s, (struct ask){.method = "POST", .path = "/api/v1/session", .body = body});
    expect_status(&a, 201);
    answer_release(&a);
    json_t *e = entry_of(s, "/session");
    assert_string_equal(text_at(e, "/who"), "quiet");
    assert_string_equal(text_at(e, "/by"), "session");
    json_decref(e);
    e = entry_of(s, "/tokens");
    assert_non_null(strstr(text_at(e, "/note"), "quiet"));
    json_decref(e);
    snprintf(path, sizeof path, "%s/audit/000001.jsonl", s->dir);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char *file = proc_read_file(path, AUDIT_FILE_BYTES, NULL, &err_);
    assert_non_null(file);
    assert_null(strstr(file, text));
    assert_null(strstr(file, s->token));
    free(file);
}

static void only_admins_read_it(void **state)
{
    struct site *s = *state;
    struct answer a =
        ask(s, (struct ask){.method = "GET", .path = "/api/v1/audit", .token = s->operator_token});
    expect_problem(&a, 403, NULL);
    answer_release(&a);
    a = get(s, "/api/v1/audit?since=yesterday");
    expect_problem(&a, 422, "since");
    answer_release(&a);
    a = get(s, "/api/v1/audit?cursor=x");
    expect_problem(&a, 422, "cursor");
    answer_release(&a);
}

/* ---- the files ------------------------------------------------------------------------------- */

struct trail {
    char dir[64];
    struct audit *audit;
};

static int trail_open(void **state)
{
    struct trail *t = calloc(1, sizeof *t);
    snprintf(t->dir, sizeof t->dir, "/tmp/evenstep-test-XXXXXX");
    *state = t;
    return mkdtemp(t->dir) && (t->audit = audit_open(t->dir, &err_)) ? 0 : -1;
}

static int trail_close(void **state)
{
    struct trail *t = *state;
    audit_close(t->audit);
    proc_remove_tree(t->dir, NULL);
    free(t);
    return 0;
}

static void add(struct audit *a, const char *who, int number, const char *note)
{
    char path[64];
    snprintf(path, sizeof path, "/n/%d", number);
    audit_add(a, &(struct audit_entry){.known = who[0] != 0,
                                       .who = who,
                                       .role = "operator",
                                       .token = "0123456789abcdef",
                                       .from = "127.0.0.1",
                                       .method = "POST",
                                       .path = path,
                                       .note = note,
                                       .request = "r",
                                       .status = 200});
}

/* Reads all pages and returns the number of entries; their numbers must fall from `newest` by
 * `step`. */
static int read_all(struct audit *a, const char *who, int newest_number, int step)
{
    char cursor[AUDIT_CURSOR] = "";
    int n = 0;
    do {
        json_t *page = audit_read(
            a, &(struct audit_query){.who = who, .cursor = cursor[0] ? cursor : NULL, .limit = 333},
            &err_);
        json_t *one;
        size_t i;
        assert_non_null(page);
        json_array_foreach(json_object_get(page, "entries"), i, one) {
            int number = (int)strtol(text_at(one, "/path") + strlen("/n/"), NULL, 10);
            assert_int_equal(number, newest_number - step * n);
            n++;
        }
        const char *next = json_string_value(json_object_get(page, "next"));
        snprintf(cursor, sizeof cursor, "%s", next ? next : "");
        json_decref(page);
    } while (cursor[0]);
    return n;
}

static void pages_give_every_entry_once_across_files(void **state)
{
    struct trail *t = *state;
    char note[1500], path[128];
    memset(note, 'x', sizeof note - 1);
    note[sizeof note - 1] = '\0';
    for (int i = 0; i < 6000; i++) { /* 10 MB: three files */
        add(t->audit, i % 2 ? "odd" : "even", i, note);
    }
    snprintf(path, sizeof path, "%s/audit/000003.jsonl", t->dir);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(read_all(t->audit, NULL, 5999, 1), 6000);
    assert_int_equal(read_all(t->audit, "odd", 5999, 2), 3000);
    assert_int_equal(read_all(t->audit, "even", 5998, 2), 3000);
    assert_int_equal(read_all(t->audit, "od", 0, 1), 0);
}

static void the_oldest_files_go_and_the_newest_stay(void **state)
{
    struct trail *t = *state;
    char path[128], dir[96];
    audit_close(t->audit);
    snprintf(dir, sizeof dir, "%s/audit", t->dir);
    char *full = malloc(AUDIT_FILE_BYTES);
    memset(full, '\n', AUDIT_FILE_BYTES);
    for (int i = 1; i <= AUDIT_FILES; i++) {
        snprintf(path, sizeof path, "%s/%06d.jsonl", dir, i);
        OK(proc_write_file(path, full, i == AUDIT_FILES ? AUDIT_FILE_BYTES : 1, 0600, &err_));
    }
    free(full);
    t->audit = audit_open(t->dir, &err_);
    assert_non_null(t->audit);
    add(t->audit, "x", 1, ""); /* the newest is full */
    snprintf(path, sizeof path, "%s/%06d.jsonl", dir, AUDIT_FILES + 1);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/%06d.jsonl", dir, 1);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/%06d.jsonl", dir, 2);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(read_all(t->audit, NULL, 1, 1), 1);
}

static void a_line_that_a_crash_cut_short_costs_no_other(void **state)
{
    struct trail *t = *state;
    char path[128];
    add(t->audit, "x", 1, "");
    audit_close(t->audit);
    snprintf(path, sizeof path, "%s/audit/000001.jsonl", t->dir);
    FILE *f = fopen(path, "a");
    fputs("{\"time\": \"2026-0", f);
    fclose(f);
    t->audit = audit_open(t->dir, &err_);
    add(t->audit, "x", 2, "");
    assert_int_equal(read_all(t->audit, NULL, 2, 1), 2);
}

static void a_file_that_cannot_be_opened_is_named(void **state)
{
    struct trail *t = *state;
    char path[128];
    audit_close(t->audit);
    snprintf(path, sizeof path, "%s/audit/000001.jsonl", t->dir);
    OK(proc_remove_tree(path, &err_));
    OK(mkdir(path, 0700));
    assert_null(t->audit = audit_open(t->dir, &err_));
    assert_int_equal(err_.code, ERR_IO);
    assert_non_null(strstr(err_.message, path));
}

static void strangers_push_out_nobody_and_are_counted(void **state)
{
    struct trail *t = *state;
    for (int i = 0; i < 1000; i++) {
        add(t->audit, "", i, "");
    }
    add(t->audit, "x", 1000, "");
    json_t *page = audit_read(t->audit, &(struct audit_query){.limit = 500}, &err_);
    json_t *entries = json_object_get(page, "entries");
    assert_in_range(json_array_size(entries), AUDIT_STRANGERS + 1, 5 * AUDIT_STRANGERS);
    size_t i;
    json_t *one;
    int omitted = 0;
    json_array_foreach(entries, i, one) {
        omitted += (int)json_integer_value(json_object_get(one, "omitted"));
    }
    assert_int_equal(omitted + (int)json_array_size(entries), 1001);
    json_decref(page);
}

static void since_leaves_out_what_is_older(void **state)
{
    struct trail *t = *state;
    char when[32];
    add(t->audit, "x", 1, "");
    for (int64_t written = clock_wall_ms(); clock_wall_ms() <= written;) {
        clock_sleep(0.0005); /* times have milliseconds */
    }
    clock_format(when, clock_wall_ms());
    add(t->audit, "x", 2, "");
    json_t *page = audit_read(t->audit, &(struct audit_query){.since = when, .limit = 10}, &err_);
    assert_int_equal(json_array_size(json_object_get(page, "entries")), 1);
    json_decref(page);
    when[10] = '\0'; /* the day alone */
    page = audit_read(t->audit, &(struct audit_query){.since = when, .limit = 10}, &err_);
    assert_true(json_array_size(json_object_get(page, "entries")) >= 1);
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest requests[] = {
        cmocka_unit_test(every_change_says_who_what_from_where_when_and_the_answer),
        cmocka_unit_test(what_only_reads_or_tries_leaves_nothing),
        cmocka_unit_test(no_secret_gets_into_it),
        cmocka_unit_test(only_admins_read_it),
    };
    const struct CMUnitTest files[] = {
#define WITH_A_TRAIL(test) cmocka_unit_test_setup_teardown(test, trail_open, trail_close)
        WITH_A_TRAIL(pages_give_every_entry_once_across_files),
        WITH_A_TRAIL(the_oldest_files_go_and_the_newest_stay),
        WITH_A_TRAIL(a_line_that_a_crash_cut_short_costs_no_other),
        WITH_A_TRAIL(a_file_that_cannot_be_opened_is_named),
        WITH_A_TRAIL(strangers_push_out_nobody_and_are_counted),
        WITH_A_TRAIL(since_leaves_out_what_is_older),
    };
    return cmocka_run_group_tests(requests, site_open, site_close) +
           cmocka_run_group_tests(files, NULL, NULL);
}
