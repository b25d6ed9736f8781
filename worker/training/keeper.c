/* The keeper: rank W, without a device. It starts the run for all ranks. Then it is the first
 * server or, if the strategy needs none, takes states from rank 0. Only the keeper writes
 * checkpoints and artifacts; further servers (rank > W) run the same code without the files.
 *
 * It keeps no samples: a cursor only needs the data set's counts.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/process/proc.h"
#include "worker/checkpoint/artifact.h"
#include "worker/training/start.h"

struct keeper {
    struct trainer_env *env;
    struct rank_env rank;
    struct start start;
};

static void tell_row(void *ctx, const struct row *row)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    t->row(t->ctx, row);
}

static void tell_evaluated(void *ctx, const struct evaluation *ev)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    t->evaluated(t->ctx, ev);
}

static void ask_control(void *ctx, struct control *out)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    t->control(t->ctx, out);
}

static void set_aside(void *ctx, bool on)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    t->phase(t->ctx, on ? PHASE_EVALUATE : PHASE_SERVE);
}

static int ask_lost(void *ctx, int *out)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    return t->lost(t->ctx, out);
}

static void tell_left(void *ctx, const struct departure *left)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    log_info("keeper", "goes on without a worker", "rank=%d step=%lld others=%d", left->who,
             (long long)left->step, left->others);
    t->left(t->ctx, left);
}

static int ask_seats(void *ctx, int *out)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    return t->seats(t->ctx, out);
}

static void tell_returned(void *ctx, const struct departure *back)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    log_info("keeper", "a worker is there again", "rank=%d step=%lld workers=%d", back->who,
             (long long)back->step, back->others);
    t->returned(t->ctx, back);
}

static void tell_served(void *ctx, int64_t version, double busy_fraction)
{
    struct telemetry *t = ((struct keeper *)ctx)->env->telemetry;
    if (t->served) {
        t->served(t->ctx, version, busy_fraction);
    }
}

static bool always_ready(void *ctx, int batch)
{
    (void)ctx;
    (void)batch;
    return true;
}

static double job_time(const struct keeper *k)
{
    return comm_now(k->env->comm) - k->rank.job_start;
}

/* Saves the own state of the lowest remaining worker, as its program gave it. */
static int save_own_artifact(struct keeper *k, const struct run_state *state, struct err *e)
{
    struct telemetry *t = k->env->telemetry;
    char path[4096];
    int i = 0;
    while (i < state->n_own && state->own[i].n == 0) {
        i++;
    }
    if (i == state->n_own) {
        return 0;
    }
    snprintf(path, sizeof(path), "%.4000s/artifacts/state.bin", k->env->job_dir);
    int rc = proc_write_file(path, state->own[i].bytes, state->own[i].n, 0644, e);
    if (rc == 0) {
        t->saved(t->ctx, "artifact", "state", state->version, job_time(k));
    }
    return rc;
}

static int save_artifact(struct keeper *k, const struct run_state *state, struct err *e)
{
    struct telemetry *t = k->env->telemetry;
    const char *name = state->why == SAVE_BEST ? "best" : "model";
    int rc = artifact_write(k->env->job_dir, name, k->env->spec, state, e);
    if (rc == 0) {
        t->saved(t->ctx, "artifact", name, state->version, job_time(k));
    }
    return rc < 0 ? rc : save_own_artifact(k, state, e);
}

static int save_checkpoint(struct keeper *k, const struct run_state *state, struct err *e)
{
    struct telemetry *t = k->env->telemetry;
    char path[4096];
    struct run_state *copy = malloc(sizeof(*copy));
    if (!copy) {
        return err_set(e, ERR_MEMORY, "cannot write a checkpoint: memory ran out");
    }
    *copy = *state;
    copy->elapsed = job_time(k); /* so that `time` goes on after a restart */
    int rc = checkpoint_write(k->env->job_dir, k->env->spec, copy, k->env->spec->checkpoint_keep,
                              path, sizeof(path), e);
    free(copy);
    if (rc == 0) {
        t->saved(t->ctx, "checkpoint", path, state->version, job_time(k));
    }
    return rc;
}

/* A full disk does not end the run: the previous checkpoint stays, and the next save tries
 * again. */
