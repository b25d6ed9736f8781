/* `evenstep load NODE`: how busy a node's host was, a line for each kept time. */
#include <string.h>

#include "cli/nodes/nodes.h"
#include "common/clock.h"

const struct opt load_options[] = {
    {"seconds", "N", OPT_INT, "60", 1, 604800, "only the last so many seconds"},
    SESSION_CSV,
    {0},
};

static const struct column columns[] = {
    {"until", "at", COLUMN_TIME},
    {"over", "seconds", COLUMN_SECONDS},
    {"CPU", "cpu", COLUMN_PERCENT},
    {"memory", "memory_used_bytes", COLUMN_BYTES},
    {"received/s", "received_bytes_per_second", COLUMN_BYTES},
    {"sent/s", "sent_bytes_per_second", COLUMN_BYTES},
    {"GPU", "gpu_busy", COLUMN_PERCENT},
    {"its memory", "gpu_memory_used_bytes", COLUMN_BYTES},
    COLUMNS_END,
};
enum { GPU = 6 }; /* the first of the columns that only nodes with a GPU have */

static bool is_known(const json_t *list)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)list, i, one) {
        if (!json_is_null(one)) {
            return true;
        }
    }
    return false;
}

/* The lists become rows. */
static void print_load(const json_t *answer)
{
    struct column shown[sizeof columns / sizeof *columns];
    const json_t *times = json_object_get(answer, "at");
    json_t *rows = json_array(), *list;
    const char *key;
    char time[32];
    for (size_t i = 0; i < json_array_size(times); i++) {
        json_t *row = json_object();
        json_object_foreach((json_t *)answer, key, list) {
            json_object_set(row, key, json_array_get(list, i));
        }
        clock_format(time, (int64_t)(1000 * json_number_value(json_array_get(times, i))));
        json_object_set_new(row, "at", json_string(time));
        json_array_append_new(rows, row);
    }
    memcpy(shown, columns, sizeof columns);
    if (!is_known(json_object_get(answer, "gpu_busy"))) {
        shown[GPU] = (struct column)COLUMNS_END;
    }
    columns_print(rows, shown, "", stdout);
    json_decref(rows);
}

int command_load(struct session *s)
{
    bool csv = opt_flag(s->options, "csv");
    char rest[64];
    struct buf path;
    const char *name = session_argument(s, 0);
    snprintf(rest, sizeof rest, "/load?seconds=%ld%s", opt_int(s->options, "seconds"),
             csv ? "&format=csv" : "");
    node_path(&path, name, rest);
    int rc = csv ? session_table(s, path.data) : session_show(s, "GET", path.data, print_load);
    buf_release(&path);
    return rc < 0 ? node_suggest(s, name) : rc;
}
