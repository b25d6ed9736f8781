/* `evenstep token` and `evenstep audit`: who may ask, and who changed what. For admins. */
#include <stdlib.h>
#include <string.h>

#include "cli/service/service.h"
#include "common/clock.h"
#include "common/json/jsonx.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

const struct opt token_options[] = {
    {"role", "ROLE", OPT_STRING, "operator", 0, 0,
     "of `create`: what the token allows: viewer, operator, programs or admin"},
    {"days", "N", OPT_REAL, "90", 0, 3660, "of `create`: how long the token lives; 0: for ever"},
    {0},
};

static void print_tokens(const json_t *answer)
{
    static const struct column columns[] = {
        {"id", "id", COLUMN_WHOLE},
        {"name", "name", COLUMN_WHOLE},
        {"role", "role", COLUMN_WHOLE},
        {"source", "source", COLUMN_WHOLE},
        {"created", "created", COLUMN_TIME},
        {"expires", "expires", COLUMN_TIME},
        {"expired", "expired", COLUMN_FLAG},
        {"by", "by", COLUMN_TEXT},
        COLUMNS_END,
    };
    columns_print(json_object_get(answer, "tokens"), columns, "", stdout);
}

static void print_token(const json_t *answer)
{
    printf("%s\n", jsonx_string_at(answer, "token"));
}

static void print_revoked(const json_t *answer)
{
    columns_lines(json_object_get(answer, "revoked"), "", " revoked", stdout);
}

static int create(struct session *s)
{
    double days = opt_real(s->options, "days");
    json_int_t seconds = (json_int_t)(days * 86400);
    const char *name = session_argument(s, 1);
    if (!name || session_argument(s, 2)) {
        return err_set(&s->err, ERR_INVALID,
                       "`evenstep token create` takes one name, its holder's");
    }
    if (session_check_text(s, name) < 0) {
        return -(int)s->err.code;
    }
    json_t *body = json_pack("{s:o, s:s, s:o}", "name", json_string(name), "role",
                             opt_string(s->options, "role"), "seconds",
                             days > 0 ? json_integer(seconds > 0 ? seconds : 1) : json_null());
    json_t *answer = client_call(&s->client, "POST", "/api/v1/tokens", body, &s->err);
    json_decref(body);
    return session_print(s, answer, print_token);
}

int command_token(struct session *s)
{
    static const char *const actions[] = {"create", "list", "revoke"};
    const char *action = session_argument(s, 0);
    if (strcmp(action, "create") == 0) {
        return create(s);
    }
    if (strcmp(action, "revoke") == 0) {
        return session_delete_each(s, "/api/v1/tokens", "revoked",
                                   "`evenstep token revoke` needs a token's id",
                                   "`evenstep token list` shows them", print_revoked);
    }
    if (strcmp(action, "list") == 0) {
        return session_argument(s, 1)
                   ? err_set(&s->err, ERR_INVALID, "`evenstep token list` takes no name")
                   : session_show(s, "GET", "/api/v1/tokens", print_tokens);
    }
    return session_no_action(s, "token", "a token can be created, listed or revoked", action,
                             actions, 3);
}

/* ---- the audit ------------------------------------------------------------------------------- */

const struct opt audit_options[] = {
    {"who", "NAME", OPT_STRING, NULL, 0, 0, "only what this name did"},
    {"since", "TIME", OPT_STRING, NULL, 0, 0,
     "only entries from then on: 2026-01-02T03:04:05Z, a date, or how long ago: 30m, 12h, 7d"},
    {"limit", "N", OPT_INT, "100", 1, 100000, "the newest so many entries"},
    {0},
};
enum { AUDIT_PAGE = 500 };

/* "12h" as the time that was; anything else as it is. */
static const char *since_text(const char *given, char out[32])
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end = NULL;
    double n = given ? strtod(given, &end) : 0;
    for (size_t i = 0; given && end != given && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) == 0 && n >= 0 && n * units[i].seconds < 1e10) {
            return clock_format(out, clock_wall_ms() - (int64_t)(n * units[i].seconds * 1000));
        }
    }
    return given;
}

static void print_audit(const json_t *answer)
{
    static const struct column columns[] = {
        {"time", "time", COLUMN_TIME},
        {"who", "who", COLUMN_WHOLE},
        {"role", "role", COLUMN_TEXT},
        {"from", "from", COLUMN_TEXT},
        {"method", "method", COLUMN_TEXT},
        {"path", "path", COLUMN_TEXT},
        {"answer", "status", COLUMN_COUNT},
        {"what", "note", COLUMN_TEXT},
        COLUMNS_END,
    };
    columns_print(json_object_get(answer, "entries"), columns, "", stdout);
}

static void path_of(const struct session *s, long limit, const char *cursor, struct buf *out)
{
    char text[32];
    buf_addf(out, "/api/v1/audit?limit=%ld", limit);
    client_add_param(out, "who", opt_string(s->options, "who"));
    client_add_param(out, "since", since_text(opt_string(s->options, "since"), text));
    client_add_param(out, "cursor", cursor);
}

int command_audit(struct session *s)
{
    long most = opt_int(s->options, "limit");
    json_t *entries = session_pages(s, "entries", most, AUDIT_PAGE, path_of, NULL);
    return session_print(s, entries ? json_pack("{s:o}", "entries", entries) : NULL, print_audit);
}
