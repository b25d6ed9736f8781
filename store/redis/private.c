/* The private redis-server of a data directory: started, found again, ended.
 *
 *   DIR/redis.sock   its socket (or the path in DIR/redis.path, where DIR is too long for a
 *                    socket's 107 bytes)
 *   DIR/redis.pid    written by redis-server
 *   DIR/redis.log    its log
 *   DIR/redis/       append-only file
 *   DIR/redis.lock   held while it is being started, so that two coordinators do not start two
 *
 * The server is a daemon: it outlives a killed coordinator, and the next one finds it by the
 * socket. It syncs each write before it answers (appendfsync always), so an accepted job survives a
 * power cut. A socket on which no server answers is stale and is removed. A server of this folder
 * that has lost its socket is ended first, because two servers would destroy the append-only
 * file. */
#include "store/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/process/proc.h"

enum { SOCKET_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) }; /* 108, with the NUL */
static const double START_S = 60; /* a long append-only file takes this long to load */

struct place {
    char dir[PATH_MAX];        /* absolute */
    char socket[SOCKET_BYTES]; /* "": not known yet */
    char pidfile[PATH_MAX + 16], pathfile[PATH_MAX + 16], logfile[PATH_MAX + 16],
        data[PATH_MAX + 16], lock[PATH_MAX + 16];
};

static int place_find(struct place *p, const char *dir, struct err *e)
{
    memset(p, 0, sizeof *p);
    if (!realpath(dir, p->dir)) {
        return err_errno(e, ERR_IO, "cannot find the data directory '%s'", dir);
    }
    snprintf(p->pidfile, sizeof p->pidfile, "%s/redis.pid", p->dir);
    snprintf(p->pathfile, sizeof p->pathfile, "%s/redis.path", p->dir);
    snprintf(p->logfile, sizeof p->logfile, "%s/redis.log", p->dir);
    snprintf(p->data, sizeof p->data, "%s/redis", p->dir);
    snprintf(p->lock, sizeof p->lock, "%s/redis.lock", p->dir);
    if (strlen(p->dir) + strlen("/redis.sock") < sizeof p->socket) {
        snprintf(p->socket, sizeof p->socket, "%.*s/redis.sock", (int)sizeof p->socket - 12,
                 p->dir);
        return 0;
    }
    size_t n = 0;
    char *path = proc_read_file(p->pathfile, sizeof p->socket, &n, NULL);
    if (path) {
        path[strcspn(path, "\n")] = 0;
        if (path[0] == '/' && strlen(path) < sizeof p->socket) {
            snprintf(p->socket, sizeof p->socket, "%s", path);
        }
        free(path);
    }
    return 0;
}

/* Puts the socket into a short folder of its own, and its path into DIR/redis.path. */
static int place_short(struct place *p, struct err *e)
{
    char folder[] = "/tmp/evenstep-XXXXXX";
    if (!mkdtemp(folder)) {
        return err_errno(e, ERR_IO,
                         "cannot make a folder for the socket of redis-server in '/tmp'");
    }
    snprintf(p->socket, sizeof p->socket, "%s/redis.sock", folder);
    return proc_write_file(p->pathfile, p->socket, strlen(p->socket), 0600, e);
}

/* ---- who is there ---------------------------------------------------------------------------- */

/* Is this process a redis-server that works in our folder? */
static bool is_ours(const struct place *p, long pid)
{
    char name[64], cwd[PATH_MAX + 1];
    snprintf(name, sizeof name, "/proc/%ld/cwd", pid);
    ssize_t n = readlink(name, cwd, PATH_MAX);
    if (n <= 0) {
        return false;
    }
    cwd[n] = 0;
    snprintf(name, sizeof name, "/proc/%ld/comm", pid);
    size_t len = 0;
    char *comm = proc_read_file(name, 64, &len, NULL);
    bool ours = comm && !strncmp(comm, "redis-server", 12) && !strcmp(cwd, p->data);
    free(comm);
    return ours;
}

static long pid_of(const struct place *p)
{
    size_t n = 0;
    char *text = proc_read_file(p->pidfile, 32, &n, NULL);
    long pid = text ? strtol(text, NULL, 10) : 0;
    free(text);
    return pid > 1 && is_ours(p, pid) ? pid : 0;
}

enum listener {
    LISTENER_NONE,
    LISTENER_SILENT, /* it loads, is stuck, or is being killed */
    LISTENER_ANSWERS
};

