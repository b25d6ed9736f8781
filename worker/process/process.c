/* MPI from its start to its end, and the outcome (see process.h). Only this file and comm_mpi.c
 * call MPI. */
#include "worker/process/process.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/exchange/transport/comm_mpi.h"
#include "worker/process/parts.h"

/* How long a rank tries to send its last words. If they were lost while the store is away,
 * everything since the attempt's checkpoint would have to be repeated. The end of a failed rank is
 * no loss. */
static const double farewell_seconds = 60, failed_farewell_seconds = 5;

static volatile sig_atomic_t terminated;

static void on_term(int sig)
{
    (void)sig;
    terminated = 1;
}

static void tell_failure(const struct err *e, const struct program_end *end)
{
    char quoted[700], hint[400], said[500], text[400];
    program_end_said(end, text, sizeof(text));
    log_error("worker", "failed", "code=%s why=%s%s%s%s%s", err_name(e->code),
              log_quote(quoted, sizeof(quoted), e->message), e->hint[0] ? " hint=" : "",
              e->hint[0] ? log_quote(hint, sizeof(hint), e->hint) : "", end->there ? " said=" : "",
              end->there ? log_quote(said, sizeof(said), text) : "");
}

/* For a worker that was started again and fails: did it not join, or did its program end before a
 * step of its own? Then its guard reports it, and the others continue as after a death. */
static bool leaves_alone(const struct process *w)
{
    return w->c->seat > 0 && (!w->joined || w->own.program.fell_first);
}

/* After success only the keeper reports the outcome, once its last file is written. */
static void say_goodbye(struct process *w, int rc, const struct err *e)
{
    static const enum outcome outcomes[] = {[RUN_ENDED] = OUTCOME_FINISHED,
                                            [RUN_PAUSED] = OUTCOME_PAUSED,
                                            [RUN_STOPPED] = OUTCOME_STOPPED};
    const struct program_end *end = &w->own.program.end;
    if (rc < 0) {
        tell_failure(e, end);
    }
    if (w->pulse && !leaves_alone(w) && (rc < 0 || w->rank == w->c->spec->workers)) {
        pulse_ended(w->pulse, rc < 0 ? OUTCOME_FAILED : outcomes[rc], rc < 0 ? e : NULL, end);
    }
    pulse_stop(w->pulse, rc < 0 ? failed_farewell_seconds : farewell_seconds);
}

/* For the keeper: did the attempt go on without a worker that died? */
static bool has_lost(const struct process *w)
{
    int ranks[SPEC_WORKERS];
    const struct telemetry *t = &w->telemetry;
    return w->rank == w->c->spec->workers && t->lost &&
           (t->lost(t->ctx, ranks) > 0 || t->seats(t->ctx, ranks) > 0);
}

/* A worker that is started again is no MPI rank; its first process was. */
static struct transport *open_transport(struct worker_config *c, struct err *e)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return c->seat > 0 ? comm_mpi_open_seat(rank ? (int)strtol(rank, NULL, 10) : 0, c->seat,
                                            c->spec->workers, c->spec->workers + c->plan.servers, e)
                       : comm_mpi_open(e);
}

static int begin_mpi(const struct worker_config *c, struct err *e)
{
    int provided = 0;
    if (c->seat > 0) {
        return 0;
    }
    comm_mpi_prepare();
    if (c->mode == WORKER_JOB && plan_outlives_worker(&c->plan, c->spec)) {
        comm_mpi_end_alone();
    }
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS &&
                   provided >= MPI_THREAD_MULTIPLE
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "this MPI does not offer MPI_THREAD_MULTIPLE");
}

/* Releases everything once the rank has done its part. */
static void release(struct process *w)
{
    comm_release(&w->comm);
    comm_mpi_close(w->transport);
    if (w->data_there) {
        dataset_release(&w->data);
    }
    if (w->c->seat == 0) {
        MPI_Finalize();
    }
    free(w);
}

int process_run(struct worker_config *c, struct err *e)
{
    struct process *w = calloc(1, sizeof(*w));
    if (!w) {
        return err_set(e, ERR_MEMORY, "cannot start a rank: memory ran out");
    }
    if (begin_mpi(c, e) < 0) {
        free(w);
        return -(int)e->code;
    }
    struct sigaction term = {.sa_handler = on_term};
    sigaction(SIGTERM, &term, NULL);
    w->c = c;
    w->stop = &terminated;
    w->own.copy.lock = -1;
    w->transport = user_become(c, e) == 0 ? open_transport(c, e) : NULL;
    if (w->transport) {
        doors_prepare(w);
    }
    int rc = w->transport ? rank_run(w, e) : -(int)e->code;
    rc = own_program_close(w, rc, e);
    if (has_lost(w)) {
        comm_abandon(&w->comm); /* messages to a lost worker never complete */
    }
    say_goodbye(w, rc, e);
    if (rc < 0 && c->seat > 0) {
        return rc; /* its guard reports how it ended */
    }
    if (rc < 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    release(w);
    return 0;
}
