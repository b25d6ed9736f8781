/* Facts of ranks, and what the monitor remembers across restarts of the coordinator (see
 * monitor.h).
 *
 * What a newcomer would get wrong: when one rank fails, the others fail too and say so ("a peer is
 * lost"). The failure that counts is the one that is no echo, whichever came first; and a failure
 * outweighs a "stopped" that mpirun's SIGTERM caused.
 */
#include "coordinator/monitor_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

static const char *text_of(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}

static int64_t integer_of(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static double number_of(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

int64_t monitor_samples(const struct monitor *m)
{
    int64_t sum = 0;
    for (int r = 0; r < m->workers; r++) {
        sum += m->ranks[r].samples;
    }
    return sum;
}

/* Training samples seen at an epoch: known for drawn data, else from what was counted. */
static double samples_at(const struct monitor *m, double epoch)
{
    if (m->spec->data.format == CAT_FORMAT_GLYPHS) {
        return round(epoch * (double)m->spec->data.samples * (1 - m->spec->data.validation));
    }
    return m->epoch > 0 ? round(epoch / m->epoch * (double)monitor_samples(m)) : 0;
}

/* ---- one fact -------------------------------------------------------------------------------- */

/* Forgets those past this step. */
static void drop_evaluations(struct monitor *m, int64_t step)
{
    for (size_t i = json_array_size(m->evaluations); i > 0; i--) {
        if (integer_of(json_array_get(m->evaluations, i - 1), "step") > step) {
            json_array_remove(m->evaluations, i - 1);
        }
    }
}

static int on_evaluation(struct monitor *m, json_t *fact, struct err *e)
{
    double epoch = number_of(fact, "epoch"), samples = samples_at(m, epoch);
    int rc =
        history_evaluation(m->history, integer_of(fact, "step"), epoch, number_of(fact, "time"),
                           samples, number_of(fact, "loss"), number_of(fact, "accuracy"), e);
    if (rc < 0) {
        return rc;
    }
    drop_evaluations(m, integer_of(fact, "step") -
                            1); /* told before, by whom it could not write down that it was */
    json_t *body = json_copy(fact);
    json_object_set(body, "test_samples", json_object_get(fact, "samples"));
    json_object_set_new(body, "samples", json_integer((json_int_t)samples));
    json_object_del(body, "type");
    json_array_append(m->evaluations, body);
    json_t *doc = json_pack("{s:O}", "evaluations", m->evaluations);
    rc = store_doc_set(m->store, m->job, "detail:evaluations", doc, e);
    if (rc >= 0) {
        rc = store_event(m->store, m->job, "evaluation", body, e);
    }
    json_decref(doc);
    json_decref(body);
    return rc;
}

static int on_restored(struct monitor *m, const json_t *fact, struct err *e)
{
    int64_t version = integer_of(fact, "version");
    int rc = history_supersede(m->history, version, e);
    if (rc < 0) {
        return rc;
    }
    drop_evaluations(m, version);
    m->gate_open = true;
    log_info("monitor", "goes on from a checkpoint", "job=%s attempt=%d step=%lld rows_lost=%lld",
             m->job, m->attempt, (long long)version, (long long)history_missing(m->history));
    json_t *doc = json_pack("{s:O}", "evaluations", m->evaluations);
    rc = store_doc_set(m->store, m->job, "detail:evaluations", doc, e);
    json_decref(doc);
    return rc;
}

/* A worker measured its node at two sizes: where no profile is known that is the start of one. Or
 * it could not, for want of memory: then k is 0, and the limit is what it tells. */
static void on_profile(struct monitor *m, const json_t *fact)
{
    int64_t r = integer_of(fact, "rank");
    double a = number_of(fact, "a"), k = number_of(fact, "k");
    int max_batch = (int)integer_of(fact, "max_batch");
    bool overfull = k == 0 && max_batch > 0;
    if (r < 0 || r >= m->workers || !(k > 0 || overfull) || !isfinite(a) || !isfinite(k)) {
        return;
    }
    struct profile *p = &m->balancer.profiles[r];
    m->ranks[r].overfull = overfull;
    if (p->count == 0 && !overfull) {
        int big = m->ranks[r].batch > 16 ? m->ranks[r].batch : 16, small = big / 4;
        for (int i = 0; i < 3; i++) {
            profile_observe(p, small, a + k * small);
            profile_observe(p, big, a + k * big);
        }
    }
    p->max_batch = max_batch;
}

static void on_tuning(struct monitor *m, const json_t *fact)
{
    int64_t r = integer_of(fact, "rank");
    json_t *tuning = json_object_get(fact, "tuning");
    if (r >= 0 && r < m->workers && json_is_object(tuning)) {
        json_decref(m->ranks[r].tuning);
        m->ranks[r].tuning = json_incref(tuning);
    }
}

static int severity(const json_t *outcome)
{
    const char *what = text_of(outcome, "outcome"), *code = text_of(outcome, "code");
    if (!outcome) {
        return 0;
    }
    if (strcmp(what, "failed") != 0) {
        return 1;
    }
    bool echo =
        strcmp(code, "peer") == 0 || strcmp(code, "cancelled") == 0 || strcmp(code, "timeout") == 0;
    return echo ? 2 : 3;
}

static void on_ended(struct monitor *m, json_t *fact)
{
    if (severity(fact) > severity(m->outcome)) {
        json_decref(m->outcome);
        m->outcome = json_incref(fact);
    }
}

static int on_saved(struct monitor *m, const json_t *fact, struct err *e)
{
    json_t *body = json_copy((json_t *)fact);
    const char *path = json_string_value(json_object_get(fact, "path"));
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash) { /* the browser has no use for folders of this host */
        json_object_set_new(body, "path", json_string(slash + 1));
    }
    int rc = store_event(m->store, m->job, "log", body, e);
    json_decref(body);
    return rc;
}

/* `old_attempt`: what one that is over left behind, of which only its results count. */
static int on_fact(struct monitor *m, json_t *fact, bool old_attempt, struct err *e)
{
    const char *type = text_of(fact, "type");
    if (strcmp(type, "evaluation") == 0) {
        return on_evaluation(m, fact, e);
    }
    if (strcmp(type, "checkpoint") == 0 || strcmp(type, "artifact") == 0) {
        return on_saved(m, fact, e);
    }
    if (strcmp(type, "restored") == 0 && !old_attempt) {
        return on_restored(m, fact, e);
    }
    if (strcmp(type, "profile") == 0 && !old_attempt) {
        on_profile(m, fact);
    }
    if (strcmp(type, "tuning") == 0) {
        on_tuning(m, fact);
    }
    return 0;
}

int monitor_read_facts(struct monitor *m, bool old_attempt, struct err *e)
{
    for (;;) {
        char before[32];
        snprintf(before, sizeof before, "%s", m->facts_at);
        json_t *facts = store_facts_read(m->store, m->job, m->facts_at, 100, e), *fact;
        if (!facts) {
            return -(e && e->code ? (int)e->code : ERR_UNAVAILABLE);
        }
        size_t i, n = json_array_size(facts);
        int rc = 0;
        json_array_foreach(facts, i, fact) {
            if (strcmp(text_of(fact, "type"), "ended") != 0) {
                rc = rc < 0 ? rc : on_fact(m, fact, old_attempt, e);
            } else if (!old_attempt) {
                on_ended(m, fact); /* known even where the disk refuses what came before */
            }
        }
        json_decref(facts);
        if (rc < 0) { /* all of them again at the next turn */
            snprintf(m->facts_at, sizeof m->facts_at, "%s", before);
        } else if (strcmp(before, m->facts_at) != 0) {
            rc = monitor_save(m, e);
        }
        if (rc < 0 || n == 0) {
            return rc;
        }
    }
}

/* ---- what is remembered ---------------------------------------------------------------------- */

int monitor_save(struct monitor *m, struct err *e)
{
    json_t *rows = json_object();
    for (int r = 0; r < m->workers + m->servers; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", r);
        json_object_set_new(rows, key, json_string(m->ranks[r].safe));
    }
    json_t *j =
        json_pack("{s:i, s:s, s:o, s:b, s:I}", "attempt", m->attempt, "facts", m->facts_at, "rows",
                  rows, "gate_open", m->gate_open, "log_offset", (json_int_t)m->log_offset);
    if (m->outcome) {
        json_object_set(j, "outcome", m->outcome);
    }
    int rc = store_doc_set(m->store, m->job, "detail:monitor", j, e);
    json_decref(j);
    return rc;
}

int monitor_load(struct monitor *m, bool adopted, struct err *e)
{
    json_t *j = store_doc_get(m->store, m->job, "detail:monitor", e);
    if (!j && e && e->code) {
        return -(int)e->code;
    }
    json_t *evaluations = store_doc_get(m->store, m->job, "detail:evaluations", NULL);
    m->evaluations = json_incref(json_object_get(evaluations, "evaluations"));
    json_decref(evaluations);
    if (!json_is_array(m->evaluations)) {
        json_decref(m->evaluations);
        m->evaluations = json_array();
    }
    snprintf(m->facts_at, sizeof m->facts_at, "%s", j ? text_of(j, "facts") : "0-0");
    const char *key;
    json_t *at;
    json_object_foreach(json_object_get(j, "rows"), key, at) {
        long r = strtol(key, NULL, 10);
        if (r >= 0 && r < m->workers + m->servers && json_is_string(at)) {
            snprintf(m->ranks[r].at, sizeof m->ranks[r].at, "%s", json_string_value(at));
            memcpy(m->ranks[r].safe, m->ranks[r].at, sizeof m->ranks[r].safe);
        }
    }
    if (adopted && integer_of(j, "attempt") == m->attempt) {
        m->gate_open = json_is_true(json_object_get(j, "gate_open"));
        m->log_offset = (long)integer_of(j, "log_offset");
        m->outcome = json_incref(json_object_get(j, "outcome"));
    }
    m->gate_open |= m->attempt == 1;
    json_decref(j);
    return 0;
}
