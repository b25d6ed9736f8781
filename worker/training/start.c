/* The start of a run (see start.h). Blocks travel in the layout of memory; the header has their
 * lengths, so that a rank whose replica has another size notices. If the keeper cannot start, it
 * sends its error message in place of the progress: every rank then ends with the cause, instead of
 * waiting for a sender that is gone.
 */
#include "worker/training/start.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "worker/checkpoint/artifact.h"
#include "worker/exchange/seat.h"

struct start_head {
    int64_t text_bytes; /* progress, or the error's sentence */
    int64_t n_params, n_optim, n_stats;
    int32_t code; /* enum err_code; ERR_NONE: all is well */
    int32_t restored;
    double elapsed;
};

static int take_progress(struct start *s, const char *text, size_t bytes, struct err *e)
{
    json_t *j = jsonx_parse(text, bytes, e);
    int rc = j ? progress_read(&s->from.state, &s->from.of, j, e) : -(int)e->code;
    json_decref(j);
    return rc < 0 ? err_prefix(e, "cannot read the start of the run") : 0;
}

static int blocks_alloc(struct start *s, struct err *e)
{
    struct run_state *st = &s->from.state;
    s->from.params = calloc(st->n_params + 1, sizeof(float));
    s->from.optim = calloc(st->n_optim + 1, sizeof(float));
    s->from.stats = calloc(st->n_stats + 1, sizeof(float));
    return s->from.params && s->from.optim && s->from.stats
               ? 0
               : err_set(e, ERR_MEMORY, "cannot hold the parameters: memory ran out");
}

/* The state of a run that has made no step. */
static void begin_anew(struct start *s, const struct jobspec *spec, int64_t samples)
{
    s->from.state.n_params = spec->network.n_params;
    s->from.state.n_stats = spec->network.n_stat_floats;
    s->from.state.best = -INFINITY;
    cursor_init(&s->from.state.cursor, samples, (int64_t)spec->epochs);
}

static void point_blocks(struct start *s)
{
    struct run_state *st = &s->from.state;
    st->params = s->from.params;
    st->optim = st->n_optim ? s->from.optim : NULL;
    st->stats = s->from.stats;
    st->test_accuracy = st->test_loss = NAN;
}

static int check_samples(const struct start *s, int64_t samples, struct err *e)
{
    if (s->from.state.cursor.samples == samples) {
        return 0;
    }
    return err_set(
        e, ERR_DATA,
        "the checkpoint '%.200s' was made with %lld training samples, the data set has %lld",
        s->from.path, (long long)s->from.state.cursor.samples, (long long)samples);
}

static int check_same(const char *what, const char *then, int now, struct err *e)
{
    if (strcmp(then, catalog_get(now)->name) == 0) {
        return 0;
    }
    err_set(e, ERR_INVALID, "the checkpoint is of a job with the %s '%s', this one has '%s'", what,
            then, catalog_get(now)->name);
    err_hint(e, "without \"continue\", its parameters alone are taken");
    return -ERR_INVALID;
}

/* Can a job continue from this checkpoint? */
static int check_continues(const struct start *s, const struct jobspec *spec, int64_t samples,
                           struct err *e)
{
    long long done = s->from.state.cursor.epoch, epochs = (long long)spec->epochs;
    int rc = samples > 0 ? check_samples(s, samples, e) : 0;
    const struct progress_run *of = &s->from.of;
    if (rc < 0 || (rc = check_same("optimizer", of->optimizer, spec->optimizer.type, e)) < 0 ||
        (rc = check_same("strategy", of->strategy, spec->strategy.type, e)) < 0) {
        return rc;
    }
    if (epochs <= done) {
        rc = err_set(e, ERR_INVALID,
                     "there is nothing left to do: 'epochs' is %lld, and that many are done",
                     epochs);
        err_hint(e, "'epochs' counts from the first job's start; ask for more than it did");
    }
    return rc;
}

/* `init.continue`: continues from the newest checkpoint of a job that ended, with our number of
 * epochs. */
