/* Nodes: the list, a single one, and an operator's requests. */
#include "cli/nodes/nodes.h"

#include <stdlib.h>

#include "common/text/terminal.h"
#include "common/json/jsonx.h"

const struct opt nodes_options[] = {
    {"quiet", NULL, OPT_FLAG, NULL, 0, 0, "prints names alone (-q)"},
    {0},
};

/* ---- list ------------------------------------------------------------------------------------ */

static void print_refused(const json_t *answer)
{
    size_t i;
    json_t *host;
    json_array_foreach(json_object_get(answer, "refused"), i, host) {
        terminal_say("", "host %s may not join: %s", jsonx_string_at(host, "host"),
                     jsonx_string_at(host, "message"));
        terminal_say("  ", "%s", jsonx_string_at(host, "hint"));
    }
}

static void print_nodes(const json_t *answer)
{
    static const struct column columns[] = {
        {"node", "name", COLUMN_WHOLE},
        {"host", "host", COLUMN_TEXT},
        {"device", "device", COLUMN_TEXT},
        {"memory", "memory_bytes", COLUMN_BYTES},
        {"slowdown", "slowdown", COLUMN_NUMBER},
        {"state", "state", COLUMN_TEXT},
        {"job", "job", COLUMN_TEXT},
        COLUMNS_END,
    };
    columns_print(json_object_get(answer, "nodes"), columns, "", stdout);
    print_refused(answer);
}

static void print_names(const json_t *answer)
{
    columns_lines(json_object_get(answer, "nodes"), "name", "", stdout);
}

/* ---- one ------------------------------------------------------------------------------------- */

enum { MOST_BYTES = 1 << 20 };

static bool is_plain(const json_t *value)
{
    size_t i;
    json_t *item;
    bool plain = !json_is_object(value);
    json_array_foreach((json_t *)value, i, item) {
        plain = plain && !json_is_object(item) && !json_is_array(item);
    }
    return plain;
}

static void add_text(struct buf *out, const json_t *value)
{
    char *dumped = json_is_string(value) ? NULL : jsonx_dump(value, false, NULL);
    const char *text = dumped ? dumped : json_string_value(value);
    buf_adds(out, json_is_null(value) || !text || !*text ? "-" : text);
    free(dumped);
}

/* Adds a row. The values of a list are joined: "fp32, bf16". */
static void add_row(json_t *rows, const char *path, const json_t *value)
{
    struct buf text;
    size_t i;
    json_t *item;
    buf_init(&text, MOST_BYTES);
    json_array_foreach((json_t *)value, i, item) {
        buf_adds(&text, i > 0 ? ", " : "");
        add_text(&text, item);
    }
    if (text.len == 0) {
        add_text(&text, json_is_object(value) || json_is_array(value) ? json_null() : value);
    }
    json_object_set_new(rows, path, jsonx_text(text.failed ? "-" : text.data));
    buf_release(&text);
}

/* rows[PATH] = text for each value: "versions.evenstep", "interpreters.0.path". */
static void add_rows(json_t *rows, const char *path, const json_t *value)
{
    char name[160];
    const char *key, *dot = *path ? "." : "";
    size_t i;
    json_t *inner;
    if (is_plain(value) || json_object_size(value) + json_array_size(value) == 0) {
        add_row(rows, path, value);
        return;
    }
    json_object_foreach((json_t *)value, key, inner) {
        snprintf(name, sizeof name, "%s%s%s", path, dot, key);
        add_rows(rows, name, inner);
    }
    json_array_foreach((json_t *)value, i, inner) {
        snprintf(name, sizeof name, "%s%s%zu", path, dot, i);
        add_rows(rows, name, inner);
    }
}

/* Prints every value on a line of its own, wrapped at the terminal's width: nothing is cut. */
static void print_node(const json_t *node)
{
    const char *name;
    int widest = 0;
    json_t *text, *rows = json_object();
    add_rows(rows, "", node);
    json_object_foreach(rows, name, text) {
        int n = text_columns(name);
        widest = n > widest ? n : widest;
    }
    json_object_foreach(rows, name, text) {
        char first[200];
        int fill = widest - text_columns(name) + 2;
        snprintf(first, sizeof first, "%s%*s", name, fill, "");
        text_fill(stdout, terminal_width(stdout), first, widest + 2, json_string_value(text));
    }
    json_decref(rows);
}

void node_path(struct buf *out, const char *name, const char *rest)
{
    client_address(out);
    buf_adds(out, "/api/v1/nodes/");
    client_add_escaped(out, name);
    buf_adds(out, rest);
}

int node_suggest(struct session *s, const char *name)
{
    if (s->client.refusal == 404) {
        session_suggest(s, "/api/v1/nodes", "nodes", "name", name);
    }
    return -(int)s->err.code;
}

int command_nodes(struct session *s)
{
    const char *name = session_argument(s, 0);
    struct buf path;
    if (!name) {
        return session_show(s, "GET", "/api/v1/nodes",
                            opt_flag(s->options, "quiet") ? print_names : print_nodes);
    }
    node_path(&path, name, "");
    int rc = session_show(s, "GET", path.data, print_node);
    buf_release(&path);
    return rc < 0 ? node_suggest(s, name) : rc;
}

/* ---- what is asked of them ------------------------------------------------------------------- */

static void print_states(const json_t *answer)
{
    size_t i;
    json_t *node;
    json_array_foreach(json_object_get(answer, "nodes"), i, node) {
        printf("%s %s\n", jsonx_string_at(node, "name"), jsonx_string_at(node, "state"));
    }
}

/* Sends the same request for each named node, until one is refused. A forgotten node has no
 * document afterwards. */
static int ask_each(struct session *s, const char *method, const char *what)
{
    json_t *done = json_array();
    struct buf path;
    for (int i = 0; s->err.code == ERR_NONE && session_argument(s, i); i++) {
        const char *name = session_argument(s, i);
        node_path(&path, name, what);
        json_t *answer = client_call(&s->client, method, path.data, NULL, &s->err);
        buf_release(&path);
        if (json_is_null(answer)) {
            json_decref(answer);
            answer = json_pack("{s:o, s:s}", "name", jsonx_text(name), "state", "forgotten");
        }
        if (answer) {
            json_array_append_new(done, answer);
        } else {
            node_suggest(s, name);
        }
    }
    if (s->err.code == ERR_NONE || json_array_size(done) > 0) {
        session_print(s, json_pack("{s:O}", "nodes", done), print_states);
    }
    json_decref(done);
    return -(int)s->err.code;
}

int command_drain(struct session *s)
{
    return ask_each(s, "POST", "/drain");
}

int command_enable(struct session *s)
{
    return ask_each(s, "POST", "/enable");
}

int command_disable(struct session *s)
{
    return ask_each(s, "POST", "/disable");
}

int command_forget(struct session *s)
{
    return ask_each(s, "DELETE", "");
}
