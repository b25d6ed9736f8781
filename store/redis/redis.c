/* The connection to Redis, and commands with checked replies. The connection is opened at first
 * use, checked before each command, and opened again after a failure. Everything else in store/
 * uses these few functions; script.c runs scripts with them, reply.c reads what they return.
 *
 * A command whose reply did not come back may have been carried out, so it is never sent twice. A
 * connection that the server closed while it was idle (Redis was restarted) is noticed before
 * sending, by a poll of the socket, so that such a restart costs no call.
 */
#include "store/internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/machine/disk.h"
#include "job/seal.h"

/* ---- opening --------------------------------------------------------------------------------- */

static void on_sigpipe(int sig)
{
    (void)sig;
}

/* hiredis writes without MSG_NOSIGNAL. A handler that does nothing, unlike SIG_IGN, is not
 * inherited by programs we start. */
static void survive_sigpipe(void)
{
    struct sigaction now;
    if (!sigaction(SIGPIPE, NULL, &now) && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL) {
        struct sigaction sa = {.sa_handler = on_sigpipe, .sa_flags = SA_RESTART};
        sigaction(SIGPIPE, &sa, NULL);
    }
}

void store_seal_with(struct store *s, const struct sign_key *key)
{
    s->seal = *key;
    seal_of_rows(key, &s->seal_rows);
}

struct store *store_open(const char *url, const char *password, struct err *e)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot open the store: memory ran out");
        return NULL;
    }
    store_seal_with(s, &(struct sign_key){0});
    if (store_address(s, url, e) < 0) {
        goto fail;
    }
    if (password && !(s->password = strdup(password))) {
        err_set(e, ERR_MEMORY, "cannot open the store: memory ran out");
        goto fail;
    }
    survive_sigpipe();
    return s;
fail:
    store_close(s);
    return NULL;
}

void store_close(struct store *s)
{
    if (s) {
        if (s->redis) {
            redisFree(s->redis);
        }
        if (s->events) {
            redisFree(s->events);
        }
        free(s->password);
        free(s->control);
        free(s);
    }
}

const char *store_url(const struct store *s)
{
    return s->url;
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* The error of a store that is away. A server on this host whose disk is full ends or refuses to
 * write; then the message says so. */
static int away(struct store *s, struct err *e, const char *cause)
{
    char folder[sizeof s->address];
    snprintf(folder, sizeof folder, "%s", s->is_unix ? s->address : "");
    char *slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder ? 1 : 0] = '\0';
    }
    if (folder[0] && disk_is_full(folder)) {
        err_set(e, ERR_UNAVAILABLE, "the store at '%s' is away: the disk of '%s' is full (%s)",
                s->url, folder, cause);
        err_hint(e,
                 "make room there by hand: history/ and checkpoints/ of jobs that have ended, "
                 "beneath jobs/, may go (`evenstep disk` names jobs); with --max-disk the "
                 "service keeps room");
        return -ERR_UNAVAILABLE;
    }
    err_set(e, ERR_UNAVAILABLE, "the store at '%s' is away: %s", s->url, cause);
    err_hint(e, "it is tried again with the next request");
    return -ERR_UNAVAILABLE;
}

/* Why there is no reply. hiredis reports a passed time limit as EAGAIN. */
static const char *cause_of(const redisContext *c)
{
    bool late = c->err == REDIS_ERR_IO && strcmp(c->errstr, strerror(EAGAIN)) == 0;
    return late ? "it did not answer in time" : c->errstr[0] ? c->errstr : "the connection failed";
}

/* Turns an error reply into our error. */
static int refused(struct store *s, const redisReply *r, struct err *e)
{
    static const char *const later[] = {"LOADING", "BUSY", "MASTERDOWN",  "READONLY",
                                        "MISCONF", "OOM",  "CLUSTERDOWN", "TRYAGAIN"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        if (!strncmp(r->str, later[i], strlen(later[i]))) {
            return away(s, e, r->str);
        }
    }
    if (!strncmp(r->str, "NOAUTH", 6) || !strncmp(r->str, "WRONGPASS", 9) ||
        !strncmp(r->str, "NOPERM", 6) || strstr(r->str, "invalid password")) {
        err_set(e, ERR_UNAVAILABLE, "the store at '%s' refused the password: %s", s->url, r->str);
        err_hint(e, "give it in a file, with --store-password-file");
        return -ERR_UNAVAILABLE;
    }
    if (!strncmp(r->str, "FENCED", 6)) {
        err_set(e, ERR_UNAVAILABLE,
                "the store at '%s' takes no change of this coordinator: another one has taken over",
                s->url);
        return -ERR_UNAVAILABLE;
    }
    if (!strncmp(r->str, "WRONGTYPE", 9)) {
        return err_set(e, ERR_DATA,
                       "the store at '%s' holds another kind of value than expected: %s", s->url,
                       r->str);
    }
    return err_set(e, ERR_INTERNAL, "the store at '%s' refused a command: %s", s->url, r->str);
}

static int greet(struct store *s, redisContext *c, struct err *e, const char *what,
                 const char *value)
{
    bool as_user = s->user[0] && !strcmp(what, "AUTH");
    redisReply *r = as_user ? redisCommand(c, "AUTH %s %s", s->user, value)
                            : redisCommand(c, "%s %s", what, value);
    if (!r) {
        return away(s, e, cause_of(c));
    }
    int rc = r->type == REDIS_REPLY_ERROR ? refused(s, r, e) : 0;
    freeReplyObject(r);
    return rc;
}

