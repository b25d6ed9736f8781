/* Ranks without numbers: see timing.h.
 *
 *      full run   next ─► load ─► compute, buckets leave when ready ─► on_gradients ─► next …
 *      here       next ─────────► pace(share), on_bucket; pace(1) ───► on_gradients ─► next …
 *
 * A replica without floats goes through the same calls as a full one, and the transport charges for
 * the floats that it should have. The times equal those of a full run only if the same phases are
 * reported (they decide what is free) and the buckets have the device's limits. Results of
 * evaluations are unknown, so no `target` is ever reached. */
#include "simulator/timing.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/host_replica.h"
#include "kernels/steps.h"
#include "worker/exchange/footprint.h"
#include "worker/training/start.h"

struct timing {
    struct trainer_env *env;
    struct rank_env rank;
    struct run_state state;
    struct start start; /* empty: time 0 */
    struct device device;
    struct dev_replica replica;
    struct strategy *strategy;
    struct dev_bucket *buckets; /* of no floats */
    size_t *floats;             /* how many floats each stands for */
    int n_buckets;
    bool by_bucket; /* each bucket is an all-reduce */
    uint8_t *decay;
    int32_t *mean_of;
};

/* ---- a device that does nothing -------------------------------------------------------------- */

static int update_nothing(struct dev_replica *r, double lr, double scale, struct err *e)
{
    (void)r;
    (void)lr;
    (void)scale;
    (void)e;
    return 0;
}

static const struct device_ops no_device = {.name = "none",
                                            .fetch = host_replica_copy,
                                            .store = host_replica_copy,
                                            .update = update_nothing};

/* ---- what the strategy may ask --------------------------------------------------------------- */

static void set_phase(struct timing *t, enum phase p)
{
    t->env->telemetry->phase(t->env->telemetry->ctx, p);
}

static void tell_row(void *ctx, const struct row *row)
{
    struct telemetry *told = ((struct timing *)ctx)->env->telemetry;
    told->row(told->ctx, row);
}

static void tell_nothing(void *ctx, const struct evaluation *ev)
{
    (void)ctx;
    (void)ev;
}

static void ask_control(void *ctx, struct control *out)
{
    struct telemetry *told = ((struct timing *)ctx)->env->telemetry;
    told->control(told->ctx, out);
}

static bool always_ready(void *ctx, int batch)
{
    (void)ctx;
    (void)batch;
    return true;
}

