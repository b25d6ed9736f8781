/* The last rows of every rank of a job (GET …/steps): what the page draws as a timeline of the last
 * steps. Read from the rows on disk, of the layout that holds now.
 */
#include <stdio.h>

#include "store/history.h"
#include "store/history/source.h"

enum { LAST_MOST = 10000 };

json_t *history_last(const char *job_dir, int n, struct err *e)
{
    char dir[HISTORY_PATH];
    snprintf(dir, sizeof dir, "%.900s/history", job_dir);
    json_t *meta = history_meta_load(dir, e), *out = json_array();
    const json_t *layouts = json_object_get(meta, "layouts");
    const json_t *layout = json_array_get(layouts, json_array_size(layouts) - 1);
    const json_t *nodes = json_object_get(layout, "nodes"),
                 *starts = json_object_get(layout, "from");
    int rc = meta ? 0 : -ERR_DATA;
    n = n < 0 ? 0 : n > LAST_MOST ? LAST_MOST : n;
    for (size_t r = 0; r < json_array_size(nodes) && rc == 0; r++) {
        struct source s;
        int64_t from = (int64_t)json_integer_value(json_array_get(starts, r));
        if ((rc = source_init(&s, dir, meta, e)) == 0 &&
            (rc = source_rank(&s, (int)r, from, e)) == 0) {
            json_t *rows = json_array();
            for (int64_t i = s.rows > n ? s.rows - n : 0; i < s.rows; i++) {
                struct row row = source_row(&s, i);
                json_array_append_new(rows, row_json(&row, ROW_STEPS));
            }
            json_array_append_new(out,
                                  json_pack("{s:O, s:i, s:o}", "node", json_array_get(nodes, r),
                                            "rank", (int)r, "rows", rows));
        }
        source_release(&s);
    }
    json_decref(meta);
    if (rc < 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}
