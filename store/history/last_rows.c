/* The last rows of every rank of a job (GET …/steps): what the page draws as a timeline of the last
 * steps. They are read from the rows on disk, by the current layout.
 */
#include <stdio.h>

#include "store/history.h"
#include "store/history/meta.h"
#include "store/history/source.h"

enum { LAST_MOST = 10000 };

json_t *history_last(const char *job_dir, int n, struct err *e)
{
    char dir[HISTORY_PATH];
    snprintf(dir, sizeof dir, "%.900s/history", job_dir);
    json_t *meta = history_meta_load(dir, e), *out = json_array();
    int last = history_meta_layouts(meta) - 1;
    int rc = meta ? 0 : -ERR_DATA;
    n = n < 0 ? 0 : n > LAST_MOST ? LAST_MOST : n;
    for (int r = 0; r < history_meta_workers(meta, last) && rc == 0; r++) {
        struct source s;
        int64_t from = history_meta_from(meta, last, r);
        if ((rc = source_init(&s, dir, meta, e)) == 0 && (rc = source_rank(&s, r, from, e)) == 0) {
            json_t *rows = json_array();
            for (int64_t i = s.rows > n ? s.rows - n : 0; i < s.rows; i++) {
                struct row row = source_row(&s, i);
                json_array_append_new(rows, row_json(&row, ROW_STEPS));
            }
            json_array_append_new(out, json_pack("{s:s, s:i, s:o}", "node",
                                                 history_meta_node(meta, last, r), "rank", r,
                                                 "rows", rows));
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
