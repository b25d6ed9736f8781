/* One route as an Operation Object of OpenAPI 3.1; see openapi.h. Errors that many routes have in
 * common are components, one for each status; examples are sent by tests/unit/http/test_openapi.c.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "http/api/api.h"
#include "http/openapi/openapi.h"
#include "http/openapi/schemas.h"
#include "http/request/request.h"

enum { KEY_BYTES = 128 };

static json_t *ref(const char *kind, const char *name)
{
    char text[KEY_BYTES];
    snprintf(text, sizeof(text), "#/components/%s/%s", kind, name);
    return json_pack("{s:s}", "$ref", text);
}

static json_t *content(const char *type, json_t *schema)
{
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

static bool is(const struct route *r, const char *method, const char *pattern)
{
    return strcmp(r->method, method) == 0 && strcmp(r->pattern, pattern) == 0;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static json_t *param_schema(const struct route_param *p)
{
    static const char *const types[] = {"string", "integer", "number", "boolean"};
    if (p->type == ROUTE_WORDS) {
        const char *pattern = p->choices ? p->choices : "^[a-z_]{1,63}$";
        json_t *word = pattern[0] == '^'
                           ? json_pack("{s:s, s:s}", "type", "string", "pattern", pattern)
                           : schema_choices(pattern);
        return json_pack("{s:s, s:i, s:o}", "type", "array", "minItems", 1, "items", word);
    }
    if (p->choices) {
        return schema_choices(p->choices);
    }
    json_t *j = json_pack("{s:s}", "type", types[p->type]);
    if (p->type == ROUTE_INT || p->type == ROUTE_REAL) {
        bool whole = p->type == ROUTE_INT;
        json_object_set_new(j, "minimum",
                            whole ? json_integer((json_int_t)p->min) : json_real(p->min));
        json_object_set_new(j, "maximum",
                            whole ? json_integer((json_int_t)p->max) : json_real(p->max));
    }
    return j;
}

/* The schema of a name in braces: {id} is a job's. */
static json_t *path_schema(const struct route *r, const char *name)
{
    static const char id[] = "^[0-9a-f]{16}$", file[] = "^[^\\\\\\x00-\\x1f]{1,255}$",
                      word[] = "^[^/\\\\\\x00-\\x1f]{1,255}$";
    const char *pattern = strcmp(name, "id") == 0 ? id : r->way == ROUTE_FILES ? file : word;
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static void add_param(json_t *list, const char *name, const char *in, const char *help,
                      json_t *schema)
{
    json_t *p = json_pack("{s:s, s:s, s:o, s:o*}", "name", name, "in", in, "schema", schema,
                          "description", help ? json_string(help) : NULL);
    if (strcmp(in, "path") == 0) {
        json_object_set_new(p, "required", json_true());
    }
    json_array_append_new(list, p);
}

/* A list of ETags, or `*` (http/content/accept.c). */
static const char etags[] = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$";

/* Headers that a route understands. */
static const struct {
    const char *method, *pattern, *name, *help; /* pattern NULL: any */
    int most; /* characters; 0: any, and what is not understood is passed over */
} header_params[] = {
    {"POST", "/api/v1/jobs", "Idempotency-Key",
     "a repeated request with this key and token gives the same job", 255},
    {"POST", "/api/v1/sweeps", "Idempotency-Key",
     "a repeated request with this key and token gives the same sweep", 255},
    {"PATCH", NULL, "If-Match", "ETags of which one must still hold; else 412", 0},
    {"DELETE", "/api/v1/jobs/{id}", "If-Match", "ETags of which one must still hold; else 412", 0},
    {"DELETE", "/api/v1/nodes/{name}", "If-Match", "ETags of which one must still hold; else 412",
     0},
    {"GET", "/api/v1/jobs/{id}", "If-None-Match", "ETags of answers that came before", 0},
    {"GET", "/api/v1/nodes/{name}", "If-None-Match", "ETags of answers that came before", 0},
    {"GET", "/api/v1/jobs/{id}/artifacts/{name}", "Range", "bytes=FIRST-LAST", 0},
    {"GET", "/api/v1/jobs/{id}/artifacts/{name}", "If-Match",
     "ETags of which one must still hold; else 412", 0},
    {"GET", "/api/v1/jobs/{id}/artifacts/{name}", "If-None-Match", "ETags that are there already",
     0},
    {"GET", "/api/v1/jobs/{id}/logs", "Range", "bytes=SEEN- reads on", 0},
    {"GET", "/api/v1/events", "Last-Event-ID", "the last event that came", 0},
};

static json_t *params_json(const struct route *r)
{
    json_t *list = json_array();
    for (const char *at = strchr(r->pattern, '{'); at; at = strchr(at, '{')) {
        char name[32];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        add_param(list, name, "path", NULL, path_schema(r, name));
        at++;
    }
    for (const struct route_param *p = r->params; p && p->name; p++) {
        add_param(list, p->name, "query", p->help, param_schema(p));
        if (p->type == ROUTE_WORDS) { /* one parameter with commas, not one for each word */
            json_object_set_new(json_array_get(list, json_array_size(list) - 1), "explode",
                                json_false());
        }
    }
    for (size_t i = 0; i < sizeof(header_params) / sizeof(*header_params); i++) {
        const char *pattern = header_params[i].pattern;
        if (strcmp(header_params[i].method, r->method) == 0 &&
            (!pattern || strcmp(pattern, r->pattern) == 0)) {
            json_t *schema = json_pack("{s:s}", "type", "string");
            if (strcmp(header_params[i].name, "If-Match") == 0) {
                json_object_set_new(schema, "pattern", json_string(etags));
            }
            if (header_params[i].most) {
                json_object_set_new(schema, "minLength", json_integer(1));
                json_object_set_new(schema, "maxLength", json_integer(header_params[i].most));
            }
            add_param(list, header_params[i].name, "header", header_params[i].help, schema);
        }
    }
    return list;
}

/* ---- bodies and their examples --------------------------------------------------------------- */

static const struct {
    const char *schema, *json;
} examples[] = {
    {"JobSpec",
     "{\"name\": \"glyphs\", \"model\": \"lenet5\", "
     "\"data\": {\"format\": \"glyphs\", \"samples\": 6000, \"test_samples\": 1000}, "
     "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9}, "
     "\"strategy\": {\"type\": \"sync\"}, "
     "\"batching\": {\"global_batch\": 128, \"policy\": \"dynamic\"}, "
     "\"workers\": 2, \"epochs\": 1}"},
    {"SweepStart",
     "{\"name\": \"rates\", \"spec\": {\"model\": \"mlp\", "
     "\"data\": {\"format\": \"glyphs\", \"samples\": 6000, \"test_samples\": 1000}, "
     "\"optimizer\": {\"type\": \"sgd\"}, \"strategy\": {\"type\": \"sync\"}, "
     "\"batching\": {\"global_batch\": 64, \"policy\": \"equal\"}}, "
     "\"parameters\": [{\"pointer\": \"/optimizer/learning_rate\", "
     "\"range\": [0.001, 0.1], \"scale\": \"log\"}], "
     "\"method\": {\"type\": \"random\", \"trials\": 8}, \"parallel\": 2}"},
    {"JobPatch",
     "{\"tags\": [\"baseline\", \"paper/table-2\"], \"note\": \"the run of the figure\"}"},
    {"LinkStart", "{\"role\": \"viewer\"}"},
    {"TokenStart", "{\"name\": \"olga\", \"role\": \"operator\", \"seconds\": 2592000}"},
    {"WebhookStart",
     "{\"address\": \"https://hooks.example.org/evenstep\", \"states\": [\"failed\"]}"},
    {"SessionStart", "{\"token\": \"0123456789abcdef0123456789abcdef0123456789abcdef\"}"},
};

static json_t *body_json(const struct route *r)
{
    char schema[ROUTE_SCHEMA];
    route_schema(r->request, schema);
    if (!schema[0]) {
        json_t *file = json_pack("{s:s, s:s}", "type", "string", "format", "binary");
        return json_pack("{s:b, s:o}", "required", 1, "content", content(r->request, file));
    }
    json_t *type = content("application/json", ref("schemas", schema));
    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
        if (strcmp(examples[i].schema, schema) == 0) {
            json_object_set_new(json_object_get(type, "application/json"), "example",
                                json_loads(examples[i].json, 0, NULL));
        }
    }
    return json_pack("{s:b, s:o}", "required", strcmp(schema, "LinkStart") != 0, "content", type);
}

