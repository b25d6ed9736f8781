/* How programs join: each worker starts its own, which describes itself; rank 0's description goes
 * to all ranks, which compare it with theirs and put it into the spec; then every program gets its
 * block and writes its first parameters there, of which rank 0's are everybody's.
 *
 *      program      worker                               keeper
 *      JOIN ──────► describe ── rank 0's to all ───────► network, batch
 *                   ◄────────── where the run goes on ── checkpoint, if there is one
 *      ◄─ WELCOME ─ block
 *      READY ─────► ─────────── rank 0's parameters ───► the start (worker/start.c)
 *
 * A rank whose program fails says why and ends, which ends the attempt: the others wait without a
 * deadline meanwhile, since importing a framework takes its time on a slow node. */
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/proc.h"
#include "job/assign.h"
#include "worker/checkpoint.h"
#include "worker/program/program.h"

struct resume { /* from the keeper to all */
    int64_t found, epoch, version;
};

struct wire_message program_message(uint32_t type, uint32_t flags)
{
    struct wire_message m;
    memset(&m, 0, sizeof(m));
    m.type = type;
    m.flags = flags;
    return m;
}

static void tell_phase(void *ctx)
{
    const struct program *p = ctx;
    p->telemetry->phase(p->telemetry->ctx, p->phase);
}

void program_phase(struct program *p, enum phase phase)
{
    p->phase = phase;
    tell_phase(p);
}

/* ---- the process ----------------------------------------------------------------------------- */

/* What stands beside our own executable: libevenstep and the Python package. */
static void find_own(char library[4096], char python[4096])
{
    static const char *const places[] = {"python", "../client/python", "../share/evenstep/python"};
    char self[3900];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *folder = dirname(self);
    snprintf(library, 4096, "%s/libevenstep.so", folder);
    python[0] = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !python[0]; i++) {
        snprintf(python, 4096, "%s/%s", folder, places[i]);
        if (access(python, R_OK) != 0) {
            python[0] = '\0';
        }
    }
}

static int start_program(struct program *p, const struct program_ask *ask, struct err *e)
{
    char library[4096], python[4096];
    const struct program_spec *spec = &ask->spec->program;
    int rank = ask->comm->rank, rc;
    find_own(library, python);
    if ((rc = link_open(&p->link, &p->child, rank, ask->node, spec->patience_seconds, e)) < 0) {
        return rc;
    }
    p->link.watch = tell_phase;
    p->link.watch_ctx = p;
    const struct child_ask child = {.program = spec,
                                    .folder = ask->folder,
                                    .socket = p->link.path,
                                    .job = ask->job ? ask->job : "local",
                                    .output = ask->output ? ask->output : p->link.folder,
                                    .library = library,
                                    .data = ask->data,
                                    .python_path = python[0] ? python : NULL,
                                    .rank = rank,
                                    .workers = ask->comm->workers,
                                    .threads = ask->threads};
    if (ask->output && (rc = proc_mkdirs(ask->output, 0755, e)) < 0) {
        return rc;
    }
    p->there = true;
    if ((rc = child_start(&p->child, &child, e)) == 0) {
        log_info("program", "started", "pid=%d name=\"%s\" command=\"%.100s\" folder=\"%.200s\"",
                 (int)p->child.pid, spec->name, json_string_value(json_array_get(spec->command, 0)),
                 ask->folder ? ask->folder : "");
    }
    return rc;
}

