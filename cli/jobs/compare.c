/* `evenstep compare ID ID …`: in which settings jobs differ, and their results. A column is a job,
 * a row a setting (as a JSON pointer into the spec) or a figure. */
#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "cli/table.h"
#include "common/text/terminal.h"
#include "common/json/jsonx.h"

enum { JOBS_MOST = 12, POINTER_BYTES = 200 };

static const struct column figures[] = {
    {"state", "state", COLUMN_TEXT},
    {"epochs done", "progress.epoch", COLUMN_NUMBER},
    {"took", "", COLUMN_TOOK},
    {"trained for", "seconds", COLUMN_SECONDS},
    {"train loss", "metrics.train_loss", COLUMN_NUMBER},
    {"test loss", "metrics.test_loss", COLUMN_NUMBER},
    {"test accuracy", "metrics.test_accuracy", COLUMN_PERCENT},
    {"samples/s", "", COLUMN_RATE},
    {"step ms, last", "metrics.step_seconds", COLUMN_MS},
    {"staleness", "staleness.update_mean", COLUMN_NUMBER},
    COLUMNS_END,
};

/* ---- settings -------------------------------------------------------------------------------- */

/* All leaves of a spec, by JSON pointer; arrays are leaves. */
static void flatten(const json_t *at, const char *pointer, json_t *out)
{
    const char *key;
    json_t *value;
    if (!json_is_object(at)) {
        json_object_set(out, pointer, (json_t *)at);
        return;
    }
    json_object_foreach((json_t *)at, key, value) {
        char below[POINTER_BYTES];
        flatten(value, jsonx_join(below, sizeof below, pointer, key), out);
    }
}

/* The value that each job has at a pointer, null where it has none. */
static json_t *values_at(const json_t *flat, const char *pointer)
{
    json_t *values = json_array(), *one;
    size_t i;
    json_array_foreach((json_t *)flat, i, one) {
        json_t *value = json_object_get(one, pointer);
        json_array_append(values, value ? value : json_null());
    }
    return values;
}

static bool are_equal(const json_t *values)
{
    for (size_t i = 1; i < json_array_size(values); i++) {
        if (!json_equal(json_array_get(values, 0), json_array_get(values, i))) {
            return false;
        }
    }
    return true;
}

/* [{"pointer", "values"}] of the settings that are not the same everywhere. */
static json_t *differences(const json_t *jobs)
{
    json_t *flat = json_array(), *all = json_object(), *out = json_array(), *job, *value;
    size_t i;
    const char *pointer;
    json_array_foreach((json_t *)jobs, i, job) {
        json_t *one = json_object();
        flatten(json_object_get(job, "spec"), "", one);
        json_object_del(one, "/name"); /* the name is shown in any case */
        json_object_update(all, one);
        json_array_append_new(flat, one);
    }
    json_object_foreach(all, pointer, value) {
        json_t *values = values_at(flat, pointer);
        if (!are_equal(values)) {
            json_array_append_new(out,
                                  json_pack("{s:s, s:O}", "pointer", pointer, "values", values));
        }
        json_decref(values);
    }
    json_decref(all);
    json_decref(flat);
    return out;
}

/* ---- table ----------------------------------------------------------------------------------- */

static void add_settings(struct table *t, const json_t *list)
{
    char text[COLUMN_BYTES_MOST];
    size_t i, k;
    json_t *one, *value;
    json_array_foreach((json_t *)list, i, one) {
        table_cell(t, jsonx_string_at(one, "pointer"));
        json_array_foreach(json_object_get(one, "values"), k, value) {
            table_cell(t, column_text(text, value, "", COLUMN_TEXT));
        }
    }
}

static void add_figures(struct table *t, const json_t *jobs)
{
    char text[COLUMN_BYTES_MOST];
    size_t k;
    json_t *job;
    for (const struct column *c = figures; c->title; c++) {
        table_cell(t, c->title);
        json_array_foreach((json_t *)jobs, k, job) {
            table_cell(t, column_text(text, job, c->path, c->kind));
        }
    }
}

static void print_comparison(const json_t *answer)
{
    const json_t *jobs = json_object_get(answer, "jobs");
    struct table_head heads[TABLE_COLUMNS] = {{"", TABLE_TEXT}};
    struct table t;
    size_t i;
    json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        heads[i + 1] = (struct table_head){jsonx_string_at(job, "id"), TABLE_TEXT};
    }
    table_init(&t, heads, (int)json_array_size(jobs) + 1);
    table_cell(&t, "/name");
    json_array_foreach((json_t *)jobs, i, job) {
        table_cell(&t, jsonx_string_at(job, "name"));
    }
    add_settings(&t, json_object_get(answer, "differences"));
    add_figures(&t, jobs);
    table_print(&t, "", terminal_width(stdout), stdout);
    table_release(&t);
}

int command_compare(struct session *s)
{
    char path[256];
    json_t *jobs = json_array();
    for (int i = 0; session_argument(s, i) && s->err.code == ERR_NONE; i++) {
        if (i == JOBS_MOST) {
            err_set(&s->err, ERR_INVALID, "at most %d jobs can be compared", JOBS_MOST);
        } else if (job_path(s, session_argument(s, i), "", path) == 0) {
            json_array_append_new(jobs, client_call(&s->client, "GET", path, NULL, &s->err));
        }
    }
    if (s->err.code == ERR_NONE) {
        json_t *list = differences(jobs);
        session_print(s, json_pack("{s:O, s:o}", "jobs", jobs, "differences", list),
                      print_comparison);
    }
    json_decref(jobs);
    return -(int)s->err.code;
}