static int pass_over(const struct run_state *state, struct err *e)
{
    char quoted[600];
    log_warn("keeper", "could not save; training continues", "step=%lld why=%s",
             (long long)state->version, log_quote(quoted, sizeof(quoted), e ? e->message : ""));
    err_clear(e);
    return 0;
}

static int save(void *ctx, const struct run_state *state, struct err *e)
{
    struct keeper *k = ctx;
    struct telemetry *t = k->env->telemetry;
    if (!k->env->job_dir) {
        return 0;
    }
    t->phase(t->ctx, PHASE_CHECKPOINT);
    bool artifact = state->why == SAVE_BEST || state->why == SAVE_FINAL,
         optional = state->why == SAVE_CHECKPOINT || state->why == SAVE_BEST;
    int rc = artifact ? save_artifact(k, state, e) : save_checkpoint(k, state, e);
    if (rc == 0 && state->why == SAVE_FINAL && t->counted) {
        t->counted(t->ctx, state->applied_samples);
    }
    if (rc == 0 &&
        state->why == SAVE_FINAL) { /* another job may continue from here (`init.continue`) */
        rc = save_checkpoint(k, state, e);
        optional = true;
    }
    t->phase(t->ctx, PHASE_SERVE);
    return rc < 0 && optional ? pass_over(state, e) : rc;
}

static int find_strategy(const struct trainer_env *env, const struct strategy_ops **out,
                         struct err *e)
{
    *out = strategy_find(env->spec->strategy.type);
    return *out ? 0
                : err_set(e, ERR_UNSUPPORTED, "this build has no strategy '%s'",
                          catalog_get(env->spec->strategy.type)->name);
}

static void fill_calls(struct keeper *k, bool first)
{
    const struct trainer_env *env = k->env;
    k->rank.program.ahead = env->ahead;
    k->rank.program.open = env->open;
    k->rank.ctx = k;
    k->rank.row = tell_row;
    k->rank.evaluated = tell_evaluated;
    k->rank.control = ask_control;
    k->rank.ready = always_ready;
    k->rank.served = tell_served;
    if (env->outlives_worker) {
        k->rank.lost = ask_lost;
        k->rank.left = tell_left;
    }
    if (env->takes_back) {
        k->rank.seats = ask_seats;
        k->rank.returned = tell_returned;
    }
    k->rank.aside = set_aside;
    k->rank.save = first ? save : NULL;
}

int keeper_run(struct trainer_env *env, struct err *e)
{
    const struct strategy_ops *ops;
    int rc = find_strategy(env, &ops, e);
    struct keeper *k = rc == 0 ? calloc(1, sizeof(*k)) : NULL;
    if (!k) {
        return rc < 0 ? rc : err_set(e, ERR_MEMORY, "cannot start the keeper: memory ran out");
    }
    struct telemetry *t = env->telemetry;
    bool first = env->comm->rank == env->comm->workers;
    uint8_t *decay = NULL;
    int32_t *mean_of = NULL;
    k->env = env;
    t->phase(t->ctx, PHASE_LOAD);
    rc = env->virtual_time ? 0 : start_compare_data(env, NULL, e);
    if (rc < 0) {
        goto out;
    }
    if (first && t->loaded && env->data) {
        t->loaded(t->ctx, env->data->train.samples);
    }
    rc = first ? start_give(&k->start, env, env->data ? env->data->train.samples : 0, e)
               : start_receive(&k->start, env, e);
    if (rc < 0) {
        goto out;
    }
    decay = start_decay(&env->spec->network, e);
    mean_of = start_mean_of(&env->spec->network, e);
    if (!decay || !mean_of) {
        rc = -ERR_MEMORY;
        goto out;
    }
    start_rank_env(&k->rank, env, &k->start, k->start.from.state.cursor.samples,
                   env->data ? env->data->test.samples : 0, decay, mean_of);
    fill_calls(k, first);
    if (first && k->start.restored && t->restored) {
        t->restored(t->ctx, &k->start.from.state);
    }
    t->phase(t->ctx, PHASE_SERVE);
    rc = ops->serve(&k->rank, &k->start.from.state, e);
out:
    t->phase(t->ctx, PHASE_DONE);
    if (rc < 0 && !env->virtual_time) {
        return rc; /* the communication thread may still use our blocks; the process ends, so
                      nothing is freed */
    }
    start_release(&k->start);
    free(decay);
    free(mean_of);
    free(k);
    return rc;
}