static void set_aside(void *ctx, bool on)
{
    struct timing *t = ctx;
    bool worker = t->env->comm->rank < t->env->comm->workers;
    set_phase(t, on ? PHASE_CHECKPOINT : worker ? PHASE_EXCHANGE : PHASE_SERVE);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Cuts the buckets as a device does, without floats. */
static int cut_buckets(struct timing *t, struct err *e)
{
    const struct network *net = &t->env->spec->network;
    t->buckets = calloc((size_t)net->n_layers, sizeof *t->buckets);
    t->floats = calloc((size_t)net->n_layers, sizeof *t->floats);
    if (!t->buckets || !t->floats) {
        return err_set(e, ERR_MEMORY, "cannot hold a virtual rank: memory ran out");
    }
    t->n_buckets = steps_cut(net, t->env->spec->bucket_bytes, t->buckets, NULL);
    for (int b = 0; b < t->n_buckets; b++) {
        t->floats[b] = t->buckets[b].count;
        t->buckets[b].first = t->buckets[b].count = 0;
    }
    return 0;
}

/* Sets how many floats every all-reduce and every pushed block stands for. */
static void make_hollow(struct timing *t)
{
    const struct jobspec *spec = t->env->spec;
    struct comm *c = t->env->comm;
    struct footprint f;
    footprint_init(&f, spec);
    strategy_find(spec->strategy.type)->footprint(&f);
    t->by_bucket = f.by_bucket;
    /* each has its shard */
    c->hollow_body = (spec->network.n_params + (size_t)spec->strategy.servers - 1) /
                     (size_t)spec->strategy.servers;
    c->hollow[COMM_MINE] = spec->network.n_params;
    c->hollow[COMM_ALL] = f.summed;
}

static int init(struct timing *t, struct trainer_env *env, struct err *e)
{
    const struct network *net = &env->spec->network;
    t->env = env;
    t->device.ops = &no_device;
    t->replica =
        (struct dev_replica){.dev = &t->device, .net = net, .optimizer = env->spec->optimizer};
    t->replica.count[DEV_STATS] = net->n_stat_floats;
    for (int b = 0; b < DEV_BLOCKS; b++) {
        t->replica.host[b] = calloc(t->replica.count[b] + 1, sizeof(float));
        if (!t->replica.host[b]) {
            return err_set(e, ERR_MEMORY, "cannot hold a virtual rank: memory ran out");
        }
    }
    t->state = (struct run_state){.params = t->replica.host[DEV_PARAMS],
                                  .optim = t->replica.host[DEV_OPTIM],
                                  .stats = t->replica.host[DEV_STATS],
                                  .n_stats = net->n_stat_floats};
    cursor_init(&t->state.cursor, env->data->train.samples, (int64_t)env->spec->epochs);
    t->decay = calloc(1, 1);
    t->mean_of = start_mean_of(net, e);
    if (!t->decay || !t->mean_of) {
        return err_set(e, ERR_MEMORY, "cannot hold a virtual rank: memory ran out");
    }
    start_rank_env(&t->rank, env, &t->start, env->data->train.samples, env->data->test.samples,
                   t->decay, t->mean_of);
    t->rank.n_params = 0;
    t->rank.replica = &t->replica;
    t->rank.ctx = t;
    t->rank.row = tell_row;
    t->rank.evaluated = tell_nothing;
    t->rank.control = ask_control;
    t->rank.ready = always_ready;
    t->rank.aside = set_aside;
    make_hollow(t);
    return 0;
}

static void release(struct timing *t)
{
    for (int b = 0; b < DEV_BLOCKS; b++) {
        free(t->replica.host[b]);
    }
    free(t->buckets);
    free(t->floats);
    free(t->decay);
    free(t->mean_of);
    free(t);
}

/* ---- a worker -------------------------------------------------------------------------------- */

static int train(struct timing *t, const struct work *w, struct err *e)
{
    struct comm *c = t->env->comm;
    struct dev_result nothing = {.finite = true};
    int count = (int)w->slice.count;
    set_phase(t, PHASE_COMPUTE);
    double begin = comm_now(c), handing = 0;
    t->env->step_begin(t->env->step_ctx);
    for (int b = 0; b < t->n_buckets; b++) {
        comm_pace(c, t->buckets[b].work_done, count);
        if (t->by_bucket) { /* the last bucket leaves with on_gradients */
            c->hollow[COMM_ALL] = t->floats[b];
        }
        double since = comm_now(c);
        t->strategy->ops->on_bucket(t->strategy, w, &t->buckets[b], b, t->n_buckets);
        handing += comm_now(c) - since;
    }
    comm_pace(c, 1, count);
    double seconds = comm_now(c) - begin - handing;
    set_phase(t, PHASE_EXCHANGE);
    return t->strategy->ops->on_gradients(t->strategy, w, &nothing, seconds, e);
}

static int evaluate(struct timing *t, const struct work *w, struct err *e)
{
    struct dev_result nothing = {.finite = true};
    set_phase(t, PHASE_EVALUATE);
    return t->strategy->ops->on_evaluated(t->strategy, w, &nothing, e);
}

static int run(struct timing *t, struct err *e)
{
    int rc = 0;
    while (rc >= 0) {
        struct work w;
        memset(&w, 0, sizeof w);
        set_phase(t, PHASE_EXCHANGE);
        rc = t->strategy->ops->next(t->strategy, &w, e);
        if (rc < 0) {
            break;
        }
        if (w.action != DO_TRAIN && w.action != DO_EVALUATE) {
            return t->strategy->ops->finish(t->strategy, e);
        }
        rc = w.action == DO_TRAIN ? train(t, &w, e) : evaluate(t, &w, e);
    }
    return rc;
}

static struct timing *timing_new(struct trainer_env *env, const struct strategy_ops **ops,
                                 struct err *e)
{
    struct timing *t = calloc(1, sizeof *t);
    *ops = strategy_find(env->spec->strategy.type);
    if (!t || !*ops) {
        err_set(e, t ? ERR_UNSUPPORTED : ERR_MEMORY, "cannot make a virtual rank: %s",
                t ? "this build lacks the strategy" : "memory ran out");
        free(t);
        return NULL;
    }
    if (init(t, env, e) < 0) {
        release(t);
        return NULL;
    }
    return t;
}

int timing_run(struct trainer_env *env, struct err *e)
{
    const struct strategy_ops *ops;
    struct timing *t = timing_new(env, &ops, e);
    if (!t) {
        return -(int)e->code;
    }
    int rc = cut_buckets(t, e);
    if (rc >= 0) {
        t->strategy = ops->start(&t->rank, &t->state, e);
        rc = t->strategy ? run(t, e) : -(int)e->code;
    }
    set_phase(t, PHASE_DONE);
    if (t->strategy) {
        ops->free(t->strategy);
    }
    release(t);
    return rc;
}

int timing_serve(struct trainer_env *env, struct err *e)
{
    const struct strategy_ops *ops;
    struct timing *t = timing_new(env, &ops, e);
    if (!t) {
        return -(int)e->code;
    }
    set_phase(t, PHASE_SERVE);
    t->rank.replica = NULL;
    int rc = ops->serve(&t->rank, &t->state, e);
    set_phase(t, PHASE_DONE);
    release(t);
    return rc;
}