static int continue_job(struct start *s, struct trainer_env *env, int64_t samples, struct err *e)
{
    struct cursor *c = &s->from.state.cursor;
    int rc;
    if ((rc = checkpoint_open(env->init_path, env->spec, &s->from, e)) < 0 ||
        (rc = check_continues(s, env->spec, samples, e)) < 0) {
        return rc;
    }
    c->epochs = (int64_t)env->spec->epochs;
    s->from.state.best = -INFINITY; /* the best artifact is the other job's */
    s->restored = true;
    log_info("start", "continues where another job ended", "path=%s version=%lld epoch=%lld",
             s->from.path, (long long)s->from.state.version, (long long)c->epoch);
    return 0;
}

void start_check_init(const struct jobspec *spec, const char *init_path, int64_t samples,
                      struct jsonx_problems *problems)
{
    struct start s = {0};
    struct err why = {0};
    if (!spec->init_how.go_on) {
        artifact_check(init_path, &spec->network, &spec->init_how, "/init", problems);
        return;
    }
    int rc = checkpoint_open(init_path, spec, &s.from, &why);
    if (rc < 0 || check_continues(&s, spec, samples, &why) < 0) {
        jsonx_problem(problems, "/init", "%s", why.message);
    }
    start_release(&s);
}

/* Looks for a checkpoint, else `init`, else makes fresh parameters. */
static int find_start(struct start *s, struct trainer_env *env, int64_t samples, struct err *e)
{
    const struct jobspec *spec = env->spec;
    const struct network *net = &spec->network;
    int rc = env->job_dir ? checkpoint_newest(env->job_dir, spec, &s->from, e) : CHECKPOINT_NONE;
    if (rc < 0) {
        return rc;
    }
    if (rc == CHECKPOINT_FOUND) {
        if ((rc = check_samples(s, samples, e)) < 0) {
            return rc;
        }
        s->restored = true;
        checkpoint_drop_own(&s->from);
        s->elapsed = s->from.state.elapsed;
        log_info("start", "restored from a checkpoint", "path=%s version=%lld", s->from.path,
                 (long long)s->from.state.version);
        return 0;
    }
    if (env->init_path && spec->init_how.go_on) {
        return continue_job(s, env, samples, e);
    }
    begin_anew(s, spec, samples);
    rc = blocks_alloc(s, e);
    if (rc == 0) {
        if (env->first_params) {
            memcpy(s->from.params, env->first_params, net->n_params * sizeof(float));
            memcpy(s->from.stats, env->first_stats, net->n_stat_floats * sizeof(float));
        } else {
            network_init(net, spec->seed, s->from.params, s->from.stats);
        }
        rc = env->init_path ? artifact_read(env->init_path, net, &spec->init_how, s->from.params,
                                            s->from.stats, e)
                            : 0;
    }
    return rc < 0 ? rc : 0;
}

/* Sends from the keeper to all ranks. */
static int hand_out(struct trainer_env *env, void *data, size_t bytes, struct err *e)
{
    return comm_broadcast(env->comm, env->comm->workers, data, bytes, e);
}

static int hand_out_blocks(struct start *s, struct trainer_env *env, struct err *e)
{
    struct run_state *st = &s->from.state;
    float *blocks[] = {s->from.params, s->from.optim, s->from.stats};
    size_t counts[] = {st->n_params, st->n_optim, st->n_stats};
    int rc = 0;
    for (int i = 0; i < 3 && rc >= 0; i++) {
        rc = counts[i] > 0 ? hand_out(env, blocks[i], counts[i] * sizeof(float), e) : 0;
    }
    return rc;
}

/* From here on, ranks prepare for different times, 20 seconds and more under a quota. Their rows
 * share one time 0. */
static int begin(struct start *s, struct trainer_env *env, struct err *e)
{
    int rc = env->virtual_time ? 0 : comm_meet(env->comm, e);
    s->began = comm_now(env->comm);
    return rc;
}

/* Sends what the keeper found to all ranks: header and text, then the blocks, unless the text says
 * why there are none. */