/* ---- answers --------------------------------------------------------------------------------- */

static const struct problem {
    int status;
    const char *name, *help;
} problems[] = {
    {400, "Malformed", "The request or its document is malformed."},
    {401, "Unauthorized", "No token was given, or one that is not known."},
    {403, "Forbidden", "The token, the host or the origin does not allow that."},
    {404, "NotFound", "There is nothing of this name."},
    {406, "NotAcceptable", "Accept leaves the answer's type out."},
    {409, "Conflict", "The state does not allow that."},
    {412, "Precondition", "If-Match names another version."},
    {413, "TooLarge", "The body is too large."},
    {415, "MediaType", "The body is of another type."},
    {416, "Range", "The file ends before the range begins."},
    {422, "Invalid", "The request is understood, but not valid; every mistake is in errors."},
    {429, "TooMany", "Too many wrong tokens within a minute, or a quota of the job's owner."},
    {503, "Unavailable", "A part of the service is away; Retry-After says when to try again."},
};

/* Can this route answer so? */
static bool may_answer(const struct route *r, int status)
{
    bool reads = strcmp(r->method, "GET") == 0;
    bool waits = r->way != ROUTE_QUICK;
    bool files = strstr(r->pattern, "/artifacts/") || strstr(r->pattern, "/logs");
    bool sends_text = r->response != NULL;
    switch (status) {
    case 401:
    case 429:
        return r->role != ROLE_NONE || is(r, "POST", "/api/v1/session");
    case 404:
        return strchr(r->pattern, '{') || strstr(r->pattern, "/events") ||
               strstr(r->pattern, "/samples");
    case 406:
        return sends_text;
    case 409:
        return !reads;
    case 412:
        return files || strcmp(r->method, "PATCH") == 0 || strcmp(r->method, "DELETE") == 0;
    case 413:
    case 415:
        return r->request != NULL;
    case 416:
        return files;
    case 503:
        return waits;
    default:
        return true;
    }
}

