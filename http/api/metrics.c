/* GET /metrics in Prometheus' text form: the service, its nodes, and the jobs that run. Names and
 * units are listed in docs/metrics.md, which a test compares with this file. Label values are
 * escaped: names of jobs are a user's text.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json/jsonx.h"
#include "common/version.h"
#include "http/api/api.h"
#include "http/events/histogram.h"
#include "http/events/stream.h"
#include "http/events/tally.h"
#include "http/request/request.h"
#include "job/node/node.h"

enum { METRICS_BYTES = 8 << 20, JOBS_MOST = 200 };

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void label(struct buf *b, const char *name, const char *value)
{
    buf_addf(b, "%s%s=\"", b->data[b->len - 1] == '{' ? "" : ",", name);
    for (; value && *value; value++) {
        if (*value == '\n') {
            buf_adds(b, "\\n");
        } else {
            buf_addf(b, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
        }
    }
    buf_adds(b, "\"");
}

static void one(struct buf *b, const char *name, double value)
{
    buf_addf(b, "%s %.15g\n", name, value);
}

/* ---- the service ----------------------------------------------------------------------------- */

static void add_service(struct buf *b, struct http_server *s)
{
    head(b, "evenstep_uptime_seconds", "gauge", "Seconds since the HTTP server started.");
    one(b, "evenstep_uptime_seconds", clock_now() - s->started);
    head(b, "evenstep_http_answers_total", "counter", "Answers by class of their status.");
    for (int i = 1; i <= 5; i++) {
        buf_addf(b, "evenstep_http_answers_total{class=\"%dxx\"} %ld\n", i,
                 atomic_load(&s->answers[i]));
    }
    head(b, "evenstep_event_clients", "gauge", "Open event streams.");
    one(b, "evenstep_event_clients", stream_clients(s->stream));
    head(b, "evenstep_events_total", "counter", "Events read from the store and sent on.");
    one(b, "evenstep_events_total", (double)stream_events(s->stream));
}

/* How long answers take; an event stream counts until it is open. */
static void add_timings(struct buf *b, struct http_server *s)
{
    char labels[ROUTE_ARG_BYTES];
    head(b, "evenstep_http_request_seconds", "histogram",
         "Time from a request's header to its answer, by route.");
    const struct route *routes = s->routes;
    for (int i = 0; routes[i].method; i++) {
        if (histogram_count(&s->timings[i]) > 0) {
            snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\"", routes[i].method,
                     routes[i].pattern);
            histogram_print(&s->timings[i], b, "evenstep_http_request_seconds", labels);
        }
    }
}

/* Files of this process that are open. */
static long open_files(void)
{
    long n = -1; /* the folder itself */
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) {
        n++;
    }
    if (d) {
        closedir(d);
    }
    return n > 2 ? n - 2 : 0;
}

