/* Compares the API's description with the route table, with docs/http-api.md, and with the server's
 * real answers. Must start in the project's folder.
 */
#include <ctype.h>

#include "docs/print/fold.h"
#include "http/openapi/openapi.h"
#include "http/routes.h"
#include "job/sweep/sweep.h"
#include "store/sweeps.h"
#include "store/webhooks.h"
#include "tests/unit/http/fixture.h"

static const char docs_path[] = "docs/http-api.md",
                  begin_mark[] = "<!-- printed by: docs/print/http_api -->\n";

static json_t *description; /* of a running server */

static int open_all(void **state)
{
    int rc = site_open(state);
    if (rc == 0) {
        struct answer a = ask(*state, (struct ask){.method = "GET", .path = "/openapi.json"});
        description = json_incref(a.json);
        answer_release(&a);
    }
    return rc;
}

static int close_all(void **state)
{
    json_decref(description);
    return site_close(state);
}

/* ---- the document ---------------------------------------------------------------------------- */

static json_t *operation_of(const struct route *r)
{
    char method[16] = "";
    for (size_t i = 0; r->method[i]; i++) {
        method[i] = (char)(r->method[i] | 0x20);
    }
    return json_object_get(json_object_get(json_object_get(description, "paths"), r->pattern),
                           method);
}

static void every_route_is_described_and_nothing_else(void **state)
{
    size_t described = 0, expected = 0;
    const char *path, *method;
    json_t *item, *op;
    (void)state;
    assert_string_equal(text_at(description, "/openapi"), "3.1.0");
    json_object_foreach(json_object_get(description, "paths"), path, item) {
        described += json_object_size(item);
        json_object_foreach(item, method, op) {
            assert_true(json_is_string(json_object_get(op, "operationId")) &&
                        json_is_string(json_object_get(op, "summary")));
        }
    }
    for (const struct route *r = routes; r->method; r++) {
        if (!strchr(r->pattern, '*')) {
            expected++;
            if (!operation_of(r)) {
                fail_msg("%s %s is not described", r->method, r->pattern);
            }
        }
    }
    assert_int_equal(described, expected);
}

static json_t *operation(const char *path, const char *method)
{
    return json_object_get(json_object_get(json_object_get(description, "paths"), path), method);
}

static json_t *answer_of(const char *path, const char *method, const char *status)
{
    return json_object_get(json_object_get(operation(path, method), "responses"), status);
}

static void what_is_made_has_a_location_and_what_is_named_may_be_missing(void **state)
{
    (void)state;
    json_t *made = json_object_get(answer_of("/api/v1/jobs", "post", "201"), "headers"),
           *session = json_object_get(answer_of("/api/v1/session", "post", "201"), "headers");
    assert_non_null(json_object_get(made, "Location"));
    assert_null(json_object_get(session, "Location"));
    assert_non_null(answer_of("/api/v1/jobs/{id}", "get", "404"));
    assert_non_null(answer_of("/api/v1/datasets/samples", "get", "404"));
    assert_null(answer_of("/api/v1/jobs", "get", "404"));
}

static void a_body_that_is_a_file_is_described_as_one(void **state)
{
    (void)state;
    json_t *body = json_object_get(operation("/api/v1/programs", "post"), "requestBody"),
           *type = json_object_get(json_object_get(body, "content"), "application/octet-stream");
    assert_true(json_is_true(json_object_get(body, "required")));
    assert_string_equal(text_at(type, "/schema/format"), "binary");
}

static void operation_names_are_unique(void **state)
{
    json_t *seen = json_object();
    (void)state;
    for (const struct route *r = routes; r->method; r++) {
        json_t *op = operation_of(r);
        if (op) {
            const char *id = text_at(op, "/operationId");
            if (json_object_get(seen, id)) {
                fail_msg("two operations are named %s", id);
            }
            json_object_set_new(seen, id, json_true());
        }
    }
    json_decref(seen);
}

/* "#/components/KIND/NAME" */
static json_t *component(const char *ref)
{
    assert_int_equal(strncmp(ref, "#/components/", 13), 0);
    return at(description, ref + 1);
}

/* A generated client reads "Workers" into a variable `workers`; a property with that name would be
 * another variable, of another type. */
