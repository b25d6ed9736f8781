/* `evenstep owners` and `evenstep accounting`: who has how much of the cluster, and had. */
#include <stdlib.h>
#include <string.h>

#include "cli/service/service.h"
#include "common/jsonx.h"
#include "common/text.h"

/* ---- owners ---------------------------------------------------------------------------------- */

/* "3 of 4" for the table, at `key` of the row; the figure alone where there is no limit. */
static void join(json_t *row, const char *key)
{
    char has[COLUMN_BYTES_MOST], may[COLUMN_BYTES_MOST], text[2 * COLUMN_BYTES_MOST + 8];
    enum column_kind kind = strcmp(key, "disk_bytes") == 0 ? COLUMN_BYTES : COLUMN_COUNT;
    char path[64];
    snprintf(path, sizeof path, "quota.%s", key);
    const json_t *most = column_get(row, path);
    column_text(has, row, key, kind);
    if (json_is_number(most)) {
        snprintf(text, sizeof text, "%s of %s", has, column_text(may, row, path, kind));
        json_object_set_new(row, key, jsonx_text(text));
    } else {
        json_object_set_new(row, key, jsonx_text(has));
    }
}

static void print_owners(const json_t *answer)
{
    static const struct column columns[] = {
        {"owner", "name", COLUMN_WHOLE},
        {"queued", "queued", COLUMN_TEXT},
        {"running", "running", COLUMN_TEXT},
        {"nodes", "nodes", COLUMN_TEXT},
        {"disk", "disk_bytes", COLUMN_TEXT},
        {"paused", "paused", COLUMN_COUNT},
        {"ended", "ended", COLUMN_COUNT},
        {"time limit", "quota.max_seconds", COLUMN_SECONDS},
        {"by the clock", "quota.max_wall_seconds", COLUMN_SECONDS},
        COLUMNS_END,
    };
    static const char *const limited[] = {"queued", "running", "nodes", "disk_bytes"};
    json_t *rows = json_deep_copy(json_object_get(answer, "owners")), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        for (size_t k = 0; k < sizeof limited / sizeof *limited; k++) {
            join(row, limited[k]);
        }
    }
    columns_print(rows, columns, "", stdout);
    json_decref(rows);
}

int command_owners(struct session *s)
{
    return session_show(s, "GET", "/api/v1/owners", print_owners);
}

/* ---- accounting ------------------------------------------------------------------------------ */

const struct opt accounting_options[] = {
    {"by", "WHAT", OPT_STRING, "owner", 0, 0, "rows by owner, job or day"},
    {"since", "DAY", OPT_STRING, NULL, 0, 0,
     "the first day (UTC), as 2026-01-02 (default: 29 days before --until)"},
    {"until", "DAY", OPT_STRING, NULL, 0, 0, "the last day (default: today)"},
    {"owner", "NAME", OPT_STRING, NULL, 0, 0, "only what the jobs of this owner used"},
    {"csv", NULL, OPT_FLAG, NULL, 0, 0, "prints a table of values separated by commas"},
    {0},
};

static void print_accounting(const json_t *answer)
{
    static const struct column of_owners[] = {
        {"owner", "owner", COLUMN_WHOLE},
        {"jobs", "jobs", COLUMN_COUNT},
        {"node-hours", "node_hours", COLUMN_NUMBER},
        COLUMNS_END,
    };
    static const struct column of_jobs[] = {
        {"owner", "owner", COLUMN_WHOLE},
        {"job", "job", COLUMN_WHOLE},
        {"name", "name", COLUMN_TEXT},
        {"node-hours", "node_hours", COLUMN_NUMBER},
        COLUMNS_END,
    };
    static const struct column of_days[] = {
        {"day", "day", COLUMN_WHOLE},
        {"jobs", "jobs", COLUMN_COUNT},
        {"node-hours", "node_hours", COLUMN_NUMBER},
        COLUMNS_END,
    };
    const char *by = jsonx_string_at(answer, "by");
    const struct column *columns = strcmp(by, "job") == 0   ? of_jobs
                                   : strcmp(by, "day") == 0 ? of_days
                                                            : of_owners;
    columns_print(json_object_get(answer, "accounting"), columns, "", stdout);
}

/* Appends "&name=value" for an option that was given. */
static void add_param(const struct session *s, const char *name, char *path, size_t size)
{
    char escaped[600];
    const char *value = opt_string(s->options, name);
    size_t n = strlen(path);
    if (value) {
        snprintf(path + n, size - n, "&%s=%s", name, client_escape(escaped, sizeof escaped, value));
    }
}

/* Lines of a table (text/csv has \r\n) as lines of a terminal. */
static void print_lines(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at != '\r') {
            *to++ = *at;
        }
    }
    *to = '\0';
    text_print(stdout, text);
}

int command_accounting(struct session *s)
{
    char path[2000];
    size_t n = 0;
    bool csv = opt_flag(s->options, "csv");
    snprintf(path, sizeof path, "/api/v1/accounting?format=%s", csv ? "csv" : "json");
    add_param(s, "by", path, sizeof path);
    add_param(s, "since", path, sizeof path);
    add_param(s, "until", path, sizeof path);
    add_param(s, "owner", path, sizeof path);
    if (!csv) {
        return session_show(s, "GET", path, print_accounting);
    }
    char *text = client_text(&s->client, path, 0, &n, &s->err);
    if (text) {
        print_lines(text);
    }
    free(text);
    return -(int)s->err.code;
}
