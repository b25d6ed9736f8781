/* GET /openapi.json and the generated part of docs/http-api.md; see openapi.h. The schema of a job
 * spec comes from job/spec.h, which makes it from the catalogue.
 */
#include "http/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api.h"
#include "http/request.h"
#include "http/schemas.h"
#include "job/spec.h"

enum { KEY_BYTES = 128 };

static json_t *ref(const char *schema)
{
    char text[KEY_BYTES];
    snprintf(text, sizeof(text), "#/components/schemas/%s", schema);
    return json_pack("{s:s}", "$ref", text);
}

static bool is_schema(const char *name)
{
    return isupper((unsigned char)name[0]);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static json_t *param_schema(const struct route_param *p)
{
    static const char *const types[] = {"string", "integer", "number", "boolean"};
    json_t *j = json_pack("{s:s}", "type", types[p->type]);
    if (p->type == ROUTE_INT) {
        json_object_set_new(j, "minimum", json_integer((json_int_t)p->min));
        json_object_set_new(j, "maximum", json_integer((json_int_t)p->max));
    }
    json_t *choices = p->choices ? json_array() : NULL;
    for (const char *at = p->choices; at && *at;) {
        size_t n = strcspn(at, "|");
        json_array_append_new(choices, json_stringn(at, n));
        at += n + (at[n] == '|');
    }
    if (choices) {
        json_object_set_new(j, "enum", choices);
    }
    return j;
}

/* Parameters in braces, and those of the query. */
static json_t *params_json(const struct route *r)
{
    json_t *list = json_array();
    for (const char *at = strchr(r->pattern, '{'); at; at = strchr(at, '{')) {
        char name[32];
        size_t n = strcspn(++at, "}");
        snprintf(name, sizeof(name), "%.*s", (int)n, at);
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:{s:s}}", "name", name, "in",
                                              "path", "required", 1, "schema", "type", "string"));
    }
    for (const struct route_param *p = r->params; p && p->name; p++) {
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:o}", "name", p->name, "in", "query",
                                        "description", p->help, "schema", param_schema(p)));
    }
    if (strcmp(r->method, "POST") == 0 && r->request && strcmp(r->request, "JobSpec") == 0) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:{s:s, s:i}}", "name",
                                              "Idempotency-Key", "in", "header", "description",
                                              "a repeated request with this key gives the same job",
                                              "schema", "type", "string", "maxLength", 255));
    }
    return list;
}

/* ---- operations ------------------------------------------------------------------------------ */

