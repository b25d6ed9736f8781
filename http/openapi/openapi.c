/* GET /openapi.json; see openapi.h. The schemas of a job spec come from job/spec/spec.h, which
 * makes them from the catalogue. The document never changes while the service runs: its text is
 * made once. */
#include "http/openapi/openapi.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>

#include "http/api/api.h"
#include "http/openapi/schemas.h"
#include "http/content/text.h"
#include "http/internal.h"
#include "http/request/request.h"
#include "job/spec/spec.h"

static json_t *paths_json(const struct route *routes)
{
    json_t *paths = json_object();
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
        json_object_set_new(json_object_get(paths, r->pattern), method, openapi_operation(r));
    }
    return paths;
}

static json_t *components_json(void)
{
    json_t *types = jobspec_schemas(), *all = openapi_shared();
    for (const struct schema *s = schemas; s->name; s++) {
        json_object_set_new(types, s->name, schema_json(s));
    }
    json_object_set_new(all, "schemas", types);
    json_object_set_new(
        all, "securitySchemes",
        json_pack("{s:{s:s, s:s}, s:{s:s, s:s, s:s, s:s}}", "token", "type", "http", "scheme",
                  "bearer", "session", "type", "apiKey", "in", "cookie", "name", "evenstep_PORT",
                  "description",
                  "made by POST /api/v1/session; PORT is the service's; requests that change "
                  "something also need our own Origin"));
    return all;
}

/* What routes are about, in the order of the table. */
static json_t *tags_json(void)
{
    return json_pack(
        "[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}, "
        "{s:s, s:s}]",
        "name", "jobs", "description", "Jobs: submitted, watched, changed, deleted.", "name",
        "nodes", "description", "Machines, or parts of them, that compute.", "name", "catalog",
        "description", "What a job can name: strategies, layers, data sets, programs.", "name",
        "events", "description", "What happens, as it happens.", "name", "session", "description",
        "Who asks: sessions and links of browsers.", "name", "access", "description",
        "Tokens, and the audit of what was changed.", "name", "service", "description",
        "How the service is: metrics, health, this description.");
}

/* OpenAPI 3.1. New reference. Files of the page (patterns with a star) are not part of it. */
static json_t *description(const struct route *routes)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s, s:s}, s:[{s:s}], s:o, s:[{s:[]}, {s:[]}], s:o, s:o}",
                     "openapi", "3.1.0", "info", "title", "Evenstep", "version", "1", "summary",
                     "Trains neural networks on clusters of unequal machines.", "description",
                     "Every error is application/problem+json with every mistake at once. What the "
                     "words mean is in docs/http-api.md.",
                     "servers", "url", "/", "tags", tags_json(), "security", "token", "session",
                     "paths", paths_json(routes), "components", components_json());
}

static struct text *make_text(const struct route *routes)
{
    size_t len = 0;
    json_t *j = description(routes);
    char *text = j ? jsonx_dump(j, false, &len) : NULL;
    json_decref(j);
    return text_new("application/json", text, len);
}

/* Kept until the process ends; NULL: memory ran out. */
static struct text *text_of(const struct route *routes)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct text *made;
    pthread_mutex_lock(&lock);
    if (!made) {
        made = make_text(routes);
    }
    pthread_mutex_unlock(&lock);
    return made;
}

int api_openapi(struct request *q, struct reply *out, struct err *e)
{
    struct text *made = text_of(q->server->routes);
    return reply_set_shared(out, 200, made ? text_ref(made) : NULL, "no-store", e);
}
