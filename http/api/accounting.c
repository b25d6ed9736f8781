/* GET /api/v1/accounting: node-hours by owner, job or day. A node counts from its claim to its
 * release, whatever the job did with it; see store/claims.c. Days are those of UTC.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "http/api/api.h"
#include "http/content/csv.h"
#include "http/request/request.h"

enum { DAY_SECONDS = 86400, DAYS_USUAL = 30, DAYS_MOST = 3660, DATE = 16 };

struct asked {
    const char *by;    /* "owner", "job" or "day" */
    const char *owner; /* NULL: all */
    int64_t first, last;
};

/* ---- what is asked --------------------------------------------------------------------------- */

static char *date_of(int64_t day, char out[DATE])
{
    char full[32];
    snprintf(out, DATE, "%.10s", clock_format(full, day * DAY_SECONDS * 1000));
    return out;
}

/* Reads "2026-01-02" as days since 1970. */
static bool read_date(const char *text, int64_t *day)
{
    struct tm tm = {0};
    char again[DATE];
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (!end || *end || strlen(text) != strlen("2026-01-02")) {
        return false;
    }
    *day = (int64_t)timegm(&tm) / DAY_SECONDS;
    return strcmp(date_of(*day, again), text) == 0; /* refuses the 31st of April */
}

static void read_day(struct request *q, const char *param, int64_t otherwise, int64_t *day)
{
    const char *text = request_param(q, param);
    *day = otherwise;
    if (text && !read_date(text, day)) {
        jsonx_problem(&q->problems, param, "'%.40s' is not a date such as 2026-01-02", text);
    }
}

static int read_asked(struct request *q, struct asked *a, struct err *e)
{
    const char *by = request_param(q, "by"), *owner = request_param(q, "owner");
    bool all = q->who.role >= ROLE_ADMIN;
    a->by = by ? by : "owner";
    a->owner = owner ? owner : all ? NULL : q->who.owner;
    read_day(q, "until", clock_wall_ms() / 1000 / DAY_SECONDS, &a->last);
    read_day(q, "since", a->last - DAYS_USUAL + 1, &a->first);
    if (q->problems.count == 0 && (a->first > a->last || a->last - a->first >= DAYS_MOST)) {
        jsonx_problem(&q->problems, "since",
                      "expected a date up to `until`, at most %d days before", DAYS_MOST - 1);
    }
    if (q->problems.count > 0) {
        return request_not_valid(q, "the query of this request", e);
    }
    if (!all && strcmp(a->owner, q->who.owner) != 0) {
        err_set(e, ERR_FORBIDDEN, "only '%.60s' and admins may see what '%.60s' used", a->owner,
                a->owner);
        return err_hint(e, "without owner= the answer is your own use");
    }
    return 0;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The row to which this use belongs. Borrowed from `rows`. */
static json_t *row_of(json_t *rows, const struct asked *a, const json_t *use)
{
    char key[80], date[DATE];
    bool by_job = strcmp(a->by, "job") == 0, by_day = strcmp(a->by, "day") == 0;
    date_of(json_integer_value(json_object_get(use, "day")), date);
    snprintf(key, sizeof(key), "%s",
             by_day ? date : jsonx_string_at(use, by_job ? "job" : "owner"));
    json_t *row = json_object_get(rows, key);
    if (!row) {
        const char *owner = jsonx_string_at(use, "owner");
        json_t *named = by_day || !*owner ? json_null() : json_string(owner);
        row = json_pack("{s:o, s:o, s:o, s:o, s:{}, s:I}", "owner", named, "job",
                        by_job ? json_incref(json_object_get(use, "job")) : json_null(), "name",
                        by_job ? json_incref(json_object_get(use, "name")) : json_null(), "day",
                        by_day ? json_string(date) : json_null(), "jobs", "ms", (json_int_t)0);
        json_object_set_new(rows, key, row);
    }
    return row;
}

static void add(json_t *row, const json_t *use)
{
    json_int_t before = json_integer_value(json_object_get(row, "ms")),
               more = json_integer_value(json_object_get(use, "ms"));
    json_object_set_new(row, "ms", json_integer(before + more));
    json_object_set_new(json_object_get(row, "jobs"), jsonx_string_at(use, "job"), json_true());
}

/* A row as it is sent: jobs counted, the sum in two units. */
static json_t *finish(json_t *row)
{
    double ms = (double)json_integer_value(json_object_get(row, "ms"));
    json_object_set_new(row, "jobs",
                        json_integer((json_int_t)json_object_size(json_object_get(row, "jobs"))));
    json_object_del(row, "ms");
    json_object_set_new(row, "node_seconds", json_real(ms / 1000));
    json_object_set_new(row, "node_hours", json_real(ms / 3600000));
    return json_incref(row);
}

static int by_use(const void *a, const void *b)
{
    double x = json_real_value(json_object_get(*(json_t *const *)a, "node_seconds")),
           y = json_real_value(json_object_get(*(json_t *const *)b, "node_seconds"));
    return x > y ? -1 : x < y;
}

static int by_day(const void *a, const void *b)
{
    return strcmp(jsonx_string_at(*(json_t *const *)a, "day"),
                  jsonx_string_at(*(json_t *const *)b, "day"));
}

/* The rows as a list: days in their order, else the greatest use first. NULL: memory ran out. */
static json_t *list_of(json_t *rows, const struct asked *a)
{
    size_t n = 0;
    json_t **sorted = calloc(json_object_size(rows) + 1, sizeof(*sorted)), *row,
           *list = sorted ? json_array() : NULL;
    const char *key;
    json_object_foreach(rows, key, row) {
        if (sorted) {
            sorted[n++] = finish(row);
        }
    }
    if (n > 1) {
        qsort(sorted, n, sizeof(*sorted), strcmp(a->by, "day") == 0 ? by_day : by_use);
    }
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, sorted[i]);
    }
    free(sorted);
    return list;
}

static json_t *sum_up(const json_t *uses, const struct asked *a)
{
    json_t *rows = json_object(), *use;
    char since[DATE], until[DATE];
    double ms = 0;
    size_t i;
    json_array_foreach((json_t *)uses, i, use) {
        if (!a->owner || strcmp(jsonx_string_at(use, "owner"), a->owner) == 0) {
            add(row_of(rows, a, use), use);
            ms += (double)json_integer_value(json_object_get(use, "ms"));
        }
    }
    json_t *list = list_of(rows, a);
    json_decref(rows);
    return list ? json_pack("{s:s, s:s, s:s, s:f, s:o}", "by", a->by, "since",
                            date_of(a->first, since), "until", date_of(a->last, until),
                            "node_hours", ms / 3600000, "accounting", list)
                : NULL;
}

int api_accounting(struct request *q, struct reply *out, struct err *e)
{
    struct asked a;
    if (read_asked(q, &a, e) < 0) {
        return -(int)e->code;
    }
    struct store *store = request_store(q, e);
    json_t *uses = store ? store_accounting(store, a.first, a.last, e) : NULL,
           *body = uses ? sum_up(uses, &a) : NULL;
    int rc = uses && !body
                 ? err_set(e, ERR_MEMORY, "cannot add up the use of nodes: memory ran out")
                 : -(int)e->code;
    json_decref(uses);
    if (!body) {
        return rc;
    }
    return request_wants_csv(q)
               ? csv_reply(out, csv_of_accounting(json_object_get(body, "accounting")), body, e)
               : reply_set_json(out, 200, body, e);
}
