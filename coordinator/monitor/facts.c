/* Facts of ranks (job/documents/ranks/fact.h), each handed to the part of the monitor that it
 * concerns.
 *
 * A fact counts if it is sealed with the key of the rank that it names, if it is of a kind that
 * this rank reports, and if it is newer than the rank's last one. Other facts are dropped, counted
 * and logged, since anyone who can write to the store can put anything into the stream.
 *
 * A fact counts for the attempt whose rank sent it. Facts that an attempt left unread are read
 * before the next one starts, and only results among them count (evaluations, saved files, what a
 * device measured). Later facts come from processes that should have ended; they are dropped and
 * counted. */
#include "coordinator/monitor/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"

enum { FACTS_AT_ONCE = 100, BACKLOG = 50 };

/* Training samples seen at an epoch. The size of the training set is the one that the keeper
 * loaded; else it is known for generated data; else it follows from the counters. */
static double samples_at(const struct monitor *m, double epoch)
{
    if (m->training_samples > 0) {
        return round(epoch * (double)m->training_samples);
    }
    if (m->spec->data.format == CAT_FORMAT_GLYPHS) {
        return round(epoch * (double)m->spec->data.samples * (1 - m->spec->data.validation));
    }
    if (m->program.global_batch > 0) {
        return round(epoch * (double)m->program.samples);
    }
    double seen = m->ranks.epoch;
    return seen > 0 ? round(epoch / seen * (double)ranks_samples(&m->ranks)) : 0;
}

int64_t monitor_planned_samples(const struct monitor *m)
{
    bool open = m->program.global_batch > 0 && m->program.epochs <= 0; /* the program decides when
                                                                          they end */
    double epochs = open                          ? fmax(1, round(m->ranks.epoch))
                    : m->program.global_batch > 0 ? m->program.epochs
                                                  : m->spec->epochs,
           target = m->spec->target_accuracy;
    const struct evaluation *last = evaluations_last(&m->results.evaluations);
    bool reached = last && target > 0 && last->accuracy >= target;
    bool known = m->training_samples > 0 || m->program.global_batch > 0 ||
                 m->spec->data.format == CAT_FORMAT_GLYPHS;
    epochs = floor(epochs);
    int64_t planned = known ? (int64_t)samples_at(m, reached && last->epoch < epochs ? last->epoch
                                                                                     : epochs)
                            : 0,
            made = ranks_samples(&m->ranks);
    /* a program may stop early: its ranks end well only where all programs agree to it */
    bool ended = m->program.global_batch > 0 && m->results.has_ended &&
                 m->results.ended.outcome == OUTCOME_FINISHED;
    return ended && made < planned ? made : planned;
}

/* Publishes an event. Steals body. Where many facts wait (BACKLOG), only the last evaluation of a
 * read and the last save of each file become events, since each event waits for the store's disk.
 * Readers of events ask for the newest state anyway. */
static int tell(struct monitor *m, const char *type, const char *of, json_t *body, struct err *e)
{
    int rc = 0;
    if (m->news) {
        json_object_del(m->news, of);
        json_object_set_new(m->news, of, json_pack("[s, O]", type, body));
    } else {
        rc = store_event(m->store, m->ours.job, type, body, e);
    }
    json_decref(body);
    return rc;
}

