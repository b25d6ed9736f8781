/* How programs join. Each worker starts its own, which describes itself. All ranks get rank 0's
 * description, compare it with theirs, and put it into the spec. Then every program gets its block,
 * and writes its first parameters there; those of rank 0 become everybody's.
 *
 *      program      worker                               keeper
 *      JOIN ──────► describe ── rank 0's to all ───────► network, batch
 *                   ◄────────── where the run goes on ── checkpoint, if there is one
 *      ◄─ WELCOME ─ block
 *      READY ─────► ─────────── rank 0's parameters ───► the start (worker/training/start.c)
 *
 * A rank whose program fails says why and ends, and with it the attempt ends. The others wait
 * without a deadline, since a slow node may need long to import a framework. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "job/minibatch/assign.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/exchange/own_state_messages.h"
#include "worker/program/engine_parts.h"
#include "worker/program/start/join.h"

struct resume { /* from the keeper to all */
    int64_t found, epoch, version;
    int64_t states; /* of programs in the checkpoint: one for each worker that it was made with */
};

/* ---- all ranks ------------------------------------------------------------------------------- */

/* Sends rank 0's description to all ranks, and returns it on each; the caller frees it. */
static char *share_text(const struct program *p, struct comm *c, struct err *e)
{
    int64_t length = c->rank == 0 ? (int64_t)strlen(p->about.text) : 0;
    if (comm_broadcast(c, 0, &length, sizeof(length), e) < 0) {
        return NULL;
    }
    char *text = length > 0 && length <= DESCRIPTION_BYTES ? calloc(1, (size_t)length + 1) : NULL;
    if (!text) {
        err_set(e, ERR_PEER, "rank 0 sent a description of %lld bytes", (long long)length);
        return NULL;
    }
    if (c->rank == 0) {
        memcpy(text, p->about.text, (size_t)length);
    }
    if (comm_broadcast(c, 0, text, (size_t)length, e) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* How many slices come ahead of their steps. A server gives a worker one
 * (worker/exchange/server/slices.c). A rank that grants steps has GRANTED_MOST of them out; a step
 * with many samples is not so short that this would help. */
static int slices_ahead(const struct program *p)
{
    enum { MANY_SAMPLES = 4096 };
    const struct jobspec *spec = p->ask.spec;
    bool grants =
        spec->workers == 1 && kept_by_program(spec) && spec->batching.global_batch <= MANY_SAMPLES;
    int told = p->about.ahead;
    return strategy_find(spec->strategy.type)->server ? 1
           : grants && told < GRANTED_MOST            ? GRANTED_MOST
                                                      : told;
}

/* p->about is rank 0's by now. */
int join_apply(struct program *p, struct err *e)
{
    const struct program_ask *ask = &p->ask;
    const struct strategy_ops *strategy = strategy_find(ask->spec->strategy.type);
    int rc = description_apply(&p->about, ask->spec, strategy, e);
    p->ahead = slices_ahead(p);
    p->slots = p->ahead + 2;
    if (rc < 0 && p->there) {
        link_refuse(&p->link, e->message);
    }
    return rc;
}

static int agree(struct program *p, const struct program_ask *ask, struct err *e)
{
    struct description first;
    char *text = share_text(p, ask->comm, e);
    int rc = text ? description_read(&first, text, strlen(text), e) : -(int)e->code;
    free(text);
    if (rc < 0) {
        return rc;
    }
    if (p->there && (rc = description_compare(&p->about, &first, ask->comm->rank, e)) < 0) {
        link_refuse(&p->link, e->message);
        err_prefix(e, "%s cannot take part", p->link.who);
        description_release(&first);
        return rc;
    }
    description_release(&p->about);
    p->about = first;
    return join_apply(p, e);
}

/* Each worker gets its own state. Where the checkpoint has none of it, because there were fewer
 * workers or one was lost, it gets another one's: the optimizers are equal, and other random
 * numbers are as good. */
const struct own_state *join_state_of(const struct checkpoint *from, int states, int rank)
{
    int i = rank % states;
    for (int tried = 0; tried < states && from->own[i].n == 0; tried++) {
        i = (i + 1) % states;
    }
    return &from->own[i];
}

static int hand_states(struct program *p, const struct resume *r, const struct checkpoint *from,
                       struct comm *c, struct err *e)
{
    int rc = 0;
    if (r->states == 0) {
        return 0;
    }
    if (c->rank < c->workers) {
        return own_state_receive(c, c->workers, &p->state, e);
    }
    for (int i = 0; c->rank == c->workers && i < c->workers && rc >= 0; i++) {
        rc = own_state_send(c, i, join_state_of(from, r->states, i), e);
    }
    return rc;
}

/* The epoch in which the run goes on. Slices that were out then may be of an earlier epoch than
 * what comes next. */
static int64_t epoch_of(const struct run_state *state)
{
    int64_t epoch = state->cursor.epoch;
    for (int i = 0; i < state->n_out; i++) {
        epoch = state->out[i].epoch < epoch ? state->out[i].epoch : epoch;
    }
    return epoch;
}

/* Sends WELCOME, which says where the run goes on, as the keeper knows from its checkpoint, and
 * brings the state of the program. */
static int find_resume(struct program *p, struct resume *r, const struct program_ask *ask,
                       struct err *e)
{
    struct comm *c = ask->comm;
    struct checkpoint *from = calloc(1, sizeof(*from));
    int rc = from ? CHECKPOINT_NONE
                  : err_set(e, ERR_MEMORY, "cannot look for a checkpoint: memory ran out");
    memset(r, 0, sizeof(*r));
    if (rc >= 0 && c->rank == c->workers) {
        rc = checkpoint_begin(ask->job_dir, ask->init, ask->spec, from, e);
    }
    if (rc == CHECKPOINT_FOUND) {
        *r = (struct resume){1, epoch_of(&from->state), from->state.version, from->state.n_own};
    }
    if (rc >= 0 && (rc = comm_broadcast(c, c->workers, r, sizeof(*r), e)) >= 0) {
        rc = hand_states(p, r, from, c, e);
    }
    if (from) {
        checkpoint_release(from);
    }
    free(from);
    return rc;
}

/* ---- the start ------------------------------------------------------------------------------- */

int join_make_block(struct program *p, struct err *e)
{
    const struct jobspec *spec = p->ask.spec;
    return block_init(&p->block, &spec->network, spec->bucket_bytes, p->slots,
                      spec->batching.global_batch, kept_by_program(spec), e);
}

static int welcome(struct program *p, const struct resume *r, struct err *e)
{
    const struct entry at = {.resumed = r->found != 0, .epoch = r->epoch, .step = r->version};
    int rc = join_make_block(p, e);
    return rc < 0 ? rc : enter_welcome(p, &at, e);
}

static int check_finite(const struct program *p, const struct network *net, struct err *e)
{
    for (int i = 0; i < net->n_tensors; i++) {
        const struct tensor *t = &net->tensors[i];
        for (size_t k = 0; k < t->count; k++) {
            if (!isfinite(p->block.params[t->first + k])) {
                return err_set(e, ERR_DATA, "%s starts with a NaN or an infinity in tensor '%s'",
                               p->link.who, t->name);
            }
        }
    }
    return 0;
}

/* How many epochs the run has: as rank 0's program says, or, where it does not know, as the job
 * says. If neither does, or if the program says that more may follow, it has as many as it makes.
 * */
void join_settle_epochs(struct program *p, const struct told *told)
{
    struct jobspec *spec = p->ask.spec;
    p->open = told->more || (isinf(told->epochs) && spec->epochs_open);
    double epochs = p->open ? SPEC_EPOCHS_MOST : isinf(told->epochs) ? 0 : told->epochs;
    if (epochs < 1) {
        return;
    }
    if (p->ask.comm->rank == 0 && !spec->epochs_open && told->epochs != spec->epochs) {
        log_warn("program", "the program's epochs hold, not the job's", "program=%g job=%g",
                 told->epochs, spec->epochs);
    }
    spec->epochs = spec->optimizer.epochs = epochs;
}

/* Sends rank 0's first parameters to all ranks, and how many epochs its program asked for. */
static int share_start(struct program *p, const struct program_ask *ask, struct err *e)
{
    const struct network *net = &ask->spec->network;
    struct comm *c = ask->comm;
    struct told told = {.epochs = p->epochs, .more = p->more};
    int rc;
    if (!p->there) {
        p->params = malloc(net->n_params * sizeof(float));
        p->stats = malloc(net->n_stat_floats * sizeof(float) + 1);
        if (!p->params || !p->stats) {
            return err_set(e, ERR_MEMORY, "cannot hold the parameters: memory ran out");
        }
    }
    float *params = p->there ? p->block.params : p->params,
          *stats = p->there ? p->block.stats : p->stats;
    if ((rc = comm_broadcast(c, 0, &told, sizeof(told), e)) < 0 ||
        (rc = comm_broadcast(c, 0, params, net->n_params * sizeof(float), e)) < 0 ||
        (net->n_stat_floats > 0 &&
         (rc = comm_broadcast(c, 0, stats, net->n_stat_floats * sizeof(float), e)) < 0)) {
        return rc;
    }
    join_settle_epochs(p, &told);
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int join(struct program *p, const struct program_ask *ask, struct err *e)
{
    struct resume resume;
    bool works = ask->comm->rank < ask->comm->workers;
    int rc;
    if (jobspec_programs_meet(ask->spec) && (rc = peers_open(&p->peers, ask->comm, e)) < 0) {
        return rc;
    }
    if (works && (rc = enter_start(p, &p->about, e)) < 0) {
        return rc;
    }
    if ((rc = agree(p, ask, e)) < 0 || (rc = find_resume(p, &resume, ask, e)) < 0 ||
        (works && (rc = welcome(p, &resume, e)) < 0) ||
        (works && (rc = check_finite(p, &ask->spec->network, e)) < 0) ||
        (rc = share_start(p, ask, e)) < 0) {
        return rc;
    }
    p->resumed = resume.found != 0;
    if (ask->comm->rank == 0) {
        log_info("program", "all have joined",
                 "framework=\"%s\" parameters=%zu samples=%lld batch=%d epochs=%g optimizer=%s",
                 p->about.framework, ask->spec->network.n_params, (long long)p->about.samples,
                 ask->spec->batching.global_batch, program_epochs(p), p->about.optimizer_name);
    }
    p->runs = true;
    return 0;
}

void join_init(struct program *p, const struct program_ask *ask)
{
    *p = (struct program){.ask = *ask,
                          .telemetry = ask->telemetry,
                          .phase = PHASE_LOAD,
                          .link = LINK_NONE,
                          .peers = {.listener = -1},
                          .block = {.fd = -1},
                          .incarnation = ask->seat,
                          .threads = ask->threads};
    p->child.pidfd = p->child.output = -1;
}

int program_join(struct program *p, const struct program_ask *ask, struct err *e)
{
    double deadline = ask->comm->deadline;
    join_init(p, ask);
    ask->comm->deadline = 0; /* programs start at different speeds; heartbeats tell who is alive */
    int rc = join(p, ask, e);
    ask->comm->deadline = deadline;
    if (rc < 0) {
        program_judge(p, e);
        comm_abandon(ask->comm); /* what is on its way lies in what goes now */
        program_leave(p);
    }
    return rc;
}

void program_leave(struct program *p)
{
    static const double grace_seconds = 2;
    struct program_end end = p->child.end.there ? p->child.end : p->end;
    bool fell = p->fell_first || (p->link.gone && !p->stepped && !p->refused);
    enter_undo(p, grace_seconds);
    peers_close(&p->peers);
    block_release(&p->block);
    description_release(&p->about);
    free(p->params);
    free(p->stats);
    own_state_release(&p->state);
    *p = (struct program){.end = end,
                          .fell_first = fell,
                          .link = LINK_NONE,
                          .peers = {.listener = -1},
                          .block = {.fd = -1}};
}
