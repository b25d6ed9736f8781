/* A service of its own for one run: see private.h. */
#include "cli/run/private.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/path.h"
#include "common/process/proc.h"
#include "common/text/logline.h"
#include "store/store.h"

enum { NODES_MOST = 64, OPTIONS = 12, LOG_BYTES = 1 << 20, DIR_BYTES = 80 };
static const double ready_seconds = 90, end_seconds = 45;

/* ---- what it needs --------------------------------------------------------------------------- */

static bool in_path(const char *program)
{
    char dirs[8192], path[PATH_MAX], *rest = NULL;
    const char *given = getenv("PATH");
    snprintf(dirs, sizeof dirs, "%s", given ? given : "/usr/bin:/bin");
    for (char *dir = strtok_r(dirs, ":", &rest); dir; dir = strtok_r(NULL, ":", &rest)) {
        snprintf(path, sizeof path, "%s/%s", dir, program);
        if (access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

static int check_programs(const char *here, struct err *e)
{
    static const char *const others[][2] = {{"redis-server", "redis-server"},
                                            {"mpirun", "openmpi-bin"}};
    static const char why[] = "no service is running, and none can be started for this run";
    char worker[PATH_MAX + 32];
    snprintf(worker, sizeof worker, "%s/evenstep-worker", here);
    if (access(worker, X_OK) != 0) {
        return err_set(e, ERR_NOT_FOUND, "%s: '%.300s' is not there", why, worker);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!in_path(others[i][0])) {
            err_set(e, ERR_NOT_FOUND, "%s: '%s' is not installed", why, others[i][0]);
            return err_hint(e, "install the package %s, or name a service with --url",
                            others[i][1]);
        }
    }
    return 0;
}

/* ---- the keeper ------------------------------------------------------------------------------ */

/* Options of the command line that started us are not the service's. */
static void clear_environment(void)
{
    static const char *const kept[] = {"EVENSTEP_DATA=", "EVENSTEP_CUDA_"};
    for (char **one = environ; *one;) {
        char name[256];
        bool ours = strncmp(*one, "EVENSTEP_", 9) == 0;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
            ours &= strncmp(*one, kept[i], strlen(kept[i])) != 0;
        }
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*one, "="), *one);
        if (!ours || unsetenv(name) != 0) {
            one++;
        } else {
            one = environ; /* the list has changed */
        }
    }
}

static pid_t start_serve(const struct private_service *p, const char *here, int nodes,
                         const char *python)
{
    char evenstep[PATH_MAX + 16], log[PATH_MAX + 16], link[PATH_MAX + 16], names[NODES_MOST][48];
    const char *argv[OPTIONS + 2 * NODES_MOST] = {
        evenstep, "serve", "--data-dir", p->dir, "--listen", "127.0.0.1:0", "--allow-programs"};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 7;
    for (int i = 0; i < nodes; i++) {
        snprintf(names[i], sizeof names[i], "local-%d=cpu:%ld", i + 1,
                 cores > nodes ? cores / nodes : 1);
        argv[n++] = "--local-node";
        argv[n++] = names[i];
    }
    if (python) {
        argv[n++] = "--python";
        argv[n++] = python;
    }
    snprintf(evenstep, sizeof evenstep, "%s/evenstep", here);
    snprintf(log, sizeof log, "%s/serve.log", p->dir);
    snprintf(link, sizeof link, "%s/link", p->dir);
    struct proc_spec spec = {
        .argv = argv, .stdout_path = link, .stderr_path = log, .end_with_parent = true};
    return proc_start(&spec, NULL);
}

static bool ended_within(pid_t pid, double seconds)
{
    for (double until = clock_now() + seconds; !proc_poll(pid, NULL); clock_sleep(0.02)) {
        if (clock_now() > until) {
            return false;
        }
    }
    return true;
}

/* A service that does not end by itself is killed, and what it ran with it. */
static void end_serve(const struct private_service *p, pid_t serve, bool hurry)
{
    char mark[PATH_MAX + 64];
    const char *const marks[] = {mark, NULL};
    kill(serve, hurry ? SIGKILL : SIGTERM);
    if (!ended_within(serve, end_seconds)) {
        kill(serve, SIGKILL);
        ended_within(serve, 5);
    }
    snprintf(mark, sizeof mark, "EVENSTEP_STORE=unix:%s/redis.sock", p->dir);
    for (int i = 0; i < 100 && proc_signal_marked(marks, SIGKILL) > 0; i++) {
        clock_sleep(0.02);
    }
    redis_private_stop(p->dir);
}

