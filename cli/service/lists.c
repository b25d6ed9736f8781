/* Programs, links for a browser, who asks, the service's figures and its disk. */
#include <stdlib.h>

#include "cli/service/service.h"
#include "common/text/terminal.h"
#include "common/json/jsonx.h"
#include "common/text/text.h"

/* ---- programs -------------------------------------------------------------------------------- */

const struct opt programs_options[] = {
    {"delete", NULL, OPT_FLAG, NULL, 0, 0, "deletes the uploaded programs that are named"},
    {"quiet", NULL, OPT_FLAG, NULL, 0, 0, "prints names and digests alone (-q)"},
    {0},
};

static void print_programs(const json_t *answer)
{
    static const struct column columns[] = {
        {"name", "name", COLUMN_WHOLE},        {"kind", "kind", COLUMN_TEXT},
        {"files", "files", COLUMN_COUNT},      {"size", "bytes", COLUMN_BYTES},
        {"uploaded", "uploaded", COLUMN_TIME}, {"by", "by", COLUMN_TEXT},
        {"digest", "digest", COLUMN_TEXT},     COLUMNS_END,
    };
    columns_print(json_object_get(answer, "programs"), columns, "", stdout);
}

/* What a job names it by: an operator's program has a name, an uploaded one a digest. */
static void print_names(const json_t *answer)
{
    size_t i;
    json_t *program;
    json_array_foreach(json_object_get(answer, "programs"), i, program) {
        bool named = json_is_string(json_object_get(program, "name"));
        printf("%s\n", jsonx_string_at(program, named ? "name" : "digest"));
    }
}

static void print_deleted(const json_t *answer)
{
    columns_lines(json_object_get(answer, "deleted"), "", " deleted", stdout);
}

static json_t *call_on(struct session *s, const char *method, const char *name)
{
    struct buf path;
    client_address(&path);
    buf_adds(&path, "/api/v1/programs/");
    client_add_escaped(&path, name);
    json_t *answer = client_call(&s->client, method, path.data, NULL, &s->err);
    buf_release(&path);
    if (!answer && s->client.refusal == 404) {
        session_suggest(s, "/api/v1/programs", "programs", "name", name);
    }
    return answer;
}

/* The programs that are named, in the form of the list; or their names, once they are deleted. */
int command_programs(struct session *s)
{
    bool delete = opt_flag(s->options, "delete");
    void (*print)(const json_t *) = opt_flag(s->options, "quiet") ? print_names : print_programs;
    if (!session_argument(s, 0)) {
        return delete ? err_set(&s->err, ERR_INVALID, "--delete needs a program's digest")
                      : session_show(s, "GET", "/api/v1/programs", print);
    }
    json_t *list = json_array();
    for (int i = 0; s->err.code == ERR_NONE && session_argument(s, i); i++) {
        const char *name = session_argument(s, i);
        json_t *answer = call_on(s, delete ? "DELETE" : "GET", name);
        json_array_append_new(list, answer && delete ? jsonx_text(name) : json_incref(answer));
        json_decref(answer);
    }
    if (s->err.code == ERR_NONE) {
        session_print(s, json_pack("{s:O}", delete ? "deleted" : "programs", list),
                      delete ? print_deleted : print);
    }
    json_decref(list);
    return -(int)s->err.code;
}

/* ---- link, who asks, figures ----------------------------------------------------------------- */

const struct opt link_options[] = {
    {"role", "ROLE", OPT_STRING, NULL, 0, 0,
     "what who opens it may do: viewer, operator, programs or admin (default: admin)"},
    {0},
};

static void print_link(const json_t *answer)
{
    printf("%s\n", jsonx_string_at(answer, "url"));
}

int command_link(struct session *s)
{
    const char *role = opt_string(s->options, "role");
    json_t *body = role ? json_pack("{s:s}", "role", role) : NULL;
    json_t *answer = client_call(&s->client, "POST", "/api/v1/link", body, &s->err);
    json_decref(body);
    return session_print(s, answer, print_link);
}

static void print_session(const json_t *answer)
{
    printf("%s, with the role %s\n", jsonx_string_at(answer, "name"),
           jsonx_string_at(answer, "role"));
}

int command_whoami(struct session *s)
{
    return session_show(s, "GET", "/api/v1/session", print_session);
}

/* The text that Prometheus reads. */
int command_metrics(struct session *s)
{
    size_t n = 0;
    char *text = client_text(&s->client, "/metrics", 0, &n, &s->err);
    if (text && s->json) {
        json_t *answer = json_pack("{s:o}", "text", jsonx_text(text));
        free(text);
        return session_print(s, answer, NULL);
    }
    text_print(stdout, text ? text : "");
    free(text);
    return -(int)s->err.code;
}

/* ---- disk ------------------------------------------------------------------------------------ */

static void print_disk(const json_t *answer)
{
    static const struct column columns[] = {
        {"job", "id", COLUMN_WHOLE},
        {"finished", "finished", COLUMN_TIME},
        {"takes", "disk_bytes", COLUMN_BYTES},
        {"could go", "can_go_bytes", COLUMN_BYTES},
        COLUMNS_END,
    };
    static const struct {
        const char *key, *text;
    } lines[] = {{"free_bytes", "free"},
                 {"used_bytes", "taken by jobs and programs"},
                 {"max_disk_bytes", "that they may take (--max-disk)"},
                 {"data_bytes", "taken by uploaded data sets"},
                 {"can_go_bytes", "of jobs that have ended, could go"}};
    char text[COLUMN_BYTES_MOST], amount[32];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (json_is_number(json_object_get(answer, lines[i].key))) {
            snprintf(amount, sizeof amount, "%12.16s  ",
                     column_text(text, answer, lines[i].key, COLUMN_BYTES));
            text_fill(stdout, terminal_width(stdout), amount, 14, lines[i].text);
        }
    }
    if (json_is_true(json_object_get(answer, "low"))) {
        printf("the disk is nearly full\n");
    }
    if (json_array_size(json_object_get(answer, "jobs")) > 0) {
        columns_print(json_object_get(answer, "jobs"), columns, "", stdout);
    }
}

int command_disk(struct session *s)
{
    return session_show(s, "GET", "/api/v1/disk", print_disk);
}