static json_t *content(const char *type, json_t *schema)
{
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *responses_json(const struct route *r)
{
    char status[8];
    json_t *good = json_pack("{s:s}", "description", "success"), *all = json_object();
    if (r->response) {
        json_object_set_new(good, "content",
                            is_schema(r->response)
                                ? content("application/json", ref(r->response))
                                : content(r->response, json_pack("{s:s}", "type", "string")));
    }
    snprintf(status, sizeof(status), "%d", r->status);
    json_object_set_new(all, status, good);
    if (r->request && strcmp(r->request, "JobSpec") == 0) {
        json_object_set_new(all, "200",
                            json_pack("{s:s, s:o}", "description", "dry run", "content",
                                      content("application/json", ref("DryRun"))));
    }
    if (r->way == ROUTE_UPLOADS) {
        json_object_set_new(all, "200",
                            json_pack("{s:s, s:o}", "description", "it was there already",
                                      "content", content("application/json", ref(r->response))));
    }
    json_object_set_new(all, "default",
                        json_pack("{s:s, s:o}", "description", "an error", "content",
                                  content("application/problem+json", ref("Problem"))));
    return all;
}

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

static json_t *operation_json(const struct route *r)
{
    char id[KEY_BYTES];
    operation_id(r, id);
    json_t *op = json_pack("{s:s, s:s, s:s, s:o, s:o}", "operationId", id, "summary", r->summary,
                           "x-role", auth_role_name(r->role), "parameters", params_json(r),
                           "responses", responses_json(r));
    if (r->request) {
        bool optional = strcmp(r->request, "LinkStart") == 0;
        json_t *body = is_schema(r->request)
                           ? content("application/json", ref(r->request))
                           : content(r->request,
                                     json_pack("{s:s, s:s}", "type", "string", "format", "binary"));
        json_object_set_new(op, "requestBody",
                            json_pack("{s:b, s:o}", "required", !optional, "content", body));
    }
    if (r->role == ROLE_NONE) {
        json_object_set_new(op, "security", json_array());
    }
    return op;
}

json_t *openapi_json(void)
{
    json_t *paths = json_object(), *types = json_object();
    for (const struct route *r = routes; r->method; r++) {
        char method[16];
        size_t n = 0;
        if (strchr(r->pattern, '*')) {
            continue;
        }
        for (; r->method[n] && n + 1 < sizeof(method); n++) {
            method[n] = (char)tolower((unsigned char)r->method[n]);
        }
        method[n] = '\0';
        if (!json_object_get(paths, r->pattern)) {
            json_object_set_new(paths, r->pattern, json_object());
        }
        json_object_set_new(json_object_get(paths, r->pattern), method, operation_json(r));
    }
    for (const struct schema *s = schemas; s->name; s++) {
        json_object_set_new(types, s->name, schema_json(s));
    }
    json_object_set_new(types, "JobSpec", jobspec_schema());
    return json_pack(
        "{s:s, s:{s:s, s:s, s:s}, s:[{s:[]}, {s:[]}], s:o, s:{s:o, s:{s:{s:s, s:s}, s:{s:s, s:s, "
        "s:s, s:s}}}}",
        "openapi", "3.1.0", "info", "title", "Evenstep", "version", "1", "description",
        "Trains neural networks on clusters of unequal machines.", "security", "token", "session",
        "paths", paths, "components", "schemas", types, "securitySchemes", "token", "type", "http",
        "scheme", "bearer", "session", "type", "apiKey", "in", "cookie", "name", "evenstep_PORT",
        "description",
        "made by POST /api/v1/session; requests that change something also need our own Origin");
}

int api_openapi(struct request *q, struct reply *out, struct err *e)
{
    (void)q;
    return reply_set_json(out, 200, openapi_json(), e);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static void markdown_route(struct buf *out, const struct route *r)
{
    buf_addf(out, "### %s %s\n\n%s Role: %s.", r->method, r->pattern, r->summary,
             r->role == ROLE_NONE ? "none needed" : auth_role_name(r->role));
    if (r->request) {
        buf_addf(out, " Body: `%s`.", r->request);
    }
    if (r->response) {
        buf_addf(out, " Answer: %d, `%s`.\n\n", r->status, r->response);
    } else {
        buf_addf(out, " Answer: %d without a body.\n\n", r->status);
    }
    if (r->params) {
        buf_adds(out, "| query | |\n|---|---|\n");
    }
    for (const struct route_param *p = r->params; p && p->name; p++) {
        buf_addf(out, "| `%s` | %s", p->name, p->help);
        for (const char *at = p->choices; at && *at;) {
            size_t n = strcspn(at, "|");
            buf_addf(out, "%s `%.*s`", at == p->choices ? ". One of" : ",", (int)n, at);
            at += n + (at[n] == '|');
        }
        if (p->type == ROUTE_INT) {
            buf_addf(out, ". From %.15g to %.15g", p->min, p->max);
        }
        buf_adds(out, " |\n");
    }
    buf_adds(out, r->params ? "\n" : "");
}

void openapi_markdown(struct buf *out)
{
    buf_adds(out, "## Routes\n\n");
    for (const struct route *r = routes; r->method; r++) {
        markdown_route(out, r);
    }
    buf_adds(
        out,
        "## Documents\n\n"
        "`?` may be null, `[T]` an array, `{T}` an object with any keys, `~` a key that may be "
        "missing.\n\n");
    for (const struct schema *s = schemas; s->name; s++) {
        buf_addf(out, "**%s**: %s\n\n```\n%s\n```\n\n", s->name, s->help, s->fields);
    }
}