static void snake_case(const char *name, char out[ROUTE_SCHEMA * 2])
{
    for (const char *at = name; *at; at++) {
        if (isupper((unsigned char)*at) && at > name) {
            *out++ = '_';
        }
        *out++ = (char)tolower((unsigned char)*at);
    }
    *out = '\0';
}

static void no_schema_has_a_property_of_its_own_name(void **state)
{
    const char *name;
    char variable[ROUTE_SCHEMA * 2];
    json_t *schema;
    (void)state;
    json_object_foreach(at(description, "/components/schemas"), name, schema) {
        snake_case(name, variable);
        if (json_object_get(json_object_get(schema, "properties"), variable)) {
            fail_msg("the schema %s has a property %s", name, variable);
        }
    }
}

static void check_refs(json_t *j)
{
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(j, key, value) {
        if (strcmp(key, "$ref") == 0 && !component(json_string_value(value))) {
            fail_msg("there is no schema %s", json_string_value(value));
        }
        check_refs(value);
    }
    json_array_foreach(j, i, value) {
        check_refs(value);
    }
}

static void every_reference_leads_somewhere(void **state)
{
    (void)state;
    check_refs(description);
}

static void every_name_in_a_path_is_a_parameter(void **state)
{
    (void)state;
    for (const struct route *r = routes; r->method; r++) {
        size_t braces = 0, params = 0, i;
        json_t *p, *op = operation_of(r);
        for (const char *c = r->pattern; *c; c++) {
            braces += *c == '{';
        }
        json_array_foreach(json_object_get(op, "parameters"), i, p) {
            params += strcmp(text_at(p, "/in"), "path") == 0;
        }
        assert_true(!op || braces == params);
    }
}

/* ---- answers against their schemas ----------------------------------------------------------- */

static bool is_of(const json_t *j, const char *type)
{
    return strcmp(type, "null") == 0      ? json_is_null(j)
           : strcmp(type, "string") == 0  ? json_is_string(j)
           : strcmp(type, "integer") == 0 ? json_is_integer(j)
           : strcmp(type, "number") == 0  ? json_is_number(j)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(j)
           : strcmp(type, "array") == 0   ? json_is_array(j)
                                          : json_is_object(j);
}

/* The part of JSON Schema that our schemas use. Says where the document does not fit; keys that no
 * schema names do not fit either. */
static void fits(const json_t *j, json_t *schema, const char *where)
{
    const char *key;
    char below[400];
    json_t *value, *one, *type = json_object_get(schema, "type");
    size_t i;
    if (json_object_get(schema, "$ref")) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        if (strcmp(ref, "#/components/schemas/JobSpec") != 0) { /* tests/api looks into specs */
            fits(j, component(ref), where);
        }
        return;
    }
    if (json_object_get(schema, "enum")) {
        bool among = false;
        json_array_foreach(json_object_get(schema, "enum"), i, one) {
            among |= json_equal(one, j);
        }
        if (!among) {
            fail_msg("%s is none of the values", where);
        }
        return;
    }
    if (json_object_get(schema, "anyOf")) {
        if (!json_is_null(j)) {
            fits(j, json_array_get(json_object_get(schema, "anyOf"), 0), where);
        }
        return;
    }
    bool good = !type || (json_is_string(type) && is_of(j, json_string_value(type)));
    json_array_foreach(type, i, one) {
        good |= is_of(j, json_string_value(one));
    }
    if (!good) {
        fail_msg("%s is of another type", where);
    }
    json_array_foreach(json_object_get(schema, "required"), i, one) {
        if (!json_object_get(j, json_string_value(one))) {
            fail_msg("%s has no '%s'", where, json_string_value(one));
        }
    }
    json_object_foreach((json_t *)j, key, value) {
        json_t *properties = json_object_get(schema, "properties"),
               *more = json_object_get(schema, "additionalProperties");
        snprintf(below, sizeof below, "%.300s/%.60s", where, key);
        if (properties && !json_object_get(properties, key)) {
            fail_msg("%s is in no schema", below);
        }
        if (properties || json_is_object(more)) {
            fits(value, properties ? json_object_get(properties, key) : more, below);
        }
    }
    json_array_foreach(j, i, value) {
        snprintf(below, sizeof below, "%.300s/%zu", where, i);
        if (json_object_get(schema, "items")) {
            fits(value, json_object_get(schema, "items"), below);
        }
    }
}

