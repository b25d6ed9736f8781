/* Jobs and sweeps that have not ended: see openjobs.h. */
#include "coordinator/files/openjobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sweeps.h"

/* The first job of the list whose spec contains the text; "" if none does. */
static void find(struct store *s, const json_t *ids, const char *text, char by[STORE_ID],
                 struct err *e)
{
    size_t i;
    json_t *id;
    by[0] = '\0';
    json_array_foreach((json_t *)ids, i, id) {
        char *spec = store_job_field(s, json_string_value(id), "spec", e);
        bool found = spec && strstr(spec, text);
        free(spec);
        if (found) {
            snprintf(by, STORE_ID, "%s", json_string_value(id));
            return;
        }
    }
}

/* The first sweep that has not ended whose document or list of jobs contains the text. */
static int find_sweep(struct store *s, const char *text, char by[STORE_ID], struct err *e)
{
    json_t *open = store_sweeps_open(s, e), *id;
    size_t i;
    if (!open) {
        return -(int)e->code;
    }
    json_array_foreach(open, i, id) {
        json_t *sweep = by[0] ? NULL : store_sweep_get(s, json_string_value(id), NULL);
        char *all = sweep ? json_dumps(sweep, JSON_COMPACT) : NULL;
        if (all && strstr(all, text)) {
            snprintf(by, STORE_ID, "%s", json_string_value(id));
        }
        free(all);
        json_decref(sweep);
    }
    json_decref(open);
    return 0;
}

int openjobs_name(struct store *s, const char *text, char by[STORE_ID], struct err *e)
{
    err_clear(e);
    by[0] = 0;
    for (int state = 0; state < JOB_STATE_COUNT; state++) {
        if (jobstate_ended((enum job_state)state)) {
            continue;
        }
        json_t *ids = store_job_ids(s, (enum job_state)state, e);
        if (!ids) {
            return -(int)e->code;
        }
        find(s, ids, text, by, e);
        json_decref(ids);
        if (by[0]) {
            return 0;
        }
        if (e->code) {
            return -(int)e->code;
        }
    }
    return find_sweep(s, text, by, e);
}
