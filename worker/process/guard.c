/* See guard.h. The guard sleeps until its worker ends, and asks the store every second whether to
 * end it. It passes on signals that should end the worker. It ends with mpirun or the daemon that
 * started it, and takes the worker with it. */
#include "worker/process/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "job/documents/coordinator/control.h"
#include "job/documents/ranks/fact.h"
#include "job/seal.h"
#include "store/store.h"

static const double retry_seconds = 0.5;
static const double look_seconds = 0.1, look_most = 1, look_share = 0.1; /* await_seat */
static const int look_ms = 1000; /* while its worker lives */

static volatile sig_atomic_t worker, told_to_end; /* the signal that asked for the end, if any */

struct guard {
    char *url, *password; /* of the store; password may be NULL; owned */
    struct sign_key seal;
    bool takes_back; /* its worker may be started again */
    int seat;        /* how often it has been */
    int joining;     /* a pipe's end: its other one is closed once that worker has joined, or died;
                         -1: none is to join */
    struct worker_kept *kept;
    struct fact lost; /* without its message */
};

static void pass_on(int sig)
{
    told_to_end = sig;
    if (worker > 0) {
        kill(worker, sig);
    }
}

/* Copies everything that it needs later, because the arguments are overwritten. */
static bool prepare(struct guard *g, const struct worker_config *c, int rank)
{
    const char *password = getenv("EVENSTEP_STORE_PASSWORD"), *seal = getenv(SEAL_VARIABLE);
    memset(g, 0, sizeof *g);
    g->url = c->store_url ? strdup(c->store_url) : NULL;
    g->password = password ? strdup(password) : NULL;
    g->lost = (struct fact){.type = FACT_LOST, .from = {.attempt = c->attempt, .rank = rank}};
    g->takes_back = plan_takes_back(&c->plan, c->spec);
    g->joining = -1;
    snprintf(g->lost.from.job, sizeof g->lost.from.job, "%s", c->job);
    snprintf(g->lost.node, sizeof g->lost.node, "%s", c->plan.workers[rank].node);
    g->kept =
        mmap(NULL, sizeof *g->kept, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    g->kept = g->kept == MAP_FAILED ? NULL : g->kept;
    return g->kept && g->url && seal && sign_unhex(seal, &g->seal, NULL) == 0;
}

/* Puts the seal into the environment of the next worker. */
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

/* The arguments are contiguous. */
static size_t arguments_room(char **argv)
{
    size_t room = 0;
    for (char **a = argv; *a; a++) {
        room = (size_t)(*a - argv[0]) + strlen(*a) + 1;
    }
    return room;
}

/* A copy of the overwritten text, [room], for a worker that is forked later; never freed. NULL:
 * memory ran out. */
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

static void describe(struct guard *g, int status)
{
    fact_describe_end(g->lost.lost, status);
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

/* Tries until the store has it, because nobody else knows. */
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

/* Reads the coordinator's latest control; false: nothing readable. */
static bool hear(const struct guard *g, struct store *s, struct control *out)
{
    json_t *j = store_doc_get(s, g->lost.from.job, "control", NULL);
    bool ours = j && control_read(out, j, NULL) >= 0 && sender_is(&out->from, &g->lost.from);
    json_decref(j);
    return ours;
}

/* Ends with the attempt, or returns once the worker is to be started again. Asks less and less
 * often, because the coordinator waits longer each time, or for ever. */
static void await_seat(struct guard *g)
{
    struct store *s = NULL;
    struct control c;
    double began = clock_now();
    while (!told_to_end) {
        s = s ? s : open_store(g);
        if (s && hear(g, s, &c) && c.seats[g->lost.from.rank] > g->seat) {
            store_close(s);
            g->seat = c.seats[g->lost.from.rank];
            return;
        }
        double wait = look_share * (clock_now() - began);
        clock_sleep(wait < look_seconds ? look_seconds : wait > look_most ? look_most : wait);
    }
    _exit(128 + told_to_end);
}

/* Kills the worker if the control document lists it, with its seat, among these; true: it did. */
static bool kill_if(const struct guard *g, struct store **s,
                    bool (*among)(const struct control *c, int rank), const char *why)
{
    struct control c;
    int rank = g->lost.from.rank;
    *s = *s ? *s : open_store(g);
    if (!*s || !hear(g, *s, &c) || c.seats[rank] != g->seat || !among(&c, rank)) {
        return false;
    }
    log_warn("guard", why, "rank=%d seat=%d", rank, g->seat);
    kill((pid_t)worker, SIGKILL);
    return true;
}

/* A hanging newcomer counts as lost again. If it was let in before it hung, and has not closed the
 * pipe yet, it counts as silent. */
static bool is_given_up(const struct control *c, int rank)
{
    return control_has_lost(c, rank) || control_has_silent(c, rank);
}

/* Waits until the worker has joined or died. Kills it if the coordinator gives it up. */
static void watch_join(struct guard *g)
{
    struct pollfd joining = {.fd = g->joining};
    struct store *s = NULL;
    while (poll(&joining, 1, look_ms) <= 0 && !told_to_end &&
           !kill_if(g, &s, is_given_up, "a worker that did not join is killed")) {
    }
    store_close(s);
    close(g->joining);
    g->joining = -1;
}

static bool has_ended(int *status)
{
    return waitpid((pid_t)worker, status, WNOHANG) == (pid_t)worker;
}

/* Waits until the worker has ended. Kills it if its heartbeats stand still for too long, because it
 * is stopped or hangs. Its death is then like any other, and the other workers are not told again.
 * On a kernel without pidfd_open (before 5.3), no worker is killed. */
static void watch(struct guard *g, int *status)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, (pid_t)worker, 0), .events = POLLIN};
    struct store *s = NULL;
    while (end.fd >= 0 && !has_ended(status)) {
        if (poll(&end, 1, look_ms) == 0 && !told_to_end) {
            kill_if(g, &s, control_has_silent, "a worker that gives no sign of life is killed");
        }
    }
    store_close(s);
    if (end.fd >= 0) {
        close(end.fd);
        return;
    }
    while (waitpid((pid_t)worker, status, 0) != (pid_t)worker) {
    }
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
    if (g->joining >= 0) {
        watch_join(g);
    }
    watch(g, &status);
    if (!WIFSIGNALED(status) && g->seat == 0) {
        _exit(WEXITSTATUS(status));
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == told_to_end) { /* mpirun ends all: nobody goes
                                                                     on */
        _exit(128 + WTERMSIG(status));
    }
    worker = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        rest(); /* mpirun, which only knows the first process, would end the others */
    }
    describe(g, status);
    log_warn("guard", "the worker has died", "rank=%d how=\"%s\"", g->lost.from.rank, g->lost.lost);
    tell(g); /* also while mpirun ends all ranks, because this one is the cause */
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

/* Forks the next worker; true in that worker. */
static bool start_again(struct guard *g)
{
    int joining[2];
    lend_seal(g);
    pid_t pid = pipe2(joining, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
        rest(); /* cannot fork: nobody joins */
    }
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        close(joining[0]);
        g->joining = joining[1];
        return true;
    }
    worker = pid;
    forget_seal();
    close(joining[1]);
    g->joining = joining[0];
    return false;
}

/* Runs in the guard until the attempt ends. Returns in each worker that is started again. */
static void guard_on(struct guard *g, char **argv)
{
    size_t room = arguments_room(argv);
    forget_seal();
    char *arguments = show_as(argv, room, "evenstep-guard");
    pass_signals();
    for (;;) {
        keep_watch(g);
        if (start_again(g)) {
            if (arguments) {
                memcpy(argv[0], arguments, room);
            }
            return;
        }
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
    c->joining = g.joining;
    c->kept = g.kept;
    free(g.url);
    free(g.password);
    return 0;
}