/* For paths with a job's id: all ids in the test's paths are that id. */
static void put_webhook(struct site *s, const char *id)
{
    json_t *hook = json_of(
        "{\"address\": \"https://a.example\", \"states\": [\"failed\"], \"scope\": \"own\", "
        "\"owner\": \"olga\", \"created\": \"2026-01-02T03:04:05.678Z\", \"since\": \"0-0\", "
        "\"secret\": \"whsec_AAAA\"}");
    json_t *tried = json_of(
        "{\"id\": \"msg_1\", \"type\": \"job.failed\", \"job\": \"0123456789abcdef\", \"time\": "
        "\"2026-01-02T03:04:05.678Z\", \"try\": 1, \"status\": 500, "
        "\"message\": \"it answered 500\", "
        "\"outcome\": \"given_up\", \"next\": null}");
    json_object_set_new(hook, "id", json_string(id));
    OK(store_webhook_put(s->store, id, hook, &err_));
    OK(store_webhook_tried(s->store, id, "msg_1", NULL, tried, &err_));
    json_decref(hook);
    json_decref(tried);
}

/* A sweep that has the job of its first trial. */
static void put_sweep(struct site *s, char id[STORE_ID])
{
    struct sweep sweep;
    json_t *given = json_of(
               "{\"spec\": {}, \"method\": {\"type\": \"grid\"}, \"parameters\": "
               "[{\"pointer\": \"/epochs\", \"values\": [1, 2]}]}"),
           *jobs = json_of(
               "[{\"job\": \"0123456789abcdef\", \"state\": \"succeeded\", \"metric\": 0.5}]");
    OK(sweep_read(&sweep, given, &err_));
    OK(store_sweep_create(s->store, sweep.json, NULL, "olga", id, &err_));
    OK(store_sweep_change(s->store, id, jobs, SWEEP_RUNNING, SWEEP_RUNNING, &err_));
    sweep_release(&sweep);
    json_decref(given);
    json_decref(jobs);
}

static void answers_fit_their_schemas(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], sweep[STORE_ID], path[300], ref[100];
    submit(s, SPEC("described"), id);
    put_sweep(s, sweep);
    json_t *node = json_of(
        "{\"name\": \"fast\", \"host\": \"h\", \"device\": \"cpu:1\", \"memory_bytes\": 1, "
        "\"threads\": 1, \"slowdown\": 1.0, \"labels\": {}}");
    OK(store_node_put(s->store, node, &err_));
    json_decref(node);
    put_webhook(s, id);
    int checked = 0;
    for (const struct route *r = routes; r->method; r++) {
        const char *brace = strchr(r->pattern, '{');
        char schema[ROUTE_SCHEMA];
        route_schema(r->response, schema);
        if (strcmp(r->method, "GET") != 0 || !schema[0]) {
            continue;
        }
        snprintf(path, sizeof path, "%s", r->pattern);
        if (brace) {
            const char *end = strchr(brace, '}');
            snprintf(path, sizeof path, "%.*s%s%s", (int)(brace - r->pattern), r->pattern,
                     strstr(r->pattern, "{name}")     ? "fast"
                     : strstr(r->pattern, "/sweeps/") ? sweep
                                                      : id,
                     end + 1);
        }
        if (strstr(path, "/datasets/samples")) {
            strcat(path, "?path=mnist");
        }
        struct answer a = get(s, path);
        expect_status(&a, r->status);
        snprintf(ref, sizeof ref, "#/components/schemas/%s", schema);
        assert_non_null(component(ref));
        fits(a.json, component(ref), path);
        answer_release(&a);
        checked++;
    }
    assert_true(checked >= 15);
    struct answer a = get(s, "/api/v1/jobs/nope"), b = post(s, "/api/v1/jobs", "{}"),
                  c = post(s, "/api/v1/jobs?dryRun=true", SPEC("dry")),
                  d = post(s, "/api/v1/sweeps?dryRun=true",
                           "{\"spec\": " SPEC("dry") ", \"method\": {\"type\": \"grid\"}, "
                           "\"parameters\": [{\"pointer\": \"/epochs\", \"values\": [1, 2]}]}");
    fits(a.json, component("#/components/schemas/Problem"), "404");
    fits(b.json, component("#/components/schemas/Problem"), "422");
    fits(c.json, component("#/components/schemas/DryRun"), "dry run");
    fits(d.json, component("#/components/schemas/SweepPlan"), "dry run of a sweep");
    answer_release(&d);
    answer_release(&a);
    answer_release(&b);
    answer_release(&c);
}