static int give_found(struct start *s, struct trainer_env *env, char *text, int found,
                      const struct err *why, struct err *e)
{
    struct run_state *st = &s->from.state;
    struct start_head head = {.text_bytes = (int64_t)strlen(text) + 1,
                              .n_params = (int64_t)st->n_params,
                              .n_optim = (int64_t)st->n_optim,
                              .n_stats = (int64_t)st->n_stats,
                              .code = found < 0 ? (int32_t)why->code : ERR_NONE,
                              .restored = s->restored,
                              .elapsed = s->elapsed};
    int rc;
    if ((rc = hand_out(env, &head, sizeof(head), e)) < 0 ||
        (rc = hand_out(env, text, (size_t)head.text_bytes, e)) < 0) {
        return rc;
    }
    if (found < 0) {
        if (e) {
            *e = *why;
        }
        return found;
    }
    if ((rc = hand_out_blocks(s, env, e)) < 0) {
        return rc;
    }
    point_blocks(s);
    return begin(s, env, e);
}

int start_give(struct start *s, struct trainer_env *env, int64_t samples, struct err *e)
{
    struct err why = {0};
    memset(s, 0, sizeof(*s));
    int found = samples > 0 ? find_start(s, env, samples, &why)
                            : err_set(&why, ERR_DATA, "there are no training samples");
    json_t *j = found < 0 ? NULL : progress_json(env->spec, &s->from.state);
    char *text = found < 0 ? strdup(why.message) : jsonx_dump(j, false, NULL);
    json_decref(j);
    int rc = text ? give_found(s, env, text, found, &why, e)
                  : err_set(e, ERR_MEMORY, "cannot hand out the start: memory ran out");
    free(text);
    return rc;
}

static int check_head(const struct start_head *head, const char *text, const struct network *net,
                      struct err *e)
{
    if (head->code != ERR_NONE) {
        return err_set(e, (enum err_code)head->code, "the keeper cannot start the run: %s", text);
    }
    if (head->n_params != (int64_t)net->n_params || head->n_stats != (int64_t)net->n_stat_floats) {
        return err_set(e, ERR_PEER, "the keeper's network has %lld parameters, ours has %zu",
                       (long long)head->n_params, net->n_params);
    }
    return 0;
}

/* The caller frees the text. */
static int receive_head(struct trainer_env *env, struct start_head *head, char **text,
                        struct err *e)
{
    int rc = hand_out(env, head, sizeof(*head), e);
    if (rc < 0) {
        return rc;
    }
    if (head->text_bytes < 1 || head->text_bytes > (64 << 20) || head->n_optim < 0) {
        return err_set(e, ERR_PEER, "the keeper's start is malformed");
    }
    if (!(*text = calloc(1, (size_t)head->text_bytes + 1))) {
        return err_set(e, ERR_MEMORY, "cannot receive the start: memory ran out");
    }
    return hand_out(env, *text, (size_t)head->text_bytes, e);
}

static int take_start(struct start *s, struct trainer_env *env, const struct start_head *head,
                      const char *text, struct err *e)
{
    int rc;
    if ((rc = check_head(head, text, &env->spec->network, e)) < 0 ||
        (rc = take_progress(s, text, (size_t)head->text_bytes - 1, e)) < 0) {
        return rc;
    }
    s->restored = head->restored;
    s->elapsed = head->elapsed;
    s->from.state.n_params = (size_t)head->n_params;
    s->from.state.n_optim = (size_t)head->n_optim;
    s->from.state.n_stats = (size_t)head->n_stats;
    if ((rc = blocks_alloc(s, e)) < 0 || (rc = hand_out_blocks(s, env, e)) < 0) {
        return rc;
    }
    point_blocks(s);
    return begin(s, env, e);
}

int start_receive(struct start *s, struct trainer_env *env, struct err *e)
{
    struct start_head head = {0};
    char *text = NULL;
    memset(s, 0, sizeof(*s));
    int rc = receive_head(env, &head, &text, e);
    if (rc >= 0) {
        rc = take_start(s, env, &head, text, e);
    }
    free(text);
    return rc;
}