static void add_header(json_t *answer, const char *name, const char *component)
{
    json_t *headers = json_object_get(answer, "headers");
    if (!headers) {
        json_object_set_new(answer, "headers", json_object());
        headers = json_object_get(answer, "headers");
    }
    json_object_set_new(headers, name, ref("headers", component));
}

/* Links from the id of a submitted job to the routes about it. */
static json_t *job_links(void)
{
    static const char *const operations[][2] = {{"GetJob", "get_jobs_id"},
                                                {"DeleteJob", "delete_jobs_id"},
                                                {"CancelJob", "post_jobs_id_cancel"},
                                                {"JobSeries", "get_jobs_id_series"},
                                                {"JobLogs", "get_jobs_id_logs"}};
    json_t *links = json_object();
    for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++) {
        json_object_set_new(links, operations[i][0],
                            json_pack("{s:s, s:{s:s}}", "operationId", operations[i][1],
                                      "parameters", "id", "$response.body#/id"));
    }
    return links;
}

static json_t *success_json(const struct route *r, const char *help)
{
    char schema[ROUTE_SCHEMA];
    json_t *answer = json_pack("{s:s}", "description", help);
    route_schema(r->response, schema);
    if (r->response) {
        json_t *types = schema[0] ? content("application/json", ref("schemas", schema))
                                  : content(r->response, json_pack("{s:s}", "type", "string"));
        if (route_gives_csv(r)) {
            json_object_set_new(types, "text/csv",
                                json_pack("{s:{s:s}}", "schema", "type", "string"));
        }
        if (strcmp(r->response, "text/event-stream") == 0) {
            json_object_set_new(json_object_get(types, r->response), "x-event",
                                ref("schemas", "Event"));
        }
        json_object_set_new(answer, "content", types);
    }
    add_header(answer, "X-Request-Id", "RequestId");
    if (strcmp(schema, "Job") == 0 || strcmp(schema, "Node") == 0 || strchr(r->pattern, '*') ||
        strstr(r->pattern, "/artifacts/") || strstr(r->pattern, "/logs")) {
        add_header(answer, "ETag", "ETag");
    }
    return answer;
}

static json_t *dry_run_json(const char *schema)
{
    return json_pack("{s:s, s:o}", "description", "dry run", "content",
                     content("application/json", ref("schemas", schema)));
}