/* Sends the example of each body, with our token instead of the example's. */
static void every_example_is_a_request_that_succeeds(void **state)
{
    struct site *s = *state;
    char id[STORE_ID], path[100];
    int sent = 0;
    submit(s, SPEC("example"), id);
    for (const struct route *r = routes; r->method; r++) {
        json_t *types = at(operation_of(r), "/requestBody/content");
        json_t *example = json_object_get(json_object_get(types, "application/json"), "example");
        if (!example) {
            continue;
        }
        if (json_object_get(example, "token")) {
            json_object_set_new(example, "token", json_string(s->token));
        }
        char *body = json_dumps(example, 0);
        snprintf(path, sizeof path, strchr(r->pattern, '{') ? "/api/v1/jobs/%s" : "%s",
                 strchr(r->pattern, '{') ? id : r->pattern);
        struct answer a = ask(
            s, (struct ask){.method = r->method, .path = path, .token = s->token, .body = body});
        expect_status(&a, r->status);
        answer_release(&a);
        free(body);
        sent++;
    }
    assert_int_equal(sent, 7);
}

static void a_job_of_a_link_is_what_its_operation_takes(void **state)
{
    const char *name;
    json_t *link, *links = NULL;
    for (const struct route *r = routes; r->method && !links; r++) {
        links = at(operation_of(r), "/responses/201/links");
    }
    int found = 0;
    (void)state;
    assert_true(json_object_size(links) >= 5);
    json_object_foreach(links, name, link) {
        for (const struct route *r = routes; r->method; r++) {
            json_t *op = operation_of(r);
            found += op && strcmp(text_at(op, "/operationId"), text_at(link, "/operationId")) == 0;
        }
    }
    assert_int_equal(found, json_object_size(links));
}

static void choices_say_what_they_mean(void **state)
{
    const json_t *codes = component("#/components/schemas/WarningCode");
    (void)state;
    assert_true(json_array_size(json_object_get(codes, "enum")) >= 4);
    assert_non_null(
        strstr(json_string_value(json_object_get(codes, "description")), "`batch_too_large`: "));
}

/* ---- docs/http-api.md ------------------------------------------------------------------------ */

/* In the form of docs/print/http_api, which folds long lines. */
static void the_docs_are_those_of_the_code(void **state)
{
    struct buf fresh;
    size_t n = 0, printed_len = 0;
    char *printed = NULL;
    (void)state;
    char *text = proc_read_file(docs_path, 4 << 20, &n, &err_);
    if (!text) {
        fail_msg("%s (tests run in the project's folder)", err_.message);
    }
    char *mark = strstr(text, begin_mark);
    assert_non_null(mark);
    buf_init(&fresh, 4 << 20);
    openapi_markdown(&fresh);
    FILE *page = open_memstream(&printed, &printed_len);
    fprintf(page, "%.*s\n", (int)(mark - text) + (int)strlen(begin_mark), text);
    fold_print(fresh.data, page);
    fclose(page);
    if (printed_len != n || memcmp(printed, text, n) != 0) {
        fail_msg("%s is not what the code says; run `make docs`", docs_path);
    }
    buf_release(&fresh);
    free(printed);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_described_and_nothing_else),
        cmocka_unit_test(what_is_made_has_a_location_and_what_is_named_may_be_missing),
        cmocka_unit_test(a_body_that_is_a_file_is_described_as_one),
        cmocka_unit_test(operation_names_are_unique),
        cmocka_unit_test(no_schema_has_a_property_of_its_own_name),
        cmocka_unit_test(every_reference_leads_somewhere),
        cmocka_unit_test(every_name_in_a_path_is_a_parameter),
        cmocka_unit_test(answers_fit_their_schemas),
        cmocka_unit_test(every_example_is_a_request_that_succeeds),
        cmocka_unit_test(a_job_of_a_link_is_what_its_operation_takes),
        cmocka_unit_test(choices_say_what_they_mean),
        cmocka_unit_test(the_docs_are_those_of_the_code),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