int start_fresh(struct start *s, struct trainer_env *env, struct err *e)
{
    const struct network *net = &env->spec->network;
    memset(s, 0, sizeof(*s));
    begin_anew(s, env->spec, env->data->train.samples);
    int rc = blocks_alloc(s, e);
    if (rc == 0) {
        network_init(net, env->spec->seed, s->from.params, s->from.stats);
        point_blocks(s);
    }
    return rc;
}

/* Takes our counters from those of all ranks, which a checkpoint has. */
static void take_counters(struct start *s, int workers, json_t *own)
{
    s->from.state.staleness = json_array();
    for (int i = 0; i < workers; i++) {
        json_array_append(s->from.state.staleness, own);
    }
    json_decref(own);
}

int start_join(struct start *s, struct trainer_env *env, int64_t *local_step, struct err *e)
{
    struct seat seat;
    int rc;
    if ((rc = env->join(env->step_ctx, &seat, e)) < 0) {
        return rc;
    }
    take_counters(s, env->comm->workers, seat.counters);
    if (seat.digest[0] && strcmp(seat.digest, env->data->digest) != 0) {
        return err_set(e, ERR_DATA, "the %s has changed since the attempt began",
                       env->spec->program.given ? "program" : "data set");
    }
    s->restored = true;
    s->began = comm_now(env->comm) - seat.elapsed;
    s->from.state.version = seat.version;
    *local_step = seat.pushes;
    return 0;
}

void start_release(struct start *s)
{
    checkpoint_release(&s->from);
}

void start_rank_env(struct rank_env *out, struct trainer_env *env, const struct start *s,
                    int64_t train, int64_t test, uint8_t *decay, int32_t *mean_of)
{
    const struct network *net = &env->spec->network;
    out->spec = env->spec;
    out->comm = env->comm;
    out->train_samples = train;
    out->test_samples = test;
    out->n_params = net->n_params;
    out->n_stats = net->n_stat_floats;
    out->decay = decay;
    out->mean_of = mean_of;
    memcpy(out->first_sizes, env->first_sizes, sizeof(out->first_sizes));
    out->first_version = env->first_version;
    memcpy(out->speeds, env->speeds, sizeof(out->speeds));
    out->job_start = s->began - s->elapsed;
    out->order = env->order;
    out->keeps_own = env->keeps_own;
    out->data_digest = env->data_digest;
}

uint8_t *start_decay(const struct network *net, struct err *e)
{
    uint8_t *decay = calloc(net->n_params + 1, 1);
    if (!decay) {
        err_set(e, ERR_MEMORY, "cannot hold the parameters: memory ran out");
        return NULL;
    }
    for (int i = 0; i < net->n_tensors; i++) {
        memset(decay + net->tensors[i].first, net->tensors[i].decay, net->tensors[i].count);
    }
    return decay;
}

int32_t *start_mean_of(const struct network *net, struct err *e)
{
    int32_t *mean_of = malloc(net->n_stat_floats * sizeof(int32_t) + 1);
    if (!mean_of) {
        err_set(e, ERR_MEMORY, "cannot hold the statistics: memory ran out");
        return NULL;
    }
    for (int i = 0; i < net->n_stats; i++) {
        const struct tensor *t = &net->stats[i],
                            *mean = t->mean > 0 ? &net->stats[t->mean - 1] : NULL;
        BUG_ON(mean && mean->count != t->count);
        for (size_t k = 0; k < t->count; k++) {
            mean_of[t->first + k] = mean ? (int32_t)(mean->first + k) : -1;
        }
    }
    return mean_of;
}

int start_compare_data(struct trainer_env *env, const char *digest, struct err *e)
{
    char first[65] = "";
    if (env->comm->rank == 0) {
        snprintf(first, sizeof(first), "%s", digest);
    }
    int rc = comm_broadcast(env->comm, 0, first, sizeof(first), e);
    snprintf(env->data_digest, sizeof(env->data_digest), "%s", first);
    if (rc < 0 || !digest || strcmp(first, digest) == 0) {
        return rc;
    }
    return err_set(
        e, ERR_DATA,
        "the data set of rank %d is not that of rank 0: the digests of their values are %.12s… and "
        "%.12s…",
        env->comm->rank, digest, first);
}
