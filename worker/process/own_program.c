/* A rank's own program (see parts.h): where it runs and writes, and how it joins the others at the
 * attempt's start or after a death. worker/program/ has the messages between both. */
#include "worker/process/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/transport/comm_mpi.h"
#include "worker/program/files/copy.h"

/* For the keeper. A rank 0 that is to take its seat again counts as gone until it has taken it. */
static bool first_is_gone(void *ctx)
{
    const struct process *w = ctx;
    const struct telemetry *t = &w->telemetry;
    int ranks[SPEC_WORKERS], seats[SPEC_WORKERS], n = t->lost ? t->lost(t->ctx, ranks) : 0;
    bool gone = t->seats && t->seats(t->ctx, seats) > 0 && seats[0] > 0 &&
                !comm_mpi_has_joined(w->transport, 0);
    for (int i = 0; i < n; i++) {
        gone |= ranks[i] == 0;
    }
    return gone;
}

/* Copies an uploaded program into this rank's own folder; *folder is unchanged for other
 * programs. */
static int copy_program(struct process *w, const char **folder, struct err *e)
{
    const struct worker_config *c = w->c;
    const struct copy_ask ask = {.comm = &w->comm,
                                 .telemetry = &w->telemetry,
                                 .digest = c->spec->program.digest,
                                 .archive = c->plan.program_archive,
                                 .received = {c->cache, c->cache_bytes},
                                 .works = w->rank < c->spec->workers,
                                 .alone = c->seat != 0};
    if (!c->spec->program.digest[0]) {
        return 0;
    }
    if (!c->plan.program_archive[0]) {
        return err_set(e, ERR_NOT_FOUND, "a program by its digest needs a service that has it");
    }
    int rc = copy_open(&w->own.copy, &ask, e);
    *folder = rc == 0 && w->own.copy.path[0] ? w->own.copy.path : NULL;
    return rc;
}

/* Nobody waits for a program that starts again, so the worker reaches the keeper after the
 * start. */
static int return_program(struct process *w, const struct program_ask *ask, struct err *e)
{
    struct program *p = &w->own.program;
    struct seat *seat = &w->own.seat;
    int rc;
    if ((rc = program_return(p, ask, e)) < 0 || (rc = doors_reach_keeper(w, e)) < 0 ||
        (rc = seat_take(&w->comm, seat, e)) < 0) {
        program_leave(p);
        return rc;
    }
    rc = jobspec_uses_server(ask->spec) ? program_go_on(p, seat->epoch, seat->version, e)
                                        : program_await(p, seat->epochs, seat->open, e);
    if (rc < 0) {
        program_leave(p);
    }
    return rc;
}

/* Takes the program's description, which all ranks know by then. */
static int take_description(struct process *w, struct err *e)
{
    struct worker_config *c = w->c;
    const struct program *p = &w->own.program;
    int rc = config_size_batches(c, e);
    if (rc < 0) {
        return rc;
    }
    if (c->seat == 0) {
        struct joined joined;
        program_joined(p, c->spec, &joined);
        w->telemetry.joined(w->telemetry.ctx, &joined, c->plan.first_sizes);
    }
    w->data.train.samples = p->about.samples;
    snprintf(w->data.digest, sizeof(w->data.digest), "program %016llx",
             (unsigned long long)program_hash(p));
    return 0;
}

int own_program_open(struct process *w, const char *node, struct err *e)
{
    struct worker_config *c = w->c;
    struct own_program *own = &w->own;
    const char *device = w->rank < c->spec->workers ? c->plan.workers[w->rank].device : "cpu:1";
    int threads = strncmp(device, "cpu:", 4) == 0 ? (int)strtol(device + 4, NULL, 10) : 1, rc;
    const char *job_dir = c->plan.job_dir[0] ? c->plan.job_dir : NULL,
               *init = c->plan.init_path[0] ? c->plan.init_path : NULL,
               *folder = c->plan.program_folder[0] ? c->plan.program_folder : NULL;
    const struct results_ask results = {.comm = &w->comm,
                                        .telemetry = &w->telemetry,
                                        .job_dir = c->plan.job_dir,
                                        .cache = c->cache,
                                        .program = &own->copy,
                                        .local = c->mode == WORKER_LOCAL,
                                        .first_is_gone = first_is_gone,
                                        .ctx = w};
    if ((rc = copy_program(w, &folder, e)) < 0 ||
        (rc = results_open(&own->results, &results, e)) < 0) {
        return rc;
    }
    const struct program_ask ask = {.comm = &w->comm,
                                    .telemetry = &w->telemetry,
                                    .spec = c->spec,
                                    .job = c->job,
                                    .node = node,
                                    .job_dir = job_dir,
                                    .init = init,
                                    .folder = folder,
                                    .data = c->plan.roots,
                                    .output = own->results.folder[0] ? own->results.folder : NULL,
                                    .device = device,
                                    .threads = threads > 0 ? threads : 1,
                                    .attempt = c->attempt,
                                    .seat = c->seat};
    rc = c->seat > 0 ? return_program(w, &ask, e) : program_join(&own->program, &ask, e);
    return rc < 0 ? rc : take_description(w, e);
}

int own_program_close(struct process *w, int rc, struct err *e)
{
    if (rc >= 0 && results_bring(&w->own.results, e) < 0) {
        rc = -(int)e->code;
    }
    own_folder_remove(&w->own.copy);
    results_close(&w->own.results);
    return rc;
}