/* Its parent waits for `ended` in the folder, or for the link. */
_Noreturn static void keep(const struct private_service *p, const char *here, int nodes,
                           const char *python, int lifeline)
{
    char ended[PATH_MAX + 16], hurry;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    for (int fd = 0; fd < 3; fd++) { /* whoever reads our parent's output does not wait for us */
        dup2(null, fd);
    }
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    clear_environment();
    pid_t serve = start_serve(p, here, nodes, python);
    struct pollfd closed = {.fd = lifeline, .events = POLLIN};
    bool runs = serve > 0;
    while (poll(&closed, 1, 100) <= 0) {
        if (!runs || proc_poll(serve, NULL)) {
            snprintf(ended, sizeof ended, "%s/ended", p->dir);
            proc_write_file(ended, "", 0, 0600, NULL);
            runs = false;
            poll(&closed, 1, -1);
        }
    }
    if (runs) {
        end_serve(p, serve, read(lifeline, &hurry, 1) == 1);
    } else {
        redis_private_stop(p->dir);
    }
    proc_remove_tree(p->dir, NULL);
    _exit(0);
}

/* ---- its parent ------------------------------------------------------------------------------ */

/* Why it did not start: the last line of its log that says so. */
static int explain(const struct private_service *p, struct err *e)
{
    char path[PATH_MAX + 16], why[400] = "", hint[256] = "", *rest = NULL;
    snprintf(path, sizeof path, "%s/serve.log", p->dir);
    char *log = proc_read_file(path, LOG_BYTES, NULL, NULL);
    for (char *line = log ? strtok_r(log, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (logline_value(line, "why", why, sizeof why)) {
            logline_value(line, "hint", hint, sizeof hint);
        }
    }
    free(log);
    err_set(e, ERR_UNAVAILABLE, "cannot start a service for this run: %s",
            *why ? why : "it ended without a word");
    return *hint ? err_hint(e, "%s", hint) : -ERR_UNAVAILABLE;
}

/* The service prints its link once it answers: http://HOST:PORT/#token=CODE. */
static bool read_link(struct private_service *p)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/link", p->dir);
    char *text = proc_read_file(path, sizeof p->link, NULL, NULL);
    char *end = text ? strchr(text, '\n') : NULL, *code = end ? strstr(text, "/#token=") : NULL;
    if (code) {
        *end = '\0';
        snprintf(p->link, sizeof p->link, "%s", text);
        snprintf(p->url, sizeof p->url, "%.*s", (int)(code - text), text);
    }
    free(text);
    return code != NULL;
}

static int await_ready(struct private_service *p, struct err *e)
{
    char ended[PATH_MAX + 16];
    snprintf(ended, sizeof ended, "%s/ended", p->dir);
    for (double until = clock_now() + ready_seconds; !read_link(p); clock_sleep(0.02)) {
        if (access(ended, F_OK) == 0) {
            return explain(p, e);
        }
        if (clock_now() > until || waitpid(p->keeper, NULL, WNOHANG) == p->keeper) {
            return err_set(e, ERR_TIMEOUT, "the service for this run does not answer");
        }
    }
    return 0;
}

static int make_dir(struct private_service *p, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(p->dir, sizeof p->dir, "%s/evenstep-run-XXXXXX",
             tmp && *tmp == '/' && strlen(tmp) < DIR_BYTES ? tmp : "/tmp");
    if (!mkdtemp(p->dir)) {
        return err_errno(e, ERR_IO, "cannot make a folder for a service, '%.300s'", p->dir);
    }
    snprintf(p->token_file, sizeof p->token_file, "%s/token", p->dir);
    return 0;
}

int private_start(struct private_service *p, int nodes, const char *python, struct err *e)
{
    char here[PATH_MAX];
    int ends[2], rc;
    memset(p, 0, sizeof *p);
    p->lifeline = -1;
    path_program_dir(here);
    if (nodes > NODES_MOST) {
        return err_set(e, ERR_INVALID,
                       "no service is running, and one for this run has at most %d "
                       "nodes",
                       NODES_MOST);
    }
    if ((rc = check_programs(here, e)) < 0 || (rc = make_dir(p, e)) < 0) {
        return rc;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        rmdir(p->dir);
        return err_errno(e, ERR_IO, "cannot start a service for this run");
    }
    fflush(NULL);
    p->keeper = fork();
    if (p->keeper == 0) {
        close(ends[1]);
        keep(p, here, nodes, python, ends[0]);
    }
    close(ends[0]);
    p->lifeline = ends[1];
    if (p->keeper < 0) {
        p->keeper = 0;
        rmdir(p->dir);
        return err_errno(e, ERR_IO, "cannot start a service for this run");
    }
    return await_ready(p, e);
}

void private_stop(struct private_service *p, bool hurry)
{
    if (p->lifeline >= 0) {
        signal(SIGPIPE, SIG_IGN); /* the keeper may be gone */
        ssize_t told = hurry ? write(p->lifeline, "!", 1) : 0;
        (void)told;
        close(p->lifeline);
        p->lifeline = -1;
    }
    if (p->keeper > 0) { /* a signal ends the waiting, not the keeper's work */
        waitpid(p->keeper, NULL, 0);
        p->keeper = 0;
    }
}
