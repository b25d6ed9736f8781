/* `evenstep owners`: who has how much of the cluster, and how much they may have. */
#include <string.h>

#include "cli/service/service.h"
#include "common/jsonx.h"

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