static int tell_news(struct monitor *m, struct err *e)
{
    const char *of;
    json_t *one;
    json_object_foreach(m->news, of, one) {
        const char *type = json_string_value(json_array_get(one, 0));
        int rc = store_event(m->store, m->ours.job, type, json_array_get(one, 1), e);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int on_evaluation(struct monitor *m, const struct evaluation *ev, struct err *e)
{
    double samples = samples_at(m, ev->epoch);
    int rc = history_evaluation(m->feed.history, ev->step, ev->epoch, ev->time, samples, ev->loss,
                                ev->accuracy, e);
    if (rc < 0) {
        return rc;
    }
    /* an earlier coordinator may have published one of the same step, but not saved that it had */
    evaluations_drop(&m->results.evaluations, ev->step - 1);
    json_t *body = evaluation_json(evaluations_add(&m->results.evaluations, ev, (int64_t)samples));
    m->results.unsaved = true;
    return tell(m, "evaluation", "evaluation", body, e);
}

/* Opens the gate, since it is known where the attempt began. If this fails, the next turn tries
 * again. */
static int open_gate(struct monitor *m, struct err *e)
{
    struct evaluations *early = &m->early;
    for (; early->count > 0; early->count--) {
        int rc = on_evaluation(m, &early->items[0].ev, e);
        if (rc < 0) {
            return rc;
        }
        memmove(early->items, early->items + 1, (size_t)(early->count - 1) * sizeof *early->items);
    }
    for (; m->n_early_norms > 0; m->n_early_norms--) {
        struct norms *first = &m->early_norms[0];
        int rc = history_norms(m->feed.history, first, e);
        if (rc < 0) {
            return rc;
        }
        norms_release(first);
        memmove(first, first + 1, (size_t)(m->n_early_norms - 1) * sizeof *first);
    }
    for (; m->n_early_logged > 0; m->n_early_logged--) {
        struct logged *first = &m->early_logged[0];
        int rc = history_logged(m->feed.history, first, e);
        if (rc < 0) {
            return rc;
        }
        logged_release(first);
        memmove(first, first + 1, (size_t)(m->n_early_logged - 1) * sizeof *first);
    }
    m->gate_open = true;
    return 0;
}

/* Keeps a measurement that came before the keeper told where the attempt began. */
static void keep_early(struct monitor *m, struct fact *f)
{
    if (f->type == FACT_EVALUATION) {
        evaluations_add(&m->early, &f->evaluation, 0);
    } else if (f->type == FACT_LOGGED && m->n_early_logged < LOGGED_EARLY) {
        m->early_logged[m->n_early_logged++] = f->logged;
        f->logged = (struct logged){0};
    } else if (f->type == FACT_NORMS && m->n_early_norms < NORMS_EARLY) {
        m->early_norms[m->n_early_norms++] = f->norms;
        f->norms = (struct norms){0};
    }
}

/* Supersedes what earlier attempts did after the checkpoint. A first attempt may begin with another
 * job's checkpoint, and then there are no earlier ones. An evaluation that is there is its own: the
 * first worker's may come before the keeper tells where the attempt began. */
static int on_restored(struct monitor *m, int64_t version, struct err *e)
{
    int rc = m->ours.attempt > 1 ? history_supersede(m->feed.history, version, e) : 0;
    if (rc < 0) {
        return rc;
    }
    if (m->ours.attempt > 1) {
        evaluations_drop(&m->results.evaluations, version);
        m->results.unsaved = true;
    }
    log_info("monitor", "continues from a checkpoint", "job=%s attempt=%d step=%lld rows_lost=%lld",
             m->ours.job, m->ours.attempt, (long long)version,
             (long long)history_missing(m->feed.history));
    if ((rc = open_gate(m, e)) < 0) {
        return rc;
    }
    return results_save(&m->results, m->store, m->ours.job, e);
}

void monitor_take_batch(struct monitor *m)
{
    struct err why = {0};
    char quoted[600];
    if (m->program.global_batch > 0 &&
        orders_take_batch(&m->orders, m->program.global_batch, &why) < 0) {
        log_warn("monitor", "the program's batch cannot be shared out", "job=%s why=%s",
                 m->ours.job, log_quote(quoted, sizeof quoted, why.message));
    }
}

static void on_joined(struct monitor *m, const struct joined *program)
{
    m->program = *program;
    log_info(
        "monitor", "a program has joined",
        "job=%s framework=\"%s\" optimizer=\"%s\" parameters=%lld samples=%lld batch=%d epochs=%g",
        m->ours.job, program->framework, program->optimizer, (long long)program->parameters,
        (long long)program->samples, program->global_batch, program->epochs);
    monitor_take_batch(m);
}

/* A worker measured its node at two sizes. If memory was too small for that, k is 0 and only the
 * limit is known. */
static void on_profile(struct monitor *m, const struct fact *f)
{
    double k = f->profile.k;
    int r = f->from.rank, max_batch = f->profile.max_batch;
    bool overfull = k == 0 && max_batch > 0;
    if (r >= 0 && r < m->ranks.workers && (k > 0 || overfull)) {
        m->ranks.all[r].overfull = overfull;
        orders_calibrate(&m->orders, r, f->profile.a, k, max_batch);
    }
}

static void on_tuning(struct monitor *m, const struct fact *f)
{
    int r = f->from.rank;
    if (r >= 0 && r < m->ranks.workers) {
        json_decref(m->ranks.all[r].tuning);
        m->ranks.all[r].tuning = json_incref(f->tuning);
    }
}

static int on_crashed(struct monitor *m, const struct fact *f, struct err *e)
{
    json_t *body = fact_crashed_json(f);
    int rc = store_event(m->store, m->ours.job, "log", body, e);
    json_decref(body);
    return rc;
}

static int on_saved(struct monitor *m, const struct fact *f, struct err *e)
{
    return tell(m, "log", f->saved.file, fact_saved_json(f), e);
}

static int on_left(struct monitor *m, struct fact *f, struct err *e)
{
    int who = f->left.who;
    int64_t step = f->left.step;
    int others = f->left.others;
    if (!ranks_leave(&m->ranks, &f->left)) {
        return 0;
    }
    const char *node = m->ranks.all[who].node;
    char message[200];
    snprintf(message, sizeof message, "%s left at step %lld, %d node%s on", node, (long long)step,
             others, others == 1 ? " goes" : "s go");
    log_info("monitor", "a worker has left, the attempt continues",
             "job=%s attempt=%d rank=%d node=%s step=%lld others=%d", m->ours.job, m->ours.attempt,
             who, node, (long long)step, others);
    json_t *body = json_pack("{s:s, s:i, s:s, s:I, s:i, s:s}", "type", "left", "rank", who, "node",
                             node, "step", (json_int_t)step, "others", others, "message", message);
    int rc = store_event(m->store, m->ours.job, "log", body, e);
    json_decref(body);
    return rc;
}

static int on_returned(struct monitor *m, const struct fact *f, struct err *e)
{
    int who = f->left.who;
    int64_t step = f->left.step;
    struct err why = {0};
    char message[200], quoted[600];
    if (!ranks_return(&m->ranks, &f->left)) {
        return 0;
    }
    const char *node = m->ranks.all[who].node;
    if (orders_join(&m->orders, who, &why) < 0) {
        log_warn("monitor", "minibatches stay as they are", "job=%s why=%s", m->ours.job,
                 log_quote(quoted, sizeof quoted, why.message));
    }
    snprintf(message, sizeof message, "%s came back at step %lld", node, (long long)step);
    log_info("monitor", "a worker has come back", "job=%s attempt=%d rank=%d node=%s step=%lld",
             m->ours.job, m->ours.attempt, who, node, (long long)step);
    json_t *body =
        json_pack("{s:s, s:i, s:s, s:I, s:i, s:s}", "type", "returned", "rank", who, "node", node,
                  "step", (json_int_t)step, "nodes", f->left.others, "message", message);
    int rc = store_event(m->store, m->ours.job, "log", body, e);
    json_decref(body);
    return rc;
}

/* Follows a fact of an attempt that is over: only results stay true. */
static int on_old(struct monitor *m, const struct fact *f, struct err *e)
{
    switch (f->type) {
    case FACT_EVALUATION:
        return on_evaluation(m, &f->evaluation, e);
    case FACT_NORMS:
        return history_norms(m->feed.history, &f->norms, e);
    case FACT_LOGGED:
        return history_logged(m->feed.history, &f->logged, e);
    case FACT_CHECKPOINT:
    case FACT_ARTIFACT:
        return on_saved(m, f, e);
    case FACT_TUNING:
        on_tuning(m, f);
        return 0;
    default:
        return 0;
    }
}

/* The attempt began without a checkpoint, so what earlier ones did is superseded. */
static int begin_anew(struct monitor *m, struct err *e)
{
    int rc = history_supersede(m->feed.history, 0, e);
    return rc < 0 ? rc : open_gate(m, e);
}

/* Is it a fact about a step, which a restart may supersede? */
static bool is_measurement(enum fact_type type)
{
    return type == FACT_EVALUATION || type == FACT_NORMS || type == FACT_LOGGED;
}

static int on_own(struct monitor *m, struct fact *f, struct err *e)
{
    if (!m->gate_open && is_measurement(f->type)) {
        keep_early(m, f);
        return 0;
    }
    switch (f->type) {
    case FACT_LOADED:
        m->training_samples = f->loaded;
        orders_take_samples(&m->orders, f->loaded, false);
        return 0;
    case FACT_RESTORED:
        return on_restored(m, f->version, e);
    case FACT_PROFILE:
        on_profile(m, f);
        return 0;
    case FACT_CRASHED:
        return on_crashed(m, f, e);
    case FACT_JOINED:
        on_joined(m, &f->joined);
        return 0;
    case FACT_LOST:
        losses_take(m, f);
        return 0;
    case FACT_LEFT:
        return on_left(m, f, e);
    case FACT_RETURNED:
        return on_returned(m, f, e);
    default:
        return on_old(m, f, e);
    }
}

/* `disk`: the disk took everything before this fact. The end of an attempt counts even if it did
 * not. */
static int on_fact(struct monitor *m, struct fact *f, bool old_attempt, bool disk, struct err *e)
{
    bool own = sender_is(&f->from, &m->ours);
    if (own && f->type == FACT_ENDED) {
        results_end(&m->results, &f->ended);
        return 0;
    }
    if (own) {
        return disk ? on_own(m, f, e) : 0;
    }
    if (old_attempt && strcmp(f->from.job, m->ours.job) == 0) {
        return disk ? on_old(m, f, e) : 0;
    }
    if (disk) {
        ranks_drop(&m->ranks, DROPPED_FACT, &f->from, "it is of another attempt");
    }
    return 0;
}

/* Opens a sealed fact. The attempt and the rank that it claims pick the key. */
static int open_fact(struct monitor *m, const json_t *claimed, struct fact *out, struct err *why)
{
    int64_t attempt, rank;
    fact_claims(claimed, &attempt, &rank);
    bool possible = attempt >= 0 && attempt <= m->ours.attempt && rank >= 0 && rank <= INT16_MAX;
    const struct sign_key *key = possible ? seals_of(m->seals, (int)attempt, (int)rank) : NULL;
    memset(out, 0, sizeof *out);
    out->from = (struct sender){.attempt = possible ? (int)attempt : 0,
                                .rank = possible ? (int)rank : COORDINATOR};
    if (!key) {
        return err_set(why, ERR_NOT_FOUND, "that attempt had no such rank");
    }
    return fact_open(out, claimed, key, why);
}

/* Is the fact to be believed? How many ranks earlier attempts had is no longer known, so it does
 * not check who their keeper was. */
static int check_fact(struct monitor *m, const struct fact *f, struct err *why)
{
    bool own = sender_is(&f->from, &m->ours);
    if (own && !fact_is_its_own(f, ranks_first(&m->ranks), m->ranks.workers)) {
        return err_set(why, ERR_FORBIDDEN, "a rank of its kind sends no such facts");
    }
    return feed_is_new(&m->feed, f)
               ? 0
               : err_set(why, ERR_CONFLICT, "its rank has sent it before, or a newer one");
}

static int read_fact(struct monitor *m, const json_t *j, bool old_attempt, bool disk, struct err *e)
{
    struct fact f;
    struct err why = {0};
    int rc = open_fact(m, j, &f, &why);
    if (rc >= 0) {
        rc = check_fact(m, &f, &why);
    }
    if (rc < 0) {
        ranks_drop(&m->ranks, DROPPED_FACT, &f.from, why.message);
        rc = 0;
    } else {
        rc = on_fact(m, &f, old_attempt, disk, e);
    }
    m->unsaved |= f.type != FACT_NORMS && f.type != FACT_LOGGED;
    fact_release(&f);
    return rc;
}

int monitor_read_facts(struct monitor *m, bool old_attempt, int reads, struct err *e)
{
    for (; reads > 0; reads--) {
        char before[STORE_PLACE];
        feed_begin_facts(&m->feed, before);
        json_t *facts = store_facts_read(m->store, m->ours.job, m->feed.facts, FACTS_AT_ONCE, e),
               *fact;
        if (!facts) {
            feed_again(&m->feed, before); /* some of them may have been valid */
            return -(e && e->code ? (int)e->code : ERR_UNAVAILABLE);
        }
        size_t i, n = json_array_size(facts);
        int rc = 0;
        m->news = n >= BACKLOG ? json_object() : NULL;
        json_array_foreach(facts, i, fact) {
            int one = read_fact(m, fact, old_attempt, rc >= 0, e);
            if (rc >= 0) { /* the first error stays */
                rc = one;
            }
        }
        json_decref(facts);
        if (rc >= 0) {
            rc = tell_news(m, e);
        }
        json_decref(m->news);
        m->news = NULL;
        if (rc >= 0) {
            rc = results_save(&m->results, m->store, m->ours.job, e);
        }
        if (rc < 0) { /* the next turn reads them all again */
            feed_again(&m->feed, before);
        } else if (m->unsaved) {
            rc = monitor_save(m, e);
            m->unsaved = rc < 0;
        }
        if (rc < 0 || n < FACTS_AT_ONCE) {
            return rc < 0 ? rc : FACTS_NONE_WAIT;
        }
    }
    return FACTS_MAY_WAIT;
}

/* The keeper serves, and no fact "restored" came before that. A fact and a heartbeat of the same
 * turn may overtake each other, so the gate waits for a second heartbeat. */
int monitor_watch_gate(struct monitor *m, struct err *e)
{
    const struct rank *keeper = &m->ranks.all[m->ranks.workers];
    if (m->gate_open || !keeper->heard || keeper->beat.phase == PHASE_LOAD) {
        return 0;
    }
    if (m->keeper_seen_at == 0) {
        m->keeper_seen_at = keeper->beat.at;
    }
    if (keeper->beat.at == m->keeper_seen_at && !m->results.has_ended) {
        return 0;
    }
    int rc = monitor_read_facts(m, false, FACTS_ALL, e);
    return rc >= 0 && !m->gate_open ? begin_anew(m, e) : rc;
}
