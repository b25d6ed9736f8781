/* `evenstep webhooks`: addresses that are told when a job's state changes. */
#include <stdio.h>
#include <string.h>

#include "cli/service/service.h"
#include "common/json/jsonx.h"

const struct opt webhook_options[] = {
    {"state", "STATE", OPT_LIST, NULL, 0, 0,
     "of `create`: a state that is told of (default: succeeded, failed, cancelled)"},
    {"scope", "SCOPE", OPT_STRING, NULL, 0, 0,
     "of `create`: own, or all for everybody's jobs (default: for admins all)"},
    {0},
};

/* What became of a try, in words; "-": there was none. With `why`, the reason in place of "failed".
 * A new reference. */
static json_t *outcome_of(const json_t *try, bool why)
{
    const char *outcome = jsonx_string_at(try, "outcome"), *said = jsonx_string_at(try, "message");
    bool given_up = strcmp(outcome, "given_up") == 0;
    if (strcmp(outcome, "waits") != 0 && !given_up) {
        return json_string(*outcome ? outcome : "-");
    }
    return why && *said ? json_sprintf("%s%s", given_up ? "given up: " : "", said)
                        : json_string(given_up ? "given up" : "failed");
}

static void print_webhooks(const json_t *answer)
{
    static const struct column columns[] = {
        {"id", "id", COLUMN_WHOLE},         {"address", "address", COLUMN_TEXT},
        {"states", "states", COLUMN_WORDS}, {"jobs", "scope", COLUMN_TEXT},
        {"owner", "owner", COLUMN_TEXT},    {"waiting", "waiting", COLUMN_COUNT},
        {"last", "last", COLUMN_TEXT},      COLUMNS_END,
    };
    size_t i;
    json_t *one, *list = json_object_get(answer, "webhooks");
    json_array_foreach(list, i, one) {
        const json_t *last = json_array_get(json_object_get(one, "tries"), 0);
        json_object_set_new(one, "last", outcome_of(last, true));
    }
    columns_print(list, columns, "", stdout);
}

static void print_tries(const json_t *answer)
{
    static const struct column columns[] = {
        {"time", "time", COLUMN_TIME},       {"type", "type", COLUMN_WHOLE},
        {"job", "job", COLUMN_WHOLE},        {"try", "try", COLUMN_COUNT},
        {"outcome", "outcome", COLUMN_TEXT}, {"answer", "status", COLUMN_COUNT},
        {"why", "message", COLUMN_TEXT},     COLUMNS_END,
    };
    size_t i;
    json_t *one, *tries = json_object_get(answer, "tries");
    json_array_foreach(tries, i, one) {
        json_object_set_new(one, "outcome", outcome_of(one, false));
    }
    columns_print(tries, columns, "", stdout);
}

static void print_made(const json_t *answer)
{
    printf("%s\n%s\n", jsonx_string_at(answer, "id"), jsonx_string_at(answer, "secret"));
}

static void print_deleted(const json_t *answer)
{
    columns_lines(json_object_get(answer, "deleted"), "", " deleted", stdout);
}

static int show(struct session *s, const char *id)
{
    struct buf path;
    client_address(&path);
    buf_adds(&path, "/api/v1/webhooks/");
    client_add_escaped(&path, id);
    int rc = session_show(s, "GET", path.data, print_tries);
    buf_release(&path);
    return rc;
}

static int create(struct session *s)
{
    const char *address = session_argument(s, 1), *scope = opt_string(s->options, "scope");
    int n = opt_count(s->options, "state");
    if (!address || session_argument(s, 2)) {
        return err_set(&s->err, ERR_INVALID, "`evenstep webhooks create` takes one address");
    }
    if (session_check_text(s, address) < 0) {
        return -(int)s->err.code;
    }
    json_t *body = json_pack("{s:o}", "address", json_string(address)), *states = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(states, jsonx_text(opt_item(s->options, "state", i)));
    }
    if (n > 0) {
        json_object_set(body, "states", states);
    }
    if (scope) {
        json_object_set_new(body, "scope", jsonx_text(scope));
    }
    json_t *answer = client_call(&s->client, "POST", "/api/v1/webhooks", body, &s->err);
    json_decref(body);
    json_decref(states);
    return session_print(s, answer, print_made);
}

int command_webhooks(struct session *s)
{
    static const char *const actions[] = {"create", "list", "show", "delete"};
    const char *action = session_argument(s, 0), *name = action ? session_argument(s, 1) : NULL;
    if (!action || (strcmp(action, "list") == 0 && !name)) {
        return session_show(s, "GET", "/api/v1/webhooks", print_webhooks);
    }
    if (strcmp(action, "create") == 0) {
        return create(s);
    }
    if (strcmp(action, "delete") == 0) {
        return session_delete_each(s, "/api/v1/webhooks", "deleted",
                                   "`evenstep webhooks delete` needs a webhook's id",
                                   "`evenstep webhooks` shows them", print_deleted);
    }
    if (strcmp(action, "show") == 0 && name && !session_argument(s, 2)) {
        return show(s, name);
    }
    if (strcmp(action, "list") == 0 || strcmp(action, "show") == 0) {
        return err_set(&s->err, ERR_INVALID, "`evenstep webhooks %s` takes %s", action,
                       *action == 'l' ? "no name" : "one webhook's id");
    }
    return session_no_action(s, "webhooks", "a webhook can be created, listed, shown or deleted",
                             action, actions, 4);
}
