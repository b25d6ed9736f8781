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
#include "job/documents/coordinator/control.h"
#include "job/documents/ranks/fact.h"
#include "job/seal.h"
#include "store/store.h"

static const double retry_seconds = 0.5, look_seconds = 0.1;

static volatile sig_atomic_t worker, told_to_end; /* the signal, if one has asked for that */

struct guard {
    char *url, *password; /* of the store; password may be NULL; owned */
    struct sign_key seal;
    bool takes_back;  /* its worker may be started again */
    int seat;         /* how often it was */
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
    g->lost = (struct fact){.type = FACT_LOST, .from = {.attempt = c->attempt, .rank = rank}};
    g->takes_back = plan_takes_back(&c->plan, c->spec);
    snprintf(g->lost.from.job, sizeof g->lost.from.job, "%s", c->job);
    snprintf(g->lost.node, sizeof g->lost.node, "%s", c->plan.workers[rank].node);
    return g->url && seal && sign_unhex(seal, &g->seal, NULL) == 0;
}

/* For the worker that is forked next. */
static void lend_seal(const struct guard *g)
{
    char text[SIGN_HEX];
    sign_hex(&g->seal, text);
    setenv(SEAL_VARIABLE, text, 1);
}

static void forget_seal(void)
{
    char *seal = getenv(SEAL_VARIABLE);
    if (seal) {
        memset(seal, '0', strlen(seal));
    }
}

/* The arguments stand one after the other. */
static size_t arguments_room(char **argv)
{
    size_t room = 0;
    for (char **a = argv; *a; a++) {
        room = (size_t)(*a - argv[0]) + strlen(*a) + 1;
    }
    return room;
}

/* What stood there, [room], for a worker that is forked later; never freed. NULL: memory ran out.
 */
static char *show_as(char **argv, size_t room, const char *text)
{
    char *before = malloc(room);
    if (before) {
        memcpy(before, argv[0], room);
    }
    memset(argv[0], 0, room);
    snprintf(argv[0], room, "%s", text);
    return before;
}

/* As mpirun has it. */
static void describe(struct guard *g, int status)
{
    if (WIFSIGNALED(status)) {
        snprintf(g->lost.lost, sizeof g->lost.lost, "exited on signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(g->lost.lost, sizeof g->lost.lost, "exited with code %d", WEXITSTATUS(status));
    }
    g->lost.number = fact_number_last(g->seat);
}

static struct store *open_store(const struct guard *g)
{
    struct store *s = store_open(g->url, g->password, NULL);
    if (s) {
        store_seal_with(s, &g->seal);
    }
    return s;
}

/* Until the store has it: nobody else knows. */
static void tell(const struct guard *g)
{
    json_t *j = fact_json(&g->lost);
    for (;;) {
        struct store *s = open_store(g);
        int rc = s ? store_fact_add(s, g->lost.from.job, j, NULL) : -1;
        store_close(s);
        if (rc >= 0) {
            break;
        }
        clock_sleep(retry_seconds);
    }
    json_decref(j);
}

/* How often the coordinator has this rank's worker started again. */
static int wanted_seat(const struct guard *g, struct store *s)
{
    json_t *j = store_doc_get(s, g->lost.from.job, "control", NULL);
    struct control c;
    bool ours = j && control_read(&c, j, NULL) >= 0 && sender_is(&c.from, &g->lost.from);
    json_decref(j);
    return ours ? c.seats[g->lost.from.rank] : 0;
}

/* Ends with the attempt, or returns once the worker is to be started again. */
static void await_seat(struct guard *g)
{
    struct store *s = NULL;
    while (!told_to_end) {
        s = s ? s : open_store(g);
        int seat = s ? wanted_seat(g, s) : 0;
        if (seat > g->seat) {
            store_close(s);
            g->seat = seat;
            return;
        }
        clock_sleep(look_seconds);
    }
    _exit(128 + told_to_end);
}

static void rest(void)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    while (!told_to_end) {
        pause(); /* ends with the attempt */
    }
    _exit(128 + told_to_end);
}

/* Returns once the worker is to be started again. */
static void keep_watch(struct guard *g)
{
    int status = 0;
    while (waitpid((pid_t)worker, &status, 0) != (pid_t)worker) {
    }
    if (!WIFSIGNALED(status) && g->seat == 0) {
        _exit(WEXITSTATUS(status));
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == told_to_end) { /* mpirun ends all: nobody goes
                                                                     on */
        _exit(128 + WTERMSIG(status));
    }
    worker = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        rest(); /* mpirun, which knows the first process alone, would end the others */
    }
    describe(g, status);
    log_warn("guard", "the worker has died", "rank=%d how=\"%s\"", g->lost.from.rank, g->lost.lost);
    tell(g); /* also while mpirun ends all ranks, since others failed because of this one */
    if (!g->takes_back) {
        rest();
    }
    await_seat(g);
}

static int my_rank(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    return text ? (int)strtol(text, NULL, 10) : -1;
}

static void pass_signals(void)
{
    struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &forward, NULL);
    sigaction(SIGINT, &forward, NULL);
}

/* In the guard: until the attempt ends. Returns in each worker that is started again. */
static void guard_on(struct guard *g, char **argv)
{
    size_t room = arguments_room(argv);
    forget_seal();
    char *arguments = show_as(argv, room, "evenstep-guard");
    pass_signals();
    for (;;) {
        keep_watch(g);
        lend_seal(g);
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGTERM, SIG_DFL);
            signal(SIGINT, SIG_DFL);
            if (arguments) {
                memcpy(argv[0], arguments, room);
            }
            return;
        }
        if (pid < 0) {
            rest(); /* no process is to be had: nobody joins */
        }
        worker = pid;
        forget_seal();
    }
}

int guard_begin(struct worker_config *c, char **argv, struct err *e)
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
        guard_on(&g, argv);
    }
    if (getpid() != parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    c->seat = g.seat;
    free(g.url);
    free(g.password);
    return 0;
}
