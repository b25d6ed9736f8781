/* The one table of routes, and finding a request's line in it; see routes.h. Patterns that end in
 * "/" and a star match every path below and are tried only when nothing else matches, so that the
 * dashboard's files never hide a route. A path that is known under other methods is 405, not 404,
 * and the answer lists them.
 */
#include "http/routes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "http/api/api.h"
#include "http/api/job_query.h"
#include "http/openapi/schemas.h"
#include "job/tags.h"

#define FORMAT_PARAM                                                  \
    {                                                                 \
        "format", ROUTE_STRING, 0, 0, "json|csv",                     \
            "the answer's type; without it what Accept prefers", NULL \
    }

static const struct route_param submit_params[] = {
    {"dryRun", ROUTE_BOOL, 0, 0, NULL,
     "only checks the spec and says where it would run; nothing is queued, the answer is 200",
     NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param list_params[] = {
    {"state", ROUTE_WORDS, 0, 0, SCHEMA_JOB_STATES,
     "only jobs in this state, or in one of several, separated by commas", NULL},
    {"fields", ROUTE_WORDS, 0, 0, NULL,
     "only these keys of each job, separated by commas, and its id; without it all", NULL},
    {"q", ROUTE_STRING, 0, 0, NULL,
     "only jobs whose name contains this, or whose id begins with it", NULL},
    {"tag", ROUTE_WORDS, 0, 0, TAG_PATTERN, "only jobs that have all of these tags", NULL},
    {"owner", ROUTE_STRING, 0, 0, NULL, "only jobs of this owner", NULL},
    {"where", ROUTE_STRING, 0, 0, NULL,
     "only jobs for which all of these conditions hold, separated by commas: PATH, one of = != >= "
     "<= > <, VALUE, as in spec.strategy.type=sync,metrics.best_test_accuracy>=0.98; a path is of "
     "keys of the job's document with dots between, and one that a job lacks, or that is null, "
     "fulfils none",
     job_query_check_conditions},
    {"sort", ROUTE_STRING, 0, 0, NULL,
     "order: created, -created (the newest first, which is usual), priority (the highest first), "
     "name, or a path as in where; with a - before it the greatest come first; jobs without that "
     "value come last",
     job_query_check_order},
    {"cursor", ROUTE_STRING, 0, 0, NULL, "`next` of the page before", NULL},
    {"limit", ROUTE_INT, 1, 500, NULL, "jobs on a page; 50 by default", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param sweep_params[] = {
    {"dryRun", ROUTE_BOOL, 0, 0, NULL,
     "only checks the sweep and says which trials it would have; nothing is started, the answer is "
     "200",
     NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param sweeps_params[] = {
    {"limit", ROUTE_INT, 1, 500, NULL, "at most so many; 100 by default", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param series_params[] = {
    {"names", ROUTE_STRING, 0, 0, NULL,
     "names of series, separated by commas, or all; train_loss by default", NULL},
    {"x", ROUTE_STRING, 0, 0, "step|samples|time",
     "the axis; step by default, time is in seconds since the job's start", NULL},
    {"from", ROUTE_REAL, -1e15, 1e15, NULL, "only points from here on, in units of x", NULL},
    {"to", ROUTE_REAL, -1e15, 1e15, NULL, "only points up to here, in units of x", NULL},
    {"points", ROUTE_INT, 1, 20000, NULL, "at most so many buckets for each series; 600 by default",
     NULL},
    {"node_points", ROUTE_INT, 1, 1000000, NULL,
     "of each name at most so many buckets over all nodes together, but 8 of each node; no limit "
     "by default",
     NULL},
    FORMAT_PARAM,
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param load_params[] = {
    {"seconds", ROUTE_INT, 1, 604800, NULL, "only the last so many seconds; 1800 by default", NULL},
    FORMAT_PARAM,
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param norms_params[] = {
    {"points", ROUTE_INT, 1, 20000, NULL, "at most so many buckets; 200 by default", NULL},
    FORMAT_PARAM,
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param logged_params[] = {
    {"points", ROUTE_INT, 1, 20000, NULL, "at most so many buckets a metric; 600 by default", NULL},
    {"by", ROUTE_STRING, 0, 0, "step|epoch|time", "what from and to are; step by default", NULL},
    {"from", ROUTE_REAL, -1e15, 1e15, NULL, "only points from here on", NULL},
    {"to", ROUTE_REAL, -1e15, 1e15, NULL, "only points up to here", NULL},
    FORMAT_PARAM,
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param steps_params[] = {
    {"last", ROUTE_INT, 1, 10000, NULL, "rows of each rank; 50 by default", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param logs_params[] = {
    {"rank", ROUTE_INT, 0, 4095, NULL,
     "the rank whose log it is; without it the launcher's own words", NULL},
    {"all", ROUTE_BOOL, 0, 0, NULL,
     "all logs in one answer, each line with its log in front: launcher, rank-0, rank-1, …", NULL},
    {"tail", ROUTE_INT, 1, 100000, NULL, "only the last so many lines", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param dataset_params[] = {
    {"path", ROUTE_STRING, 0, 0, NULL, "the data set, as the list has it", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param upload_params[] = {
    {"name", ROUTE_STRING, 0, 0, NULL, "its name, as the path of a job's data", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param table_params[] = {
    FORMAT_PARAM,
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param events_params[] = {
    {"job", ROUTE_STRING, 0, 0, NULL, "only events of this job", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};

static const struct route_param audit_params[] = {
    {"who", ROUTE_STRING, 0, 0, NULL, "only changes by tokens with this name", NULL},
    {"since", ROUTE_STRING, 0, 0, NULL,
     "only entries from this time on: 2026-01-02T03:04:05Z, or a beginning of it", NULL},
    {"cursor", ROUTE_STRING, 0, 0, NULL, "`next` of the page before", NULL},
    {"limit", ROUTE_INT, 1, 500, NULL, "entries on a page; 50 by default", NULL},
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};
static const struct route_param accounting_params[] = {
    {"by", ROUTE_STRING, 0, 0, "owner|job|day", "what the rows are; owner by default", NULL},
    {"since", ROUTE_STRING, 0, 0, NULL,
     "the first day (UTC), as 2026-01-02; 29 days before `until` by default", NULL},
    {"until", ROUTE_STRING, 0, 0, NULL, "the last day; today by default", NULL},
    {"owner", ROUTE_STRING, 0, 0, NULL,
     "only what this owner's jobs used; for others than admins always their own", NULL},
    FORMAT_PARAM,
    {NULL, ROUTE_STRING, 0, 0, NULL, NULL, NULL},
};

#define V1 "/api/v1/"

/* clang-format off */
const struct route routes[] = {
    {"GET", V1 "jobs", ROLE_VIEWER, api_jobs_list, "Lists jobs, a page at a time.", list_params, NULL, 200, "JobList", ROUTE_SHARED},
    {"POST", V1 "jobs", ROLE_OPERATOR, api_jobs_submit, "Submits a job. With an Idempotency-Key header a repeated request gives the job that the first one made.", submit_params, "JobSpec", 201, "Job", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}", ROLE_VIEWER, api_job_get, "Shows a job: spec, state, progress, metrics, staleness, workers.", NULL, NULL, 200, "Job", ROUTE_SHARED},
    {"PATCH", V1 "jobs/{id}", ROLE_OPERATOR, api_job_patch, "Changes a job's priority, tags or note; 409 for the priority of one that has ended.", NULL, "JobPatch", 200, "Job", ROUTE_WAITS},
    {"DELETE", V1 "jobs/{id}", ROLE_OPERATOR, api_job_delete, "Deletes a job that has ended, with its files; 409 if it has not.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"POST", V1 "jobs/{id}/cancel", ROLE_OPERATOR, api_job_cancel, "Asks a job to end.", NULL, NULL, 200, "Job", ROUTE_WAITS},
    {"POST", V1 "jobs/{id}/pause", ROLE_OPERATOR, api_job_pause, "Asks a running job to write a checkpoint and to give its nodes back.", NULL, NULL, 200, "Job", ROUTE_WAITS},
    {"POST", V1 "jobs/{id}/resume", ROLE_OPERATOR, api_job_resume, "Queues a paused job again.", NULL, NULL, 200, "Job", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/series", ROLE_VIEWER, api_job_series, "Gives curves for charts: least, greatest and mean of each bucket.", series_params, NULL, 200, "Curves|text/csv", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/norms", ROLE_VIEWER, api_job_norms, "Gives the lengths of the model's tensors and of their gradients over time.", norms_params, NULL, 200, "Norms|text/csv", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/logged", ROLE_VIEWER, api_job_logged, "Gives the metrics that a user's program logged.", logged_params, NULL, 200, "LoggedMetrics|text/csv", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/steps", ROLE_VIEWER, api_job_steps, "Gives the last rows of every rank, for the timeline.", steps_params, NULL, 200, "Steps", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/workers", ROLE_VIEWER, api_job_workers, "Lists a job's workers and servers.", NULL, NULL, 200, "WorkerList", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/staleness", ROLE_VIEWER, api_job_staleness, "Gives each node's staleness: mean, percentiles, histogram.", NULL, NULL, 200, "Staleness", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/assignments", ROLE_VIEWER, api_job_assignments, "Lists the assignments of minibatches with their reasons, oldest first.", NULL, NULL, 200, "AssignmentList", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/evaluations", ROLE_VIEWER, api_job_evaluations, "Lists the results on the test set, oldest first.", table_params, NULL, 200, "EvaluationList|text/csv", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/confusion", ROLE_VIEWER, api_job_confusion, "Evaluates the job's model on its test set, once, and gives the confusion matrix and the samples with the greatest loss.", NULL, NULL, 200, "Scored", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/logs", ROLE_VIEWER, api_job_logs, "Gives a log as text; a Range header reads on from where one was. With all, every log: the last lines of each.", logs_params, NULL, 200, "text/plain", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/artifacts", ROLE_VIEWER, api_job_artifacts, "Lists a job's artifacts.", NULL, NULL, 200, "ArtifactList", ROUTE_WAITS},
    {"GET", V1 "jobs/{id}/artifacts/{name}", ROLE_VIEWER, api_job_artifact, "Downloads an artifact, by its name as the list has it, a slash as it is or as %2F; Range and If-None-Match are honoured.", NULL, NULL, 200, "application/octet-stream", ROUTE_FILES},
    {"GET", V1 "sweeps", ROLE_VIEWER, api_sweeps_list, "Lists sweeps, the newest first.", sweeps_params, NULL, 200, "SweepList", ROUTE_WAITS},
    {"POST", V1 "sweeps", ROLE_OPERATOR, api_sweep_start, "Starts a sweep: one job spec, tried with several settings within a budget. With an Idempotency-Key header a repeated request gives the sweep that the first one made.", sweep_params, "SweepStart", 201, "Sweep", ROUTE_WAITS},
    {"GET", V1 "sweeps/{id}", ROLE_VIEWER, api_sweep_get, "Shows a sweep: its trials with their settings, jobs and metric, and the best so far.", NULL, NULL, 200, "Sweep", ROUTE_WAITS},
    {"DELETE", V1 "sweeps/{id}", ROLE_OPERATOR, api_sweep_delete, "Deletes a sweep that has ended, 409 if it has not; its jobs stay.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"POST", V1 "sweeps/{id}/cancel", ROLE_OPERATOR, api_sweep_cancel, "Asks a sweep to end, with all its jobs.", NULL, NULL, 200, "Sweep", ROUTE_WAITS},
    {"GET", V1 "nodes", ROLE_VIEWER, api_nodes_list, "Lists nodes with their state.", NULL, NULL, 200, "NodeList", ROUTE_WAITS},
    {"GET", V1 "nodes/{name}", ROLE_VIEWER, api_node_get, "Shows a node.", NULL, NULL, 200, "Node", ROUTE_WAITS},
    {"GET", V1 "nodes/{name}/load", ROLE_VIEWER, api_node_load, "Gives how busy a node was: processors, memory, network and GPU of its host over the last week.", load_params, NULL, 200, "NodeLoad|text/csv", ROUTE_WAITS},
    {"DELETE", V1 "nodes/{name}", ROLE_OPERATOR, api_node_delete, "Forgets a node that is lost; 409 while it reports.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"POST", V1 "nodes/{name}/drain", ROLE_OPERATOR, api_node_drain, "Gives a node no further job; the one it has goes on.", NULL, NULL, 200, "Node", ROUTE_WAITS},
    {"POST", V1 "nodes/{name}/enable", ROLE_OPERATOR, api_node_enable, "Takes back drain and disable.", NULL, NULL, 200, "Node", ROUTE_WAITS},
    {"POST", V1 "nodes/{name}/disable", ROLE_OPERATOR, api_node_disable, "Takes a node out of use.", NULL, NULL, 200, "Node", ROUTE_WAITS},
    {"GET", V1 "catalog", ROLE_VIEWER, api_catalog, "Gives everything a job can name, with parameters and ranges; the submit form is made of it.", NULL, NULL, 200, "Catalog", ROUTE_QUICK},
    {"GET", V1 "datasets", ROLE_VIEWER, api_datasets, "Lists the data sets that were found.", NULL, NULL, 200, "DatasetList", ROUTE_WAITS},
    {"GET", V1 "datasets/samples", ROLE_VIEWER, api_dataset, "Shows a data set: how many samples each class has, and 16 of them, with pictures where they are pictures.", dataset_params, NULL, 200, "DatasetShown", ROUTE_WAITS},
    {"POST", V1 "datasets", ROLE_OPERATOR, api_dataset_upload, "Uploads a data set as a tar archive of its folder, at most 1 GiB, and reads it once; 422 says what is wrong with it.", upload_params, "application/octet-stream", 201, "UploadedDataset", ROUTE_UPLOADS_DATA},
    {"DELETE", V1 "datasets/{name}", ROLE_OPERATOR, api_dataset_delete, "Deletes an uploaded data set; 409 while a job that has not ended uses it.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"GET", V1 "programs", ROLE_VIEWER, api_programs_list, "Lists the programs that jobs can name: those that an operator put there, and those that were uploaded.", NULL, NULL, 200, "ProgramList", ROUTE_WAITS},
    {"POST", V1 "programs", ROLE_PROGRAMS, api_program_upload, "Uploads a program's folder as a tar archive, at most 64 MiB; needs `serve --allow-programs`.", NULL, "application/octet-stream", 201, "Program", ROUTE_UPLOADS},
    {"GET", V1 "programs/{name}", ROLE_VIEWER, api_program_get, "Shows a program, by digest or by name.", NULL, NULL, 200, "Program", ROUTE_WAITS},
    {"DELETE", V1 "programs/{name}", ROLE_PROGRAMS, api_program_delete, "Deletes an uploaded program; 409 while a job that has not ended uses it.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"GET", V1 "events", ROLE_VIEWER, api_events, "Streams events (SSE); Last-Event-ID resumes, `gap` says that some were lost, a comment comes every 15 s.", events_params, NULL, 200, "text/event-stream", ROUTE_WAITS},
    {"GET", V1 "session", ROLE_VIEWER, api_session_get, "Says who asks.", NULL, NULL, 200, "Session", ROUTE_QUICK},
    {"POST", V1 "session", ROLE_NONE, api_session_start, "Changes a token or the code of a link (which is used up) for a session cookie.", NULL, "SessionStart", 201, "Session", ROUTE_WAITS},
    {"DELETE", V1 "session", ROLE_NONE, api_session_end, "Ends the session of the cookie.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"POST", V1 "link", ROLE_ADMIN, api_link, "Makes an address for a browser, with a code for one use within 24 hours.", NULL, "LinkStart", 201, "Link", ROUTE_WAITS},
    {"GET", V1 "tokens", ROLE_ADMIN, api_tokens_list, "Lists the tokens that there are: lines of the token file, and those that were issued. None is shown itself.", NULL, NULL, 200, "TokenList", ROUTE_WAITS},
    {"POST", V1 "tokens", ROLE_ADMIN, api_token_make, "Issues a token. The answer is the only one that has it.", NULL, "TokenStart", 201, "TokenMade", ROUTE_WAITS},
    {"DELETE", V1 "tokens/{id}", ROLE_ADMIN, api_token_revoke, "Revokes a token that was issued, with its sessions and links; 409 for a line of the token file.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"GET", V1 "disk", ROLE_VIEWER, api_disk, "Says how full the disk of the data folder is, and what could go.", NULL, NULL, 200, "Disk", ROUTE_QUICK},
    {"GET", V1 "owners", ROLE_VIEWER, api_owners, "Lists the owners of jobs: what they have, and what they may have.", NULL, NULL, 200, "OwnerList", ROUTE_WAITS},
    {"GET", V1 "webhooks", ROLE_OPERATOR, api_webhooks_list, "Lists webhooks, with what waits for them and what became of the last deliveries: one's own, an admin everybody's.", NULL, NULL, 200, "WebhookList", ROUTE_WAITS},
    {"POST", V1 "webhooks", ROLE_OPERATOR, api_webhook_make, "Has an address told when a job comes into one of these states. The answer is the only one that has the secret.", NULL, "WebhookStart", 201, "WebhookMade", ROUTE_WAITS},
    {"GET", V1 "webhooks/{id}", ROLE_OPERATOR, api_webhook_get, "Shows a webhook.", NULL, NULL, 200, "Webhook", ROUTE_WAITS},
    {"DELETE", V1 "webhooks/{id}", ROLE_OPERATOR, api_webhook_delete, "Deletes a webhook, with what still waits for it.", NULL, NULL, 204, NULL, ROUTE_WAITS},
    {"GET", V1 "accounting", ROLE_VIEWER, api_accounting, "Lists node-hours by owner, job or day; admins see all, others their own.", accounting_params, NULL, 200, "Usage|text/csv", ROUTE_WAITS},
    {"GET", V1 "audit", ROLE_ADMIN, api_audit, "Lists who changed what, from where, and what the answer was, newest first.", audit_params, NULL, 200, "Audit", ROUTE_WAITS},
    {"GET", "/metrics", ROLE_VIEWER, api_metrics, "Gives figures of service, nodes and running jobs for Prometheus.", NULL, NULL, 200, "text/plain", ROUTE_WAITS},
    {"GET", "/healthz", ROLE_NONE, api_healthz, "Answers while the process serves requests.", NULL, NULL, 200, "Health", ROUTE_QUICK},
    {"GET", "/readyz", ROLE_NONE, api_readyz, "Answers 200 while the store can be reached, else 503.", NULL, NULL, 200, "Health", ROUTE_WAITS},
    {"GET", "/openapi.json", ROLE_NONE, api_openapi, "This description, as OpenAPI 3.1.", NULL, NULL, 200, "OpenApi", ROUTE_QUICK},
    {"GET", "/vendor/*", ROLE_NONE, api_vendor, "Files of the chart library (dygraphs, as the distribution installs it).", NULL, NULL, 200, "*/*", ROUTE_QUICK},
    {"GET", "/*", ROLE_NONE, api_static, "Files of the dashboard; / is index.html.", NULL, NULL, 200, "*/*", ROUTE_QUICK},
    {NULL, NULL, ROLE_NONE, NULL, NULL, NULL, NULL, 0, NULL, ROUTE_WAITS},
};
/* clang-format on */

int routes_count(void)
{
    return (int)(sizeof(routes) / sizeof(*routes)) - 1;
}

/* Does `path` match? Fills in the values of the names in braces. */
static bool fits(const struct route *r, const char *path, struct route_match *out)
{
    const char *pattern = r->pattern;
    int n = 0;
    while (*pattern && *path) {
        if (*pattern != '{') {
            if (*pattern++ != *path++) {
                return false;
            }
            continue;
        }
        bool rest = r->way == ROUTE_FILES && pattern[strcspn(pattern, "}") + 1] == '\0';
        size_t len = rest ? strlen(path) : strcspn(path, "/");
        if (len == 0 || len >= ROUTE_ARG_BYTES || n == ROUTE_ARGS) {
            return false;
        }
        memcpy(out->args[n], path, len);
        out->args[n++][len] = '\0';
        path += len;
        pattern += strcspn(pattern, "}") + 1;
    }
    return !*pattern && !*path;
}

bool routes_take_slash(const char *path, size_t n)
{
    char before[2 * ROUTE_ARG_BYTES]; /* id and name, with the text around them */
    struct route_match args;
    if (n >= sizeof(before)) {
        return false;
    }
    memcpy(before, path, n);
    before[n] = '\0';
    const struct route *r = routes;
    while (r->method && (r->way != ROUTE_FILES || !fits(r, before, &args))) {
        r++;
    }
    return r->method != NULL;
}

static bool fits_below(const char *pattern, const char *path)
{
    size_t n = strlen(pattern);
    return n > 0 && pattern[n - 1] == '*' && strncmp(pattern, path, n - 1) == 0 &&
           strncmp(path, "/api/", 5) != 0;
}

static void allow(struct route_match *out, const char *method)
{
    size_t n = strlen(out->allow);
    snprintf(out->allow + n, sizeof(out->allow) - n, "%s%s", n ? ", " : "", method);
    if (strcmp(method, "GET") == 0) {
        allow(out, "HEAD");
    }
}

/* Has a route this path word for word? `method` NULL: any. */
static bool is_literal(const char *path, const char *method)
{
    const struct route *r = routes;
    while (r->method && (strcmp(r->pattern, path) != 0 || (method && strcmp(r->method, method)))) {
        r++;
    }
    return r->method != NULL;
}

/* Does a literal route hide this pattern? A path that a route has word for word is no name in
 * another route's pattern. The pattern still matches for a method that no literal route has: DELETE
 * of "samples" answers that there is none. */
static bool hides(const char *path, const char *wanted, const struct route *r)
{
    return is_literal(path, NULL) && strcmp(r->pattern, path) != 0 &&
           (is_literal(path, wanted) || strcmp(r->method, wanted) != 0);
}

void routes_find(const char *method, const char *path, struct route_match *out)
{
    memset(out, 0, sizeof(*out));
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (int pass = 0; pass < 2 && !out->known_path; pass++) {
        for (const struct route *r = routes; r->method && !out->route; r++) {
            struct route_match args;
            if (pass ? !fits_below(r->pattern, path) : !fits(r, path, &args)) {
                continue;
            }
            if (hides(path, wanted, r)) {
                continue;
            }
            out->known_path = true;
            if (pass == 0) {
                memcpy(out->args, args.args, sizeof(out->args));
            }
            if (strcmp(r->method, wanted) == 0) {
                out->route = r;
            } else if (!strstr(out->allow, r->method)) {
                allow(out, r->method);
            }
        }
    }
    if (out->known_path && !out->route) {
        allow(out, "OPTIONS");
    }
}