/* Who listens on the socket. *pid: the process that answers. */
static enum listener find_listener(const struct place *p, int *pid)
{
    struct timeval limit = {2, 0};
    enum listener found = LISTENER_NONE;
    redisContext *c = p->socket[0] ? redisConnectUnixWithTimeout(p->socket, limit) : NULL;
    if (!c || c->err) {
        goto out;
    }
    found = LISTENER_SILENT;
    redisSetTimeout(c, limit);
    redisReply *r = redisCommand(c, "PING");
    if (reply_is_status(r, "PONG")) {
        found = LISTENER_ANSWERS;
    }
    freeReplyObject(r);
    if (found == LISTENER_ANSWERS) {
        r = redisCommand(c, "INFO server");
        const char *at = r && r->type == REDIS_REPLY_STRING ? strstr(r->str, "process_id:") : NULL;
        *pid = at ? (int)strtol(at + 11, NULL, 10) : 0;
        freeReplyObject(r);
    }
out:
    if (c) {
        redisFree(c);
    }
    return found;
}

static bool wait_answer(const struct place *p, int *pid, double seconds)
{
    double until = clock_now() + seconds;
    for (;;) {
        if (find_listener(p, pid) == LISTENER_ANSWERS) {
            return true;
        }
        if (clock_now() > until || (!pid_of(p) && clock_now() > until - seconds + 5)) {
            return false;
        }
        clock_sleep(0.005);
    }
}

/* Waits up to so many seconds until a silent listener answers or ends. */
static enum listener outwait(const struct place *p, int *pid, double seconds)
{
    double until = clock_now() + seconds;
    enum listener found = find_listener(p, pid);
    while (found == LISTENER_SILENT && clock_now() < until) {
        clock_sleep(0.005);
        found = find_listener(p, pid);
    }
    return found;
}