/* What Prometheus' own clients say of their process, under the same names. */
static void add_process(struct buf *b, struct http_server *s)
{
    struct rusage used;
    struct rlimit files = {0};
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f) {
        if (fscanf(f, "%ld %ld", &pages, &resident) != 2) {
            pages = resident = 0;
        }
        fclose(f);
    }
    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_NOFILE, &files);
    head(b, "process_cpu_seconds_total", "counter", "Time of processors that the service took.");
    one(b, "process_cpu_seconds_total",
        (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
            (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    head(b, "process_resident_memory_bytes", "gauge", "Memory of the service that is in use.");
    one(b, "process_resident_memory_bytes", (double)resident * (double)sysconf(_SC_PAGESIZE));
    head(b, "process_virtual_memory_bytes", "gauge", "Addresses of the service that are taken.");
    one(b, "process_virtual_memory_bytes", (double)pages * (double)sysconf(_SC_PAGESIZE));
    head(b, "process_open_fds", "gauge", "Files and sockets that are open.");
    one(b, "process_open_fds", (double)open_files());
    head(b, "process_max_fds", "gauge", "Files and sockets that may be open.");
    one(b, "process_max_fds", (double)files.rlim_cur);
    head(b, "process_start_time_seconds", "gauge", "When the HTTP server started, since 1970.");
    one(b, "process_start_time_seconds",
        (double)clock_wall_ms() / 1e3 - (clock_now() - s->started));
    head(b, "evenstep_build_info", "gauge", "1, with the version.");
    buf_addf(b, "evenstep_build_info{version=\"%s\"} 1\n", EVENSTEP_VERSION);
}

static void add_stats(struct buf *b, const json_t *stats)
{
    const char *state;
    json_t *count;
    head(b, "evenstep_jobs", "gauge", "Jobs by state.");
    json_object_foreach(json_object_get(stats, "jobs"), state, count) {
        buf_addf(b, "evenstep_jobs{state=\"%s\"} %lld\n", state,
                 (long long)json_integer_value(count));
    }
    head(b, "evenstep_store_memory_bytes", "gauge", "Memory that Redis uses.");
    one(b, "evenstep_store_memory_bytes",
        json_number_value(json_object_get(stats, "memory_bytes")));
    head(b, "evenstep_store_clients", "gauge", "Connections to Redis.");
    one(b, "evenstep_store_clients",
        json_number_value(json_object_get(stats, "connected_clients")));
}

static void add_refused(struct buf *b, const json_t *refused)
{
    const char *what;
    json_t *count;
    head(b, "evenstep_refused_total", "counter",
         "Joins and requests between hosts that were refused, by cause.");
    json_object_foreach((json_t *)(uintptr_t)refused, what, count) {
        buf_adds(b, "evenstep_refused_total{");
        label(b, "cause", what);
        buf_addf(b, "} %lld\n", (long long)json_integer_value(count));
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void add_nodes(struct buf *b, const json_t *nodes)
{
    size_t i;
    json_t *node;
    head(b, "evenstep_node_state", "gauge", "1 for the state that a node is in.");
    json_array_foreach(nodes, i, node) {
        buf_adds(b, "evenstep_node_state{");
        label(b, "node", node_name(node));
        label(b, "state", node_state(node));
        buf_adds(b, "} 1\n");
    }
    head(b, "evenstep_node_heartbeat_age_seconds", "gauge", "Seconds since a node last reported.");
    json_array_foreach(nodes, i, node) {
        buf_adds(b, "evenstep_node_heartbeat_age_seconds{");
        label(b, "node", node_name(node));
        buf_addf(b, "} %.3f\n", node_beat_age(node));
    }
}

/* GPUs, as their driver reports them; a node whose GPU reports nothing has no line. */
static const struct {
    const char *name, *key, *help;
} gpu_metrics[] = {
    {"evenstep_gpu_busy_ratio", "busy", "Share of the last second in which a node's GPU computed."},
    {"evenstep_gpu_memory_used_bytes", "memory_used_bytes",
     "Memory of a node's GPU that is taken."},
    {"evenstep_gpu_memory_bytes", "memory_bytes", "Memory of a node's GPU."},
    {"evenstep_gpu_celsius", "celsius", "Temperature of a node's GPU."},
    {"evenstep_gpu_watts", "watts", "Power that a node's GPU draws."},
};

static void add_gpus(struct buf *b, const json_t *nodes)
{
    size_t i;
    json_t *node;
    for (size_t m = 0; m < sizeof(gpu_metrics) / sizeof(*gpu_metrics); m++) {
        head(b, gpu_metrics[m].name, "gauge", gpu_metrics[m].help);
        json_array_foreach(nodes, i, node) {
            json_t *value = json_object_get(json_object_get(node, "gpu"), gpu_metrics[m].key);
            if (json_is_number(value)) {
                buf_addf(b, "%s{", gpu_metrics[m].name);
                label(b, "node", node_name(node));
                buf_addf(b, "} %.15g\n", json_number_value(value));
            }
        }
    }
}

/* ---- running jobs ---------------------------------------------------------------------------- */

static const struct job_metric {
    const char *name, *part, *key, *help;
} job_metrics[] = {
    {"evenstep_job_step", "progress", "step", "Updates of the model so far."},
    {"evenstep_job_samples", "progress", "samples", "Training samples so far."},
    {"evenstep_job_progress_ratio", "progress", "fraction", "Share of the epochs that is done."},
    {"evenstep_job_train_loss", "metrics", "train_loss",
     "Training loss over the last 100 updates."},
    {"evenstep_job_test_accuracy", "metrics", "test_accuracy", "Accuracy at the last evaluation."},
    {"evenstep_job_samples_per_second", "metrics", "samples_per_second", "Throughput."},
    {"evenstep_job_step_seconds", "metrics", "step_seconds", "Time of a step."},
    {"evenstep_job_staleness_mean", "staleness_recent", "update_mean",
     "Mean staleness of recent gradients, in versions."},
    {"evenstep_job_staleness_max", "staleness_recent", "max",
     "Greatest staleness of recent gradients, in versions."},
};
static const struct job_metric worker_metrics[] = {
    {"evenstep_worker_batch", NULL, "batch", "Minibatch of a worker."},
    {"evenstep_worker_samples_per_second", NULL, "samples_per_second", "Throughput of a worker."},
    {"evenstep_worker_load_seconds", NULL, "load_seconds",
     "Loading data in a step that computing did not hide."},
    {"evenstep_worker_compute_seconds", NULL, "compute_seconds", "Computing time of a step."},
    {"evenstep_worker_exchange_seconds", NULL, "exchange_seconds",
     "Exposed exchange time of a step."},
    {"evenstep_worker_wait_seconds", NULL, "wait_seconds", "Time a step waited for others."},
};

static void job_labels(struct buf *b, const char *metric, const json_t *job)
{
    buf_addf(b, "%s{", metric);
    label(b, "job", jsonx_string_at(job, "id"));
    label(b, "name", jsonx_string_at(job, "name"));
}

/* The newest values of what programs log. */
static void add_logged(struct buf *b, const json_t *jobs)
{
    size_t i;
    const char *name;
    json_t *job, *value;
    head(b, "evenstep_job_logged", "gauge", "Newest value of a metric that a program logs.");
    json_array_foreach(jobs, i, job) {
        json_object_foreach(json_object_get(job, "logged"), name, value) {
            if (json_is_number(value)) {
                job_labels(b, "evenstep_job_logged", job);
                label(b, "metric", name);
                buf_addf(b, "} %.15g\n", json_number_value(value));
            }
        }
    }
}

static void add_jobs(struct buf *b, const json_t *jobs)
{
    size_t i, k;
    json_t *job, *worker;
    for (size_t m = 0; m < sizeof(job_metrics) / sizeof(*job_metrics); m++) {
        head(b, job_metrics[m].name, "gauge", job_metrics[m].help);
        json_array_foreach(jobs, i, job) {
            json_t *value =
                json_object_get(json_object_get(job, job_metrics[m].part), job_metrics[m].key);
            if (json_is_number(value)) {
                job_labels(b, job_metrics[m].name, job);
                buf_addf(b, "} %.15g\n", json_number_value(value));
            }
        }
    }
    for (size_t m = 0; m < sizeof(worker_metrics) / sizeof(*worker_metrics); m++) {
        head(b, worker_metrics[m].name, "gauge", worker_metrics[m].help);
        json_array_foreach(jobs, i, job) {
            json_array_foreach(json_object_get(job, "workers"), k, worker) {
                job_labels(b, worker_metrics[m].name, job);
                label(b, "node", jsonx_string_at(worker, "node"));
                buf_addf(b, "} %.9g\n",
                         json_number_value(json_object_get(worker, worker_metrics[m].key)));
            }
        }
    }
}

int api_metrics(struct request *q, struct reply *out, struct err *e)
{
    struct buf b;
    struct err away;
    size_t n = 0;
    buf_init(&b, METRICS_BYTES);
    add_service(&b, q->server);
    add_timings(&b, q->server);
    add_process(&b, q->server);
    tally_print(q->server->tally, &b);
    struct store *store = request_store(q, &away);
    json_t *stats = store ? store_stats(store, &away) : NULL,
           *nodes = stats ? store_nodes(store, &away) : NULL;
    json_t *refused = nodes ? store_refused(store, &away) : NULL;
    json_t *list =
        refused ? store_job_list(store, "running", NULL, "-created", NULL, JOBS_MOST, &away) : NULL;
    head(&b, "evenstep_store_up", "gauge", "1 while the store can be reached.");
    one(&b, "evenstep_store_up", list != NULL);
    if (list) {
        add_stats(&b, stats);
        add_refused(&b, refused);
        add_nodes(&b, nodes);
        add_gpus(&b, nodes);
        add_jobs(&b, json_object_get(list, "jobs"));
        add_logged(&b, json_object_get(list, "jobs"));
    }
    json_decref(stats);
    json_decref(nodes);
    json_decref(refused);
    json_decref(list);
    char *text = buf_take(&b, &n);
    buf_release(&b);
    return reply_set_text(out, 200, "text/plain; version=0.0.4; charset=utf-8", text, n, e);
}
