/* evenstep-worker: one MPI rank of a job (process/), or a task that needs no MPI (tasks/).
 *
 *     options ─► plan ─► guard ─► process: MPI, communication thread ─► pulse ─► data, device
 *                                          ─► trainer or keeper ─► "ended" ─► MPI_Finalize
 *
 * Two things come first. Waiting OpenMP threads would take cores from other ranks, and the runtime
 * reads OMP_WAIT_POLICY when it is loaded, so the program sets it and executes itself again.
 * PR_SET_PDEATHSIG ends a rank with the daemon that started it. Exit codes are hints; the store has
 * the outcome.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "store/store.h"
#include "worker/config.h"
#include "worker/process/guard.h"
#include "worker/process/process.h"
#include "worker/tasks/tasks.h"

static const double plan_patience_seconds = 30;

/* ---- before MPI ------------------------------------------------------------------------------ */

static void wait_passively(char **argv)
{
    if (!getenv("OMP_WAIT_POLICY")) {
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execv("/proc/self/exe", argv);
        log_warn("worker", "cannot execute itself again; OpenMP's threads may wait busily", "%s",
                 "");
    }
}

/* Settings of this host alone come as EVENSTEP_MCA_…, because mpirun overwrites OMPI_MCA_… with the
 * settings of all hosts. */
static void adopt_host_settings(void)
{
    static const char prefix[] = "EVENSTEP_MCA_";
    const char *found[16];
    int n = 0;
    for (char **e = environ; *e && n < 16; e++) {
        if (strncmp(*e, prefix, sizeof(prefix) - 1) == 0 && strchr(*e, '=')) {
            found[n++] = *e;
        }
    }
    for (int i = 0; i < n; i++) {
        char name[128];
        const char *rest = found[i] + sizeof(prefix) - 1, *equals = strchr(rest, '=');
        snprintf(name, sizeof(name), "OMPI_MCA_%.*s", (int)(equals - rest), rest);
        setenv(name, equals + 1, 1);
    }
}

/* A copy of the arguments: a worker's guard overwrites the originals while the worker still reads
 * them. Never freed. NULL: memory ran out. */
static char **copy_arguments(int argc, char **argv)
{
    char **copy = calloc((size_t)argc + 1, sizeof(*copy));
    for (int i = 0; copy && i < argc; i++) {
        copy[i] = strdup(argv[i]);
        if (!copy[i]) {
            return NULL;
        }
    }
    return copy;
}

static int read_plan(struct worker_config *c, struct err *e)
{
    struct store *s = store_open(c->store_url, getenv("EVENSTEP_STORE_PASSWORD"), e);
    double until = clock_now() + plan_patience_seconds;
    json_t *plan = NULL;
    if (!s) {
        return -ERR_INVALID;
    }
    for (;;) {
        struct err why = {0};
        plan = store_doc_get(s, c->job, "plan", &why);
        if (plan || why.code == ERR_NONE || clock_now() >= until) {
            if (!plan && e) {
                *e = why;
            }
            break;
        }
        clock_sleep(0.5);
    }
    store_close(s);
    if (!plan) {
        return e && e->code != ERR_NONE
                   ? -(int)e->code
                   : err_set(e, ERR_NOT_FOUND, "the store has no plan for job '%s'", c->job);
    }
    int rc = config_read_plan(c, plan, e);
    json_decref(plan);
    return rc;
}

/* The name by which ranks can open this process's standard output, which mpirun will share; NULL if
 * it is a socket or closed. mpirun's own output then appends to their lines. */
static const char *name_output(char out[32])
{
    snprintf(out, 32, "/proc/%d/fd/1", (int)getpid());
    int flags = fcntl(STDOUT_FILENO, F_GETFL), fd = open(out, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || flags < 0 || fcntl(STDOUT_FILENO, F_SETFL, flags | O_APPEND) < 0) {
        out = NULL;
    }
    if (fd >= 0) {
        close(fd);
    }
    return out;
}

/* --local without mpirun: becomes mpirun with one rank per worker and server. */
static int launch_local(struct worker_config *c, char **argv, struct err *e)
{
    int rc = config_make_local(c, e);
    if (rc < 0) {
        return rc;
    }
    char ranks[16], self[4096], output[32];
    const char *lines = c->lines ? NULL : name_output(output);
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    snprintf(ranks, sizeof(ranks), "%d", c->spec->workers + c->plan.servers);
    const char *fixed[] = {"mpirun",    "--oversubscribe",
                           "--bind-to", "none",
                           "--mca",     "mpi_yield_when_idle",
                           "1",         "-np",
                           ranks,       self,
                           "--lines",   lines};
    enum { FIXED = sizeof(fixed) / sizeof(fixed[0]) };
    int given = 0;
    while (argv[given]) {
        given++;
    }
    const char **line = calloc((size_t)(FIXED + given + 1), sizeof(*line));
    if (!line) {
        return err_set(e, ERR_MEMORY, "cannot start mpirun: memory ran out");
    }
    int before = lines ? FIXED : FIXED - 2;
    memcpy(line, fixed, sizeof(*line) * (size_t)before);
    memcpy(line + before, argv + 1, sizeof(*argv) * (size_t)given);
    execvp("mpirun", (char **)line);
    free(line);
    return err_errno(e, ERR_IO, "cannot start mpirun");
}

/* Returns only in the rank; the guard ends with it. */
static int run_rank(struct worker_config *c, char **argv, struct err *e)
{
    int rc;
    if (c->mode == WORKER_LOCAL) {
        rc = getenv("OMPI_COMM_WORLD_SIZE") ? config_make_local(c, e) : launch_local(c, argv, e);
        return rc < 0 ? rc : process_run(c, e);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((rc = read_plan(c, e)) < 0 || (rc = guard_begin(c, argv, e)) < 0) {
        return rc;
    }
    return process_run(c, e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct worker_config c = {0};
    adopt_host_settings();
    wait_passively(argv);
    char **arguments = copy_arguments(argc, argv);
    int rc = arguments ? config_parse(&c, argc - 1, arguments + 1, &e)
                       : err_set(&e, ERR_MEMORY, "cannot read the command line: memory ran out");
    if (rc == 0) {
        rc = tasks_has(c.mode) ? tasks_run(&c, &e) : run_rank(&c, argv, &e);
    }
    if (rc < 0) {
        char quoted[700];
        log_error("worker", "cannot run", "code=%s why=%s", err_name(e.code),
                  log_quote(quoted, sizeof(quoted), e.message));
    }
    config_release(&c);
    return rc < 0 ? 1 : 0;
}