static void end_process(long pid)
{
    uint64_t ticks = proc_start_ticks((pid_t)pid);
    kill((pid_t)pid, SIGTERM);
    double until = clock_now() + 10;
    while (proc_alive((pid_t)pid, ticks) && clock_now() < until) {
        clock_sleep(0.01);
    }
    if (proc_alive((pid_t)pid, ticks)) {
        kill((pid_t)pid, SIGKILL);
        until = clock_now() + 5;
        while (proc_alive((pid_t)pid, ticks) && clock_now() < until) {
            clock_sleep(0.01);
        }
    }
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* The last lines of the server's log, for the error message. */
static void log_tail(const struct place *p, char *out, size_t n)
{
    size_t len = 0;
    char *text = proc_read_file(p->logfile, 1 << 20, &len, NULL);
    out[0] = 0;
    if (text) {
        while (len && text[len - 1] == '\n') {
            text[--len] = 0;
        }
        const char *last = strrchr(text, '\n');
        snprintf(out, n, "%.200s", last ? last + 1 : text);
        free(text);
    }
}

/* Waits for the daemon's parent, which ends at once. *code: its exit code. */
static int wait_for_parent(pid_t pid, int *code, struct err *e)
{
    double until = clock_now() + 10;
    while (!proc_poll(pid, code)) {
        if (clock_now() > until) {
            proc_stop(pid, 1);
            return err_set(
                e, ERR_UNAVAILABLE,
                "cannot start redis-server: it did not go into the background within 10 s");
        }
        clock_sleep(0.002);
    }
    return 0;
}

static int launch(const struct place *p, struct err *e)
{
    const char *const argv[] = {"redis-server",
                                "--port",
                                "0",
                                "--unixsocket",
                                p->socket,
                                "--unixsocketperm",
                                "700",
                                "--dir",
                                p->data,
                                "--appendonly",
                                "yes",
                                "--appendfsync",
                                "always",
                                "--save",
                                "",
                                "--daemonize",
                                "yes",
                                "--pidfile",
                                p->pidfile,
                                "--logfile",
                                p->logfile,
                                "--maxmemory-policy",
                                "noeviction",
                                "--hz",
                                "4",
                                "--stop-writes-on-bgsave-error",
                                "no",
                                NULL};
    struct proc_spec spec = {.argv = argv,
                             .stdout_path = p->logfile,
                             .stderr_path = p->logfile,
                             .cwd = p->data,
                             .new_session = true};
    pid_t pid = proc_start(&spec, e);
    if (pid < 0) {
        err_prefix(e, "cannot start redis-server");
        err_hint(e, "install the package redis-server, or give a store with --store");
        return pid;
    }
    int code = 0;
    int rc = wait_for_parent(pid, &code, e);
    if (rc < 0) {
        return rc;
    }
    if (code) {
        char tail[220];
        log_tail(p, tail, sizeof tail);
        return err_set(e, ERR_UNAVAILABLE,
                       "cannot start redis-server in '%s': it ended with code %d: %s", p->dir, code,
                       tail);
    }
    return 0;
}

static int start_locked(struct place *p, int *pid, struct err *e)
{
    enum listener found = outwait(p, pid, pid_of(p) ? START_S : 5);
    if (found == LISTENER_ANSWERS) {
        return SERVER_WAS_THERE;
    }
    if (found == LISTENER_SILENT) {
        return err_set(e, ERR_UNAVAILABLE, "the private redis-server on '%s' does not answer",
                       p->socket);
    }
    long old = pid_of(p);
    if (old) { /* it is about to listen or to end, or has lost its socket */
        if (wait_answer(p, pid, 3)) {
            return SERVER_WAS_THERE;
        }
        end_process(old);
    }
    if (p->socket[0]) {
        unlink(p->socket);
    }
    unlink(p->pidfile);
    int rc = proc_mkdirs(p->data, 0700, e);
    if (rc < 0) {
        return rc;
    }
    char folder[SOCKET_BYTES];
    snprintf(folder, sizeof folder, "%s", p->socket);
    char *slash = strrchr(folder, '/');
    if (slash) {
        *slash = 0;
    }
    if ((!p->socket[0] || access(folder, W_OK)) && (rc = place_short(p, e)) < 0) {
        return rc;
    }
    if ((rc = launch(p, e)) < 0) {
        return rc;
    }
    if (!wait_answer(p, pid, START_S)) {
        char tail[220];
        log_tail(p, tail, sizeof tail);
        return err_set(e, ERR_UNAVAILABLE, "the private redis-server in '%s' does not answer: %s",
                       p->dir, tail);
    }
    return SERVER_STARTED;
}

int redis_private_start(const char *dir, char *url, int *pid, struct err *e)
{
    struct place p;
    int rc = proc_mkdirs(dir, 0700, e), server = 0;
    if (rc < 0 || (rc = place_find(&p, dir, e)) < 0) {
        return rc;
    }
    int lock = open(p.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0) {
        return err_errno(e, ERR_IO, "cannot open '%s'", p.lock);
    }
    double until = clock_now() + START_S + 10;
    while (flock(lock, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            rc = err_errno(e, ERR_IO, "cannot lock '%s'", p.lock);
            goto out;
        }
        if (clock_now() > until) {
            rc = err_set(
                e, ERR_UNAVAILABLE,
                "cannot start redis-server in '%s': another process has been starting it for a "
                "minute",
                p.dir);
            goto out;
        }
        clock_sleep(0.01);
    }
    if ((rc = place_find(&p, dir, e)) == 0 && (rc = start_locked(&p, &server, e)) >= 0) {
        snprintf(url, 512, "unix:%s", p.socket);
        if (pid) {
            *pid = server;
        }
    }
out:
    close(lock);
    return rc;
}

void redis_private_stop(const char *dir)
{
    struct place p;
    if (place_find(&p, dir, NULL) < 0) {
        return;
    }
    int pid = 0;
    uint64_t ticks = 0;
    if (find_listener(&p, &pid) == LISTENER_ANSWERS && pid > 1) {
        ticks = proc_start_ticks(pid);
        struct timeval limit = {2, 0};
        redisContext *c = redisConnectUnixWithTimeout(p.socket, limit);
        if (c && !c->err) {
            redisSetTimeout(c, limit);
            redisReply *r = redisCommand(c, "SHUTDOWN");
            freeReplyObject(r);
        }
        if (c) {
            redisFree(c);
        }
        double until = clock_now() + 10;
        while (proc_alive(pid, ticks) && clock_now() < until) {
            clock_sleep(0.005);
        }
    }
    long left = pid_of(&p);
    if (left) {
        end_process(left);
    }
    size_t inside = strlen(p.dir);
    if (p.socket[0] &&
        strncmp(p.socket, p.dir, inside)) { /* a short folder is removed with its server */
        unlink(p.socket);
        unlink(p.pathfile);
        char *slash = strrchr(p.socket, '/');
        if (slash) {
            *slash = 0;
            rmdir(p.socket);
        }
    }
}