static int hear_description(struct program *p, struct err *e)
{
    struct wire_message join;
    char *text;
    size_t n;
    int rc = link_accept(&p->link, &join, &text, &n, e);
    if (rc < 0) {
        return rc;
    }
    if ((rc = description_read(&p->about, text, n, e)) < 0) {
        link_refuse(&p->link, e->message);
    }
    free(text);
    p->link.stack_signal = p->about.stack_signal;
    return rc;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

/* Rank 0's description, to everybody; the caller frees. */
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

static int agree(struct program *p, const struct program_ask *ask, struct err *e)
{
    struct description first;
    char *text = share_text(p, ask->comm, e);
    int rc = text ? description_read(&first, text, strlen(text), e) : -ERR_PEER;
    free(text);
    if (rc < 0) {
        return rc;
    }
    if (p->there && (rc = description_compare(&p->about, &first, ask->comm->rank, e)) < 0) {
        link_refuse(&p->link, e->message);
        description_release(&first);
        return rc;
    }
    description_release(&p->about);
    p->about = first;
    /* a server gives a worker one slice in advance (worker/exchange/server_slices.c) */
    p->ahead = jobspec_uses_server(ask->spec) ? 1 : p->about.ahead;
    p->slots = p->ahead + 2;
    rc = description_apply(&p->about, ask->spec, e);
    if (rc < 0 && p->there) {
        link_refuse(&p->link, e->message);
    }
    return rc;
}

/* WELCOME says where the run goes on, which the keeper knows from its checkpoint. */
static int find_resume(struct resume *r, const struct program_ask *ask, struct err *e)
{
    struct comm *c = ask->comm;
    int rc = 0;
    memset(r, 0, sizeof(*r));
    if (c->rank == c->workers && ask->job_dir) {
        struct checkpoint *from = calloc(1, sizeof(*from));
        rc = from ? checkpoint_newest(ask->job_dir, ask->spec, from, e) : -ERR_MEMORY;
        if (rc == 0) {
            *r = (struct resume){1, from->state.cursor.epoch, from->state.version};
            checkpoint_release(from);
        }
        free(from);
    }
    return rc < 0 ? rc : comm_broadcast(c, c->workers, r, sizeof(*r), e);
}

/* ---- welcome --------------------------------------------------------------------------------- */

int program_aside(struct program *p, const struct wire_message *m, int fd, struct err *e)
{
    char *text = NULL;
    size_t n;
    int rc = 1;
    switch (m->type) {
    case WIRE_EPOCHS:
        p->epochs = m->epochs;
        break;
    case WIRE_FAILED:
        text = link_read_text(fd, 1 << 16, &n);
        rc = err_set(e, ERR_PEER, "%s cannot go on: %.300s", p->link.who, text ? text : "");
        break;
    default:
        return 0;
    }
    free(text);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int welcome(struct program *p, const struct program_ask *ask, const struct resume *r,
                   struct err *e)
{
    const struct jobspec *spec = ask->spec;
    struct wire_message m = program_message(WIRE_WELCOME, r->found ? WIRE_RESUMED : 0);
    int fds[2], fd = -1, rc;
    if ((rc = block_init(&p->block, &spec->network, spec->bucket_bytes, p->slots,
                         spec->batching.global_batch, e)) < 0) {
        return rc;
    }
    m.welcome.magic = WIRE_MAGIC;
    m.welcome.version = WIRE_VERSION;
    m.welcome.rank = ask->comm->rank;
    m.welcome.workers = ask->comm->workers;
    m.welcome.ahead = p->ahead;
    m.welcome.epoch = r->epoch;
    m.welcome.step = r->version;
    m.welcome.seed = spec->seed;
    block_describe(&p->block, &spec->network, &m);
    fds[0] = p->block.fd;
    fds[1] = -1;
    if ((rc = link_send(&p->link, &m, fds, e)) < 0) {
        return rc;
    }
    do {
        rc = link_receive(&p->link, &m, &fd, e);
        rc = rc < 0 ? rc : program_aside(p, &m, fd, e);
    } while (rc == 1);
    if (rc == 0 && m.type != WIRE_READY) {
        rc = err_set(e, ERR_PEER, "%s sent message %u where its first parameters were due",
                     p->link.who, m.type);
    }
    return rc;
}

static int check_finite(const struct program *p, const struct network *net, struct err *e)
{
    for (int i = 0; i < net->n_tensors; i++) {
        const struct tensor *t = &net->tensors[i];
        for (size_t k = 0; k < t->count; k++) {
            if (!isfinite(p->block.params[t->first + k])) {
                return err_set(e, ERR_DATA,
                               "%s starts with a value that is no finite number in tensor '%s'",
                               p->link.who, t->name);
            }
        }
    }
    return 0;
}

/* Rank 0's first parameters, to all; and how many epochs it asked for. */
static int share_start(struct program *p, const struct program_ask *ask, struct err *e)
{
    const struct network *net = &ask->spec->network;
    struct comm *c = ask->comm;
    double epochs = p->epochs;
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
    if ((rc = comm_broadcast(c, 0, &epochs, sizeof(epochs), e)) < 0 ||
        (rc = comm_broadcast(c, 0, params, net->n_params * sizeof(float), e)) < 0 ||
        (net->n_stat_floats > 0 &&
         (rc = comm_broadcast(c, 0, stats, net->n_stat_floats * sizeof(float), e)) < 0)) {
        return rc;
    }
    if (epochs >= 1) {
        if (c->rank == 0 && epochs != ask->spec->epochs) {
            log_warn("program", "the program's epochs hold, not the job's", "program=%g job=%g",
                     epochs, ask->spec->epochs);
        }
        ask->spec->epochs = ask->spec->optimizer.epochs = epochs;
    }
    p->epochs = ask->spec->epochs;
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int join(struct program *p, const struct program_ask *ask, struct err *e)
{
    struct resume resume;
    bool works = ask->comm->rank < ask->comm->workers;
    int rc;
    if (works && ((rc = start_program(p, ask, e)) < 0 || (rc = hear_description(p, e)) < 0)) {
        return rc;
    }
    if ((rc = agree(p, ask, e)) < 0 || (rc = find_resume(&resume, ask, e)) < 0 ||
        (works && (rc = welcome(p, ask, &resume, e)) < 0) ||
        (works && (rc = check_finite(p, &ask->spec->network, e)) < 0) ||
        (rc = share_start(p, ask, e)) < 0) {
        return rc;
    }
    p->resumed = resume.found != 0;
    if (ask->comm->rank == 0) {
        log_info("program", "all have joined",
                 "framework=\"%s\" parameters=%zu samples=%lld batch=%d epochs=%g optimizer=%s",
                 p->about.framework, ask->spec->network.n_params, (long long)p->about.samples,
                 ask->spec->batching.global_batch, ask->spec->epochs, p->about.optimizer_name);
    }
    return 0;
}

int program_join(struct program *p, const struct program_ask *ask, struct err *e)
{
    double deadline = ask->comm->deadline;
    *p = (struct program){.telemetry = ask->telemetry,
                          .phase = PHASE_LOAD,
                          .link = {.listener = -1, .fd = -1},
                          .block = {.fd = -1},
                          .threads = ask->threads};
    p->child.pidfd = p->child.output = -1;
    ask->comm->deadline = 0; /* programs start at different speeds; heartbeats tell who is alive */
    int rc = join(p, ask, e);
    ask->comm->deadline = deadline;
    if (rc < 0) {
        comm_abandon(ask->comm); /* what is on its way lies in what goes now */
        program_leave(p);
    }
    return rc;
}

void program_joined(const struct program *p, const struct jobspec *spec, struct joined *out)
{
    *out = (struct joined){.parameters = (int64_t)spec->network.n_params,
                           .tensors = spec->network.n_tensors,
                           .samples = p->about.samples,
                           .global_batch = spec->batching.global_batch,
                           .epochs = spec->epochs};
    snprintf(out->framework, sizeof(out->framework), "%s", p->about.framework);
    snprintf(out->optimizer, sizeof(out->optimizer), "%s", p->about.optimizer_name);
}

void program_leave(struct program *p)
{
    static const double grace_seconds = 2;
    if (p->there) {
        child_stop(&p->child, grace_seconds);
    }
    link_close(&p->link);
    block_release(&p->block);
    description_release(&p->about);
    free(p->params);
    free(p->stats);
    *p = (struct program){.link = {.listener = -1, .fd = -1}, .block = {.fd = -1}};
}
