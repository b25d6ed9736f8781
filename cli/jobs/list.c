/* `evenstep jobs`: the newest jobs first. Frequent searches have options of their own, which become
 * conditions like those of --where.
 */
#include <string.h>

#include "cli/jobs/jobs.h"
#include "common/json/jsonx.h"

enum { PAGE = 100 };

const struct opt jobs_options[] = {
    {"state", "STATES", OPT_STRING, NULL, 0, 0,
     "only jobs in one of these states: queued, launching, running, pausing, paused, cancelling, "
     "cancelled, succeeded, failed; with commas between"},
    {"search", "TEXT", OPT_STRING, NULL, 0, 0,
     "only jobs whose name contains this, or whose id begins with it"},
    {"tag", "TAGS", OPT_STRING, NULL, 0, 0, "only jobs that have all of these tags: a,b"},
    {"owner", "NAME", OPT_STRING, NULL, 0, 0, "only jobs of this owner; me: one's own"},
    {"strategy", "STRATEGY", OPT_STRING, NULL, 0, 0, "only jobs of this strategy"},
    {"model", "NAME", OPT_STRING, NULL, 0, 0, "only jobs that train this network"},
    {"data-set", "PATH", OPT_STRING, NULL, 0, 0, "only jobs of this data set"},
    {"accuracy", "A", OPT_REAL, NULL, 0, 1, "only jobs whose best test accuracy is at least this"},
    {"where", "CONDITIONS", OPT_STRING, NULL, 0, 0,
     "only jobs for which these hold: spec.seed=1,metrics.test_loss<0.2"},
    {"sort", "ORDER", OPT_STRING, "-created", 0, 0,
     "-created (the newest first), created, priority, name, or a path such as "
     "-metrics.best_test_accuracy (the greatest first)"},
    {"limit", "N", OPT_INT, "100", 1, 100000, "so many at most"},
    {"quiet", NULL, OPT_FLAG, NULL, 0, 0, "prints ids alone (-q)"},
    {0},
};

static const struct column columns[] = {
    {"id", "id", COLUMN_WHOLE},
    {"name", "name", COLUMN_TEXT},
    {"state", "state", COLUMN_WHOLE},
    {"done", "progress.fraction", COLUMN_PERCENT},
    {"accuracy", "metrics.test_accuracy", COLUMN_PERCENT},
    {"tags", "tags", COLUMN_WORDS},
    {"created", "created", COLUMN_TIME},
    {"owner", "owner", COLUMN_TEXT},
    COLUMNS_END,
};
enum { OWNER = sizeof columns / sizeof *columns - 2 };

/* Prints the table, with owners if there are any. */
static void print_table(const json_t *answer)
{
    struct column shown[sizeof columns / sizeof *columns];
    const json_t *jobs = json_object_get(answer, "jobs");
    bool owned = false;
    json_t *job;
    size_t i;
    json_array_foreach(jobs, i, job) {
        owned |= json_is_string(json_object_get(job, "owner"));
    }
    memcpy(shown, columns, sizeof columns);
    if (!owned) {
        shown[OWNER] = columns[OWNER + 1];
    }
    columns_print(jobs, shown, "", stdout);
}

static void print_ids(const json_t *answer)
{
    columns_lines(json_object_get(answer, "jobs"), "id", "", stdout);
}

/* Writes the conditions of all options, separated by commas. */
static void conditions(const struct session *s, struct buf *out)
{
    static const char *const options[][2] = {{"where", ""},
                                             {"strategy", "spec.strategy.type="},
                                             {"model", "spec.model="},
                                             {"data-set", "spec.data.path="}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *value = opt_string(s->options, options[i][0]);
        if (value) {
            buf_addf(out, "%s%s%s", out->len ? "," : "", options[i][1], value);
        }
    }
    if (opt_given(s->options, "accuracy")) {
        buf_addf(out, "%smetrics.best_test_accuracy>=%.15g", out->len ? "," : "",
                 opt_real(s->options, "accuracy"));
    }
}

/* The address of a page: the search, the number of jobs, and where the last page ended. */
static void path_of(const struct session *s, long limit, const char *cursor, struct buf *out)
{
    static const char *const asked[][2] = {
        {"state", "state"}, {"search", "q"}, {"sort", "sort"}, {"tag", "tag"}};
    struct buf where;
    client_address(&where);
    buf_addf(out, "/api/v1/jobs?limit=%ld", limit);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        if (opt_given(s->options, asked[i][0])) {
            client_add_param(out, asked[i][1], opt_string(s->options, asked[i][0]));
        }
    }
    client_add_param(out, "owner", s->owner[0] ? s->owner : NULL);
    conditions(s, &where);
    client_add_param(out, "where", where.data);
    client_add_param(out, "cursor", cursor);
    buf_release(&where);
}

/* Reads the owner whose jobs are wanted into s->owner. "me" is the sender, whose name the service
 * knows. */
static int read_owner(struct session *s)
{
    const char *owner = opt_string(s->options, "owner");
    bool me = owner && strcmp(owner, "me") == 0;
    json_t *who = me ? client_call(&s->client, "GET", "/api/v1/session", NULL, &s->err) : NULL;
    snprintf(s->owner, sizeof s->owner, "%s",
             who     ? jsonx_string_at(who, "owner")
             : owner ? owner
                     : "");
    json_decref(who);
    return -(int)s->err.code;
}

int command_jobs(struct session *s)
{
    if (read_owner(s) < 0) {
        return -(int)s->err.code;
    }
    json_t *next = NULL,
           *jobs = session_pages(s, "jobs", opt_int(s->options, "limit"), PAGE, path_of, &next);
    return session_print(s, jobs ? json_pack("{s:o, s:o}", "jobs", jobs, "next", next) : NULL,
                         opt_flag(s->options, "quiet") ? print_ids : print_table);
}
