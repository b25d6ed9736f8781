/* The generated part of docs/http-api.md: the table of routes and that of documents; see openapi.h.
 */
#include <string.h>

#include "http/openapi/openapi.h"
#include "http/openapi/schemas.h"
#include "http/routes.h"

static void markdown_route(struct buf *out, const struct route *r)
{
    buf_addf(out, "### %s %s\n\n%s Role: %s.", r->method, r->pattern, r->summary,
             r->role == ROLE_NONE ? "none needed" : auth_role_name(r->role));
    if (r->request) {
        buf_addf(out, " Body: `%s`.", r->request);
    }
    if (r->response) {
        const char *bar = strchr(r->response, '|');
        buf_addf(out, " Answer: %d, `%.*s`%s%s%s.\n\n", r->status, (int)strcspn(r->response, "|"),
                 r->response, bar ? " or `" : "", bar ? bar + 1 : "", bar ? "`" : "");
    } else {
        buf_addf(out, " Answer: %d without a body.\n\n", r->status);
    }
    if (r->params) {
        buf_adds(out, "| query | |\n|---|---|\n");
    }
    for (const struct route_param *p = r->params; p && p->name; p++) {
        buf_addf(out, "| `%s` | %s", p->name, p->help);
        for (const char *at = p->choices; at && *at && *at != '^';) {
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
        "missing;\n"
        "`time` is a string with a date and a time, `id` a job's, `sha256` a digest in hexadecimal "
        "digits;\n"
        "`=a|b` are the values of a string; `!` in front means that other keys are refused; `T?` "
        "alone are the keys of T, of which all but the first may be missing.\n\n");
    for (const struct schema *s = schemas; s->name; s++) {
        buf_addf(out, "**%s**: %s\n\n```\n%s\n```\n\n", s->name, s->help, s->fields);
    }
}