static json_t *answers_json(const struct route *r)
{
    char status[8];
    json_t *all = json_object(), *good = success_json(r, "success");
    snprintf(status, sizeof(status), "%d", r->status);
    json_object_set_new(all, status, good);
    if (r->status == 201 && r->way != ROUTE_QUICK && strstr(r->pattern, "/session") == NULL &&
        strstr(r->pattern, "/link") == NULL) {
        add_header(good, "Location", "Location");
    }
    if (is(r, "POST", "/api/v1/sweeps")) {
        add_header(good, "Idempotency-Replayed", "Replayed");
        json_object_set_new(all, "200", dry_run_json("SweepPlan"));
    }
    if (is(r, "POST", "/api/v1/jobs")) {
        add_header(good, "Idempotency-Replayed", "Replayed");
        json_object_set_new(good, "links", job_links());
        json_object_set_new(all, "200", dry_run_json("DryRun"));
    }
    if (route_uploads(r)) {
        json_object_set_new(all, "200", success_json(r, "it was there already"));
    }
    if (strstr(r->pattern, "/artifacts/") || strstr(r->pattern, "/logs")) {
        json_object_set_new(all, "206", success_json(r, "the part that Range asks for"));
    }
    if (strcmp(r->method, "GET") == 0 &&
        json_object_get(json_object_get(good, "headers"), "ETag")) {
        json_object_set_new(all, "304",
                            json_pack("{s:s}", "description", "If-None-Match names what is there"));
    }
    for (size_t i = 0; i < sizeof(problems) / sizeof(*problems); i++) {
        if (may_answer(r, problems[i].status)) {
            snprintf(status, sizeof(status), "%d", problems[i].status);
            json_object_set_new(all, status, ref("responses", problems[i].name));
        }
    }
    json_object_set_new(all, "default", ref("responses", "Problem"));
    return all;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* "GET /api/v1/jobs/{id}/cancel" becomes "get_jobs_id_cancel". */
static void operation_id(const struct route *r, char out[KEY_BYTES])
{
    const char *path = strncmp(r->pattern, "/api/v1", 7) == 0 ? r->pattern + 7 : r->pattern;
    int n = snprintf(out, KEY_BYTES, "%s%s", r->method, path);
    int to = 0;
    for (int from = 0; from < n && from < KEY_BYTES - 1; from++) {
        if (isalnum((unsigned char)out[from])) {
            out[to++] = (char)tolower((unsigned char)out[from]);
        } else if (to > 0 && out[to - 1] != '_' && out[from] != '}') {
            out[to++] = '_';
        }
    }
    out[to] = '\0';
}

static const char *tag_of(const struct route *r)
{
    static const char *const tags[][2] = {
        {"/api/v1/jobs", "jobs"},
        {"/api/v1/nodes", "nodes"},
        {"/api/v1/sweeps", "jobs"},
        {"/api/v1/events", "events"},
        {"/api/v1/session", "session"},
        {"/api/v1/link", "session"},
        {"/api/v1/tokens", "access"},
        {"/api/v1/audit", "access"},
        {"/api/v1/owners", "access"},
        {"/api/v1/webhooks", "events"},
        {"/api/v1/accounting", "access"},
        {"/api/v1/", "catalog"},
        {"/", "service"},
    };
    size_t i = 0;
    while (strncmp(r->pattern, tags[i][0], strlen(tags[i][0])) != 0) {
        i++;
    }
    return tags[i][1];
}

json_t *openapi_operation(const struct route *r)
{
    char id[KEY_BYTES];
    operation_id(r, id);
    json_t *op = json_pack("{s:s, s:[s], s:s, s:s, s:o, s:o}", "operationId", id, "tags", tag_of(r),
                           "summary", r->summary, "x-role", auth_role_name(r->role), "parameters",
                           params_json(r), "responses", answers_json(r));
    if (r->request) {
        json_object_set_new(op, "requestBody", body_json(r));
    }
    if (r->role == ROLE_NONE) {
        json_object_set_new(op, "security", json_array());
    }
    return op;
}

static json_t *problem_json(const char *help, int status)
{
    json_t *answer = json_pack("{s:s, s:o}", "description", help, "content",
                               content("application/problem+json", ref("schemas", "Problem")));
    add_header(answer, "X-Request-Id", "RequestId");
    if (status == 429 || status == 503) {
        add_header(answer, "Retry-After", "RetryAfter");
    }
    return answer;
}

json_t *openapi_shared(void)
{
    static const char *const headers[][2] = {
        {"RequestId", "the request's id: what it sent as X-Request-Id, or a new one"},
        {"ETag", "the version; for If-Match and If-None-Match"},
        {"Location", "the path of what was made"},
        {"Replayed", "true: the Idempotency-Key was used before, and this is the job that it made"},
        {"RetryAfter", "seconds"},
    };
    json_t *responses = json_object(), *all_headers = json_object();
    for (size_t i = 0; i < sizeof(problems) / sizeof(*problems); i++) {
        json_object_set_new(responses, problems[i].name,
                            problem_json(problems[i].help, problems[i].status));
    }
    json_object_set_new(responses, "Problem", problem_json("Another error.", 0));
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
        json_object_set_new(
            all_headers, headers[i][0],
            json_pack("{s:s, s:{s:s}}", "description", headers[i][1], "schema", "type", "string"));
    }
    return json_pack("{s:o, s:o}", "responses", responses, "headers", all_headers);
}
