/* `evenstep owners` and `evenstep accounting`: who has how much of the cluster, and had. */
#include <stdlib.h>
#include <string.h>

#include "cli/service/service.h"
#include "common/json/jsonx.h"
#include "common/text/text.h"

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
    {"by", "GROUP", OPT_STRING, "owner", 0, 0, "rows by owner, job or day"},
    {"since", "DAY", OPT_STRING, NULL, 0, 0,
     "the first day (UTC), as 2026-01-02 (default: 29 days before --until)"},
    {"until", "DAY", OPT_STRING, NULL, 0, 0, "the last day (default: today)"},
    {"owner", "NAME", OPT_STRING, NULL, 0, 0, "only the use of this owner's jobs"},
    SESSION_CSV,
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

int command_accounting(struct session *s)
{
    static const char *const asked[] = {"by", "since", "until", "owner"};
    bool csv = opt_flag(s->options, "csv");
    struct buf path;
    client_address(&path);
    buf_addf(&path, "/api/v1/accounting?format=%s", csv ? "csv" : "json");
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        client_add_param(&path, asked[i], opt_string(s->options, asked[i]));
    }
    int rc =
        csv ? session_table(s, path.data) : session_show(s, "GET", path.data, print_accounting);
    buf_release(&path);
    return rc;
}
