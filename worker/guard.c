/* See guard.h. The guard sleeps in waitpid() until its worker ends. Signals that are meant to end
 * the worker are passed on. It ends with mpirun or the daemon that started it, and takes the worker
 * with it. */
#include "worker/guard.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "job/documents/ranks/fact.h"
#include "job/seal.h"
#include "store/store.h"

static const double retry_seconds = 0.5;

static volatile sig_atomic_t worker, told_to_end; /* the signal, if one has asked for that */

struct guard {
    char *url, *password; /* of the store; password may be NULL; owned */
    struct sign_key seal;
    struct fact lost; /* but for its message */
};

static void pass_on(int sig)
{
    told_to_end = sig;
    if (worker > 0) {
        kill(worker, sig);
    }
}

/* Everything it needs later: the arguments are overwritten. */
static bool prepare(struct guard *g, const struct worker_config *c, int rank)
{
    const char *password = getenv("EVENSTEP_STORE_PASSWORD"), *seal = getenv(SEAL_VARIABLE);
    memset(g, 0, sizeof *g);
    g->url = c->store_url ? strdup(c->store_url) : NULL;
    g->password = password ? strdup(password) : NULL;
    g->lost = (struct fact){
        .type = FACT_LOST, .from = {.attempt = c->attempt, .rank = rank}, .number = FACT_LAST};
    snprintf(g->lost.from.job, sizeof g->lost.from.job, "%s", c->job);
    snprintf(g->lost.node, sizeof g->lost.node, "%s", c->plan.workers[rank].node);
    return g->url && seal && sign_unhex(seal, &g->seal, NULL) == 0;
}

static void forget_seal(void)
{
    char *seal = getenv(SEAL_VARIABLE);
    if (seal) {
        memset(seal, '0', strlen(seal));
    }
}

/* The arguments stand one after the other. */
static void show_as(char **argv, const char *text)
{
    size_t room = 0;
    for (char **a = argv; *a; a++) {
        room = (size_t)(*a - argv[0]) + strlen(*a) + 1;
    }
    memset(argv[0], 0, room);
    snprintf(argv[0], room, "%s", text);
}

/* As mpirun has it. */
static void describe(struct guard *g, int sig)
{
    snprintf(g->lost.lost, sizeof g->lost.lost, "exited on signal %d (%s)", sig, strsignal(sig));
}

/* Until the store has it: nobody else knows. */
static void tell(const struct guard *g)
{
    json_t *j = fact_json(&g->lost);
    for (;;) {
        struct err why = {0};
        struct store *s = store_open(g->url, g->password, &why);
        int rc = s ? 0 : -1;
        if (s) {
            store_seal_with(s, &g->seal);
            rc = store_fact_add(s, g->lost.from.job, j, &why);
            store_close(s);
        }
        if (rc >= 0) {
            break;
        }
        clock_sleep(retry_seconds);
    }
    json_decref(j);
}

/* Does not return. */
static void keep_watch(struct guard *g)
{
    int status = 0;
    struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &forward, NULL);
    sigaction(SIGINT, &forward, NULL);
    while (waitpid((pid_t)worker, &status, 0) != (pid_t)worker) {
    }
    if (!WIFSIGNALED(status)) {
        _exit(WEXITSTATUS(status));
    }
    if (WTERMSIG(status) == told_to_end) { /* mpirun ends all ranks: nobody goes on */
        _exit(128 + WTERMSIG(status));
    }
    describe(g, WTERMSIG(status));
    log_warn("guard", "the worker has died", "rank=%d how=\"%s\"", g->lost.from.rank, g->lost.lost);
    worker = 0;
    tell(g); /* also while mpirun ends all ranks, since others failed because of this one */
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    while (!told_to_end) {
        pause(); /* ends with the attempt */
    }
    _exit(128 + told_to_end);
}

static int my_rank(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    return text ? (int)strtol(text, NULL, 10) : -1;
}

int guard_begin(const struct worker_config *c, char **argv, struct err *e)
{
    struct guard g;
    int rank = my_rank();
    if (rank < 0 || rank >= c->plan.n_workers || !plan_outlives_worker(&c->plan, c->spec)) {
        return 0;
    }
    pid_t parent = getpid(), pid = prepare(&g, c, rank) ? fork() : 0;
    if (pid < 0) {
        return err_errno(e, ERR_INTERNAL, "cannot start the worker's process");
    }
    if (pid > 0) {
        worker = pid;
        forget_seal();
        show_as(argv, "evenstep-guard");
        keep_watch(&g);
    }
    if (getpid() != parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    free(g.url);
    free(g.password);
    return 0;
}
