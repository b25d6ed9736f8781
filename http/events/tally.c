/* Counting events; see tally.h. A job's wait is from the event that queued it to the one that
 * launched it; of the jobs that wait, the last WAITING_MOST are remembered.
 */
#include "http/events/tally.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/events/histogram.h"
#include "store/store.h"

enum { WAITING_MOST = 1024, WORDS_MOST = 32, WORD = 40 };

/* Counts by a word: a job's failures by code, changes of nodes. */
struct words {
    char names[WORDS_MOST][WORD];
    long counts[WORDS_MOST];
    int n;
};

struct tally {
    pthread_mutex_t lock; /* of everything but the histograms */
    long finished[JOB_STATE_COUNT];
    long restarts;
    struct words failures, nodes;
    struct waiting {
        char job[STORE_ID]; /* "": free */
        uint64_t since;
    } waiting[WAITING_MOST];
    int next_waiting; /* the entry that is taken next */
    struct histogram queue, step, staleness;
};

struct tally *tally_new(struct err *e)
{
    struct tally *t = calloc(1, sizeof(*t));
    if (!t) {
        err_set(e, ERR_MEMORY, "cannot count events: memory ran out");
        return NULL;
    }
    pthread_mutex_init(&t->lock, NULL);
    histogram_init(&t->queue, histogram_waits);
    histogram_init(&t->step, histogram_seconds);
    histogram_init(&t->staleness, histogram_counts);
    return t;
}

void tally_free(struct tally *t)
{
    if (t) {
        pthread_mutex_destroy(&t->lock);
        free(t);
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Counts a word. Codes and changes are ours and few; more than WORDS_MOST are not counted. */
static void count_word(struct words *w, const char *word)
{
    int i = 0;
    while (i < w->n && strcmp(w->names[i], word) != 0) {
        i++;
    }
    if (i == WORDS_MOST || strlen(word) >= WORD) {
        return;
    }
    if (i == w->n) {
        snprintf(w->names[w->n++], WORD, "%s", word);
    }
    w->counts[i]++;
}

static struct waiting *find_waiting(struct tally *t, const char *job)
{
    for (int i = 0; i < WAITING_MOST; i++) {
        if (strcmp(t->waiting[i].job, job) == 0) {
            return &t->waiting[i];
        }
    }
    return NULL;
}

static void count_wait(struct tally *t, const char *job, int state, uint64_t ms)
{
    struct waiting *w = find_waiting(t, job);
    if (state == JOB_QUEUED) {
        w = w ? w : &t->waiting[t->next_waiting++ % WAITING_MOST];
        snprintf(w->job, sizeof(w->job), "%s", job);
        w->since = ms;
    } else if (w) {
        if (state == JOB_LAUNCHING) {
            histogram_add(&t->queue, (double)(ms - w->since) / 1e3);
        }
        w->job[0] = '\0';
    }
}

static void count_job(struct tally *t, const char *job, const json_t *data, uint64_t ms)
{
    struct job_event event;
    if (!job_event_read(data, &event) || !job_event_changes(&event)) {
        return;
    }
    count_wait(t, job, event.state, ms);
    if (jobstate_ended(event.state)) {
        t->finished[event.state]++;
    }
    if (event.state == JOB_QUEUED && (event.from == JOB_RUNNING || event.from == JOB_LAUNCHING)) {
        t->restarts++;
    }
    if (event.state == JOB_FAILED && event.code[0]) {
        count_word(&t->failures, event.code);
    }
}

static void count_rows(struct tally *t, const json_t *data)
{
    struct row row;
    for (size_t i = 0; rows_event_read(data, i, &row); i++) {
        histogram_add(&t->step, row_step_seconds(&row));
        histogram_add(&t->staleness, row.staleness);
    }
}

void tally_event(struct tally *t, const struct event_entry *entry, uint64_t ms)
{
    struct node_event node;
    bool counts =
        entry->kind == EVENT_JOB || entry->kind == EVENT_NODE || entry->kind == EVENT_ROWS;
    json_t *data = counts ? event_entry_data(entry) : NULL;
    if (!data) {
        return;
    }
    if (entry->kind == EVENT_ROWS) {
        count_rows(t, data);
    }
    pthread_mutex_lock(&t->lock);
    if (entry->kind == EVENT_JOB && *entry->job) {
        count_job(t, entry->job, data, ms);
    } else if (entry->kind == EVENT_NODE && node_event_read(data, &node)) {
        count_word(&t->nodes, node.change);
    }
    pthread_mutex_unlock(&t->lock);
    json_decref(data);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_words(const struct words *w, struct buf *out, const char *name, const char *label)
{
    for (int i = 0; i < w->n; i++) {
        buf_addf(out, "%s{%s=\"%s\"} %ld\n", name, label, w->names[i], w->counts[i]);
    }
}

void tally_print(struct tally *t, struct buf *out)
{
    head(out, "evenstep_jobs_finished_total", "counter", "Jobs that ended, by their last state.");
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < JOB_STATE_COUNT; i++) {
        if (jobstate_ended((enum job_state)i)) {
            buf_addf(out, "evenstep_jobs_finished_total{state=\"%s\"} %ld\n",
                     jobstate_name((enum job_state)i), t->finished[i]);
        }
    }
    head(out, "evenstep_job_restarts_total", "counter",
         "Attempts that were lost, whose jobs were queued again.");
    buf_addf(out, "evenstep_job_restarts_total %ld\n", t->restarts);
    head(out, "evenstep_job_failures_total", "counter", "Jobs that failed, by the error's code.");
    print_words(&t->failures, out, "evenstep_job_failures_total", "code");
    head(out, "evenstep_node_changes_total", "counter",
         "Changes of nodes; a node that is back had been lost.");
    print_words(&t->nodes, out, "evenstep_node_changes_total", "change");
    pthread_mutex_unlock(&t->lock);
    head(out, "evenstep_queue_wait_seconds", "histogram",
         "Time from a job's being queued to its launch.");
    histogram_print(&t->queue, out, "evenstep_queue_wait_seconds", "");
    head(out, "evenstep_step_seconds", "histogram",
         "Time of a worker's step, of the rows that events carry.");
    histogram_print(&t->step, out, "evenstep_step_seconds", "");
    head(out, "evenstep_staleness_versions", "histogram",
         "Staleness of a gradient, of the rows that events carry.");
    histogram_print(&t->staleness, out, "evenstep_staleness_versions", "");
}
