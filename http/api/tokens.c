/* Tokens over the API: list, issue, revoke. Lines of the token file are listed too, but can be
 * changed only in the file.
 */
#include <stdio.h>
#include <string.h>

#include "common/text/text.h"
#include "http/access/issued.h"
#include "http/api/api.h"
#include "http/request/request.h"
#include "http/request/trail.h"

static const int64_t default_seconds = (int64_t)90 * 86400, most_seconds = (int64_t)3660 * 86400;

int api_tokens_list(struct request *q, struct reply *out, struct err *e)
{
    json_t *list = json_array();
    struct auth *auth = q->server->auth;
    if (tokens_list(auth_tokens(auth), list, e) < 0 ||
        issued_list(auth_issued(auth), list, e) < 0) {
        json_decref(list);
        return -(int)e->code;
    }
    return reply_set_json(out, 200, json_pack("{s:o}", "tokens", list), e);
}

/* ---- issue ----------------------------------------------------------------------------------- */

static const char *read_name(struct request *q, const json_t *body)
{
    const json_t *given = json_object_get(body, "name");
    const char *name = json_string_value(given);
    size_t n = json_string_length(given);
    char wrong[TEXT_WRONG];
    if (name && n > 0 && n < AUTH_NAME && text_name_wrong(wrong, name, n)) {
        jsonx_problem(&q->problems, "/name", "the name of its holder %s", wrong);
    } else if (!name || n == 0 || n >= AUTH_NAME || name[0] == ' ' || name[n - 1] == ' ') {
        jsonx_problem(&q->problems, "/name",
                      "expected the name of its holder: 1 to %d bytes of text, no space at either "
                      "end",
                      AUTH_NAME - 1);
    }
    return name;
}

static enum auth_role read_role(struct request *q, const json_t *body)
{
    enum auth_role role = auth_role_find(jsonx_string_at(body, "role"));
    if (role == ROLE_NONE) {
        jsonx_problem(&q->problems, "/role", "expected viewer, operator, programs or admin");
    }
    return role;
}

/* Reads how long the token lives. Left out: 90 days; null: 0, it does not end by itself. */
static int64_t read_seconds(struct request *q, const json_t *body)
{
    const json_t *given = json_object_get(body, "seconds");
    json_int_t seconds = json_integer_value(given);
    if (!given || json_is_null(given)) {
        return given ? 0 : default_seconds;
    }
    if (!json_is_integer(given) || seconds < 1 || seconds > most_seconds) {
        jsonx_problem(&q->problems, "/seconds",
                      "expected a whole number of seconds from 1 to %lld, or null for no end",
                      (long long)most_seconds);
    }
    return seconds;
}

static int make(struct request *q, struct reply *out, const json_t *body, struct err *e)
{
    char text[AUTH_TOKEN], location[64];
    struct issued_wish wish = {.name = read_name(q, body),
                               .role = read_role(q, body),
                               .seconds = read_seconds(q, body),
                               .by = q->who.owner};
    if (q->problems.count > 0) {
        return request_not_valid(q, "the token", e);
    }
    json_t *made = issued_make(auth_issued(q->server->auth), &wish, text, e);
    if (!made) {
        return -(int)e->code;
    }
    const char *id = jsonx_string_at(made, "id");
    trail_note(q, "token %s of '%s', %s", id, wish.name, auth_role_name(wish.role));
    snprintf(location, sizeof(location), "/api/v1/tokens/%s", id);
    json_object_set_new(made, "token", json_string(text));
    int rc = reply_set_json(out, 201, made, e);
    reply_header(out, "Location", location);
    return rc;
}

int api_token_make(struct request *q, struct reply *out, struct err *e)
{
    static const char *const keys[] = {"name", "role", "seconds", NULL};
    json_t *body = request_object(q, keys, e);
    int rc = body ? make(q, out, body, e) : -(int)e->code;
    json_decref(body);
    return rc;
}

/* ---- revoke ---------------------------------------------------------------------------------- */

int api_token_revoke(struct request *q, struct reply *out, struct err *e)
{
    struct token line;
    const char *id = q->match.args[0];
    if (tokens_still(auth_tokens(q->server->auth), id, &line)) {
        err_set(e, ERR_CONFLICT, "token '%.40s' is a line of the token file", id);
        return err_hint(e, "take the line out of the file; the service notices within a second");
    }
    int rc = issued_revoke(auth_issued(q->server->auth), id, e);
    return rc < 0 ? rc : reply_set_empty(out, 204, e);
}