static redisContext *connect_store(struct store *s, struct err *e)
{
    struct timeval limit = {STORE_CALL_MS / 1000, STORE_CALL_MS % 1000 * 1000};
    char why[STORE_WHY] = "memory ran out";
    redisContext *c = s->is_unix  ? redisConnectUnixWithTimeout(s->address, limit)
                      : s->tls.on ? store_tls_connect(s, limit, why)
                                  : redisConnectWithTimeout(s->address, s->port, limit);
    if (!c || c->err) {
        away(s, e, c ? cause_of(c) : why);
        goto fail;
    }
    char db[16];
    snprintf(db, sizeof db, "%d", s->db);
    if (redisSetTimeout(c, limit) != REDIS_OK) {
        away(s, e, "its socket takes no time limit");
        goto fail;
    }
    if ((s->password && s->password[0] && greet(s, c, e, "AUTH", s->password) < 0) ||
        (s->db && greet(s, c, e, "SELECT", db) < 0)) {
        goto fail;
    }
    return c;
fail:
    if (c) {
        redisFree(c);
    }
    return NULL;
}

/* Is the connection usable? Not if the server closed it, or sent something unasked. */
static bool still_good(redisContext *c)
{
    char byte;
    ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static int ready(struct store *s, redisContext **slot, struct err *e)
{
    if (*slot && !still_good(*slot)) {
        redisFree(*slot);
        *slot = NULL;
    }
    if (!*slot) {
        *slot = connect_store(s, e);
        s->connection += *slot && slot == &s->redis;
        s->events_ms = slot == &s->events ? STORE_CALL_MS : s->events_ms;
    }
    return *slot ? 0 : -ERR_UNAVAILABLE;
}

/* Takes the reply of the command just sent; drops the connection when there is none. */
static redisReply *check(struct store *s, redisContext **slot, redisReply *r, struct err *e)
{
    if (!r) {
        away(s, e, cause_of(*slot));
        redisFree(*slot);
        *slot = NULL;
        return NULL;
    }
    if (r->type == REDIS_REPLY_ERROR) {
        refused(s, r, e);
        freeReplyObject(r);
        return NULL;
    }
    return r;
}

redisReply *store_command(struct store *s, int argc, const char **argv, const size_t *lens,
                          struct err *e)
{
    if (ready(s, &s->redis, e) < 0) {
        return NULL;
    }
    return check(s, &s->redis, redisCommandArgv(s->redis, argc, argv, lens), e);
}

redisReply *store_raw(struct store *s, int argc, const char **argv, const size_t *lens,
                      struct err *e)
{
    return ready(s, &s->redis, e) < 0 ? NULL : redisCommandArgv(s->redis, argc, argv, lens);
}

redisReply *store_check(struct store *s, redisReply *r, struct err *e)
{
    return r || s->redis ? check(s, &s->redis, r, e) : NULL;
}

redisReply *store_commandf(struct store *s, struct err *e, const char *fmt, ...)
{
    if (ready(s, &s->redis, e) < 0) {
        return NULL;
    }
    va_list ap;
    va_start(ap, fmt);
    redisReply *r = redisvCommand(s->redis, fmt, ap);
    va_end(ap);
    return check(s, &s->redis, r, e);
}

int store_append(struct store *s, struct err *e, const char *fmt, ...)
{
    if (s->appended == 0 && ready(s, &s->redis, e) < 0) {
        return -ERR_UNAVAILABLE;
    }
    va_list ap;
    va_start(ap, fmt);
    redisvAppendCommand(s->redis, fmt, ap); /* if memory ran out, taking the replies reports it */
    va_end(ap);
    s->appended++;
    return 0;
}

int store_append_argv(struct store *s, int argc, const char **argv, struct err *e)
{
    if (s->appended == 0 && ready(s, &s->redis, e) < 0) {
        return -ERR_UNAVAILABLE;
    }
    redisAppendCommandArgv(s->redis, argc, argv, NULL);
    s->appended++;
    return 0;
}

int store_replies(struct store *s, redisReply **out, struct err *e)
{
    int n = s->appended, rc = 0;
    s->appended = 0;
    for (int i = 0; i < n; i++) {
        void *r = NULL;
        out[i] = NULL;
        if (s->redis && redisGetReply(s->redis, &r) != REDIS_OK) {
            r = NULL;
        }
        if (s->redis && !(out[i] = check(s, &s->redis, r, rc < 0 ? NULL : e))) {
            rc = store_failed(e);
        }
    }
    for (int i = 0; rc < 0 && i < n; i++) {
        if (out[i]) {
            freeReplyObject(out[i]);
            out[i] = NULL;
        }
    }
    return rc;
}

int64_t store_connection(const struct store *s)
{
    return s->connection;
}

bool store_follows(struct store *s)
{
    return s->events && still_good(s->events);
}

redisReply *store_wait(struct store *s, int block_ms, int argc, const char **argv, struct err *e)
{
    if (ready(s, &s->events, e) < 0) {
        return NULL;
    }
    int ms = STORE_CALL_MS + block_ms;
    struct timeval limit = {ms / 1000, ms % 1000 * 1000};
    if (ms != s->events_ms && redisSetTimeout(s->events, limit) != REDIS_OK) {
        away(s, e, "its socket takes no time limit");
        return NULL;
    }
    s->events_ms = ms;
    return check(s, &s->events, redisCommandArgv(s->events, argc, argv, NULL), e);
}

int store_ping(struct store *s, struct err *e)
{
    redisReply *r = store_commandf(s, e, "PING");
    if (!r) {
        return store_failed(e);
    }
    int rc = reply_is_status(r, "PONG")
                 ? 0
                 : err_set(e, ERR_UNAVAILABLE, "the store at '%s' does not answer as Redis does",
                           s->url);
    freeReplyObject(r);
    return rc;
}

/* ---- scripts --------------------------------------------------------------------------------- */
