/* Tags and notes over HTTP, and lists filtered and sorted by tags, settings and metrics.
 */
#include "tests/unit/http/fixture.h"

/* Submits a job of this name with these further keys, ",\"tags\":[…]". */
static void submit_with(struct site *s, const char *name, const char *more, char id[STORE_ID])
{
    char spec[1024];
    snprintf(spec, sizeof spec,
             "{\"name\":\"%s\",\"model\":\"mlp\",\"data\":{\"format\":\"glyphs\",\"samples\":100,"
             "\"test_samples\":10},\"batching\":{\"global_batch\":10}%s}",
             name, more);
    struct answer a = post(s, "/api/v1/jobs", spec);
    expect_status(&a, 201);
    snprintf(id, STORE_ID, "%s", text_at(a.json, "/id"));
    answer_release(&a);
}

static struct answer patch(struct site *s, const char *id, const char *body)
{
    char path[64];
    snprintf(path, sizeof path, "/api/v1/jobs/%s", id);
    return ask(s, (struct ask){.method = "PATCH", .path = path, .token = s->token, .body = body});
}

static void tags_and_note_of_the_spec_are_the_jobs_until_they_are_changed(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    submit_with(s, "tagged", ",\"tags\":[\"a\",\"b/2\"],\"note\":\"first\"", id);
    struct answer a = patch(s, id, "{\"priority\": 2}");
    expect_status(&a, 200);
    assert_int_equal(json_array_size(at(a.json, "/tags")), 2);
    assert_string_equal(text_at(a.json, "/tags/1"), "b/2");
    assert_string_equal(text_at(a.json, "/note"), "first");
    assert_int_equal(number_at(a.json, "/priority"), 2);
    answer_release(&a);
    a = patch(s, id, "{\"tags\": [\"c\"], \"note\": null}");
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/tags/0"), "c");
    assert_true(json_is_null(at(a.json, "/note")));
    assert_string_equal(text_at(a.json, "/spec/tags/0"), "a"); /* what was submitted */
    answer_release(&a);
    a = patch(s, id, "{}");
    expect_status(&a, 200);
    assert_string_equal(text_at(a.json, "/tags/0"), "c");
    answer_release(&a);
}

static void every_mistake_of_a_change_is_told_and_nothing_is_changed(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    submit_with(s, "firm", ",\"tags\":[\"kept\"]", id);
    struct answer a =
        patch(s, id, "{\"priority\": \"x\", \"tags\": [\"ok\", \"a b\"], \"note\": \"\\u001b\"}");
    expect_problem(&a, 422, "/priority");
    expect_problem(&a, 422, "/tags/1");
    expect_problem(&a, 422, "/note");
    answer_release(&a);
    a = patch(s, id, "{\"tag\": [\"x\"]}");
    expect_problem(&a, 422, "/tag");
    assert_non_null(strstr(a.body, "'tags'"));
    answer_release(&a);
    a = patch(s, id, "{}");
    assert_string_equal(text_at(a.json, "/tags/0"), "kept");
    answer_release(&a);
    a = post(s, "/api/v1/jobs",
             "{\"model\":\"mlp\",\"data\":{\"format\":\"glyphs\"},\"tags\":\"x\",\"note\":1}");
    expect_problem(&a, 422, "/tags");
    expect_problem(&a, 422, "/note");
    answer_release(&a);
}

/* How many jobs the query finds. */
static size_t found(struct site *s, const char *query)
{
    char path[512];
    snprintf(path, sizeof path, "/api/v1/jobs?%s", query);
    struct answer a = get(s, path);
    expect_status(&a, 200);
    size_t n = json_array_size(at(a.json, "/jobs"));
    answer_release(&a);
    return n;
}

static void lists_are_filtered_by_tag_setting_and_metric_together(void **state)
{
    struct site *s = *state;
    char id[STORE_ID];
    submit_with(s, "one", ",\"tags\":[\"set\",\"x\"],\"strategy\":{\"type\":\"sync\"}", id);
    json_t *live = json_of("{\"metrics\":{\"best_test_accuracy\":0.97}}");
    OK(store_doc_set(s->store, id, "live", live, &err_));
    json_decref(live);
    submit_with(s, "two", ",\"tags\":[\"set\"],\"strategy\":{\"type\":\"asgd\"}", id);
    assert_int_equal(found(s, "tag=set"), 2);
    assert_int_equal(found(s, "tag=x,set"), 1);
    assert_int_equal(found(s, "tag=set&where=spec.strategy.type%3Dasgd"), 1);
    assert_int_equal(found(s, "tag=set&where=metrics.best_test_accuracy%3E%3D0.97"), 1);
    assert_int_equal(found(s, "tag=set&where=metrics.best_test_accuracy%3E0.97"), 0);
    assert_int_equal(found(s, "tag=set&where=spec.model=mlp,name=two"), 1);
    struct answer a = get(s, "/api/v1/jobs?tag=set&sort=-metrics.best_test_accuracy&fields=name");
    assert_string_equal(text_at(a.json, "/jobs/0/name"), "one");
    assert_string_equal(text_at(a.json, "/jobs/1/name"), "two");
    answer_release(&a);
}

static void a_path_that_no_job_has_is_a_mistake_with_the_nearest_name(void **state)
{
    static const struct {
        const char *query, *pointer, *says;
    } cases[] = {
        {"where=metrics.test_acuracy%3E0.5", "where",
         "'metrics' of a job has no 'test_acuracy', did you mean 'test_accuracy'?"},
        {"where=spec.strateg.type=sync", "where", "did you mean 'strategy'?"},
        {"where=metric.test_accuracy=1", "where", "did you mean 'metrics'?"},
        {"where=metrics=1", "where", "metrics.train_loss"},
        {"where=workers=1", "where", "cannot be compared"},
        {"where=tags=x", "where", "cannot be compared"},
        {"where=name.x=1", "where", "cannot be compared"},
        {"where=state=queued,name", "where", "'name' is malformed"},
        {"where=", "where", "is malformed"},
        {"sort=-metrics.test_los", "sort", "did you mean 'test_loss'?"},
        {"sort=Name", "sort", "is not an order"},
        {"tag=a%20b", "tag", "cannot be the tag"},
        {"fields=nam", "fields", "did you mean 'name'?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        snprintf(path, sizeof path, "/api/v1/jobs?%s", cases[i].query);
        struct answer a = get(*state, path);
        expect_problem(&a, 422, cases[i].pointer);
        if (!strstr(a.body, cases[i].says)) {
            fail_msg("%s: %s", cases[i].query, a.body);
        }
        answer_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_and_note_of_the_spec_are_the_jobs_until_they_are_changed),
        cmocka_unit_test(every_mistake_of_a_change_is_told_and_nothing_is_changed),
        cmocka_unit_test(lists_are_filtered_by_tag_setting_and_metric_together),
        cmocka_unit_test(a_path_that_no_job_has_is_a_mistake_with_the_nearest_name),
    };
    return cmocka_run_group_tests(tests, site_open, site_close);
}
