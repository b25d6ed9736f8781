/* `evenstep serve`: starts everything, then turns the scheduler every 160 ms, and at once when the
 * HTTP room wakes it.
 *
 *   service_start() ─► "ready" ─► sched_tick … ─► on SIGTERM: drain, stop
 *                                               ─► when the lease is lost: stop without a change
 *
 * On SIGHUP it reads at once the files that may change while it runs.
 *
 * On a clean stop running jobs write a checkpoint and go back to the queue, and the private
 * redis-server ends. On SIGUSR1 and SIGKILL jobs and redis-server go on, and the next coordinator
 * adopts the jobs. PR_SET_PDEATHSIG is not set for mpirun, since it would end mpirun with the
 * *thread* that forked it.
 */
#include "coordinator/coordinator.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/process/notify.h"
#include "coordinator/service.h"

enum { TURN_MS = 160, AFTER_PULSES_MS = 15 };
static const double drain_seconds = 20, store_retry_least = 1, store_retry_most = 30;

static int wake_fd = -1; /* the signal handler writes to it to wake the loop */
static volatile sig_atomic_t told_to_stop, told_to_leave, told_to_read;

static void ring(int fd)
{
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

static void on_signal(int sig)
{
    int saved = errno;
    told_to_leave |= sig == SIGUSR1;
    told_to_read |= sig == SIGHUP;
    told_to_stop |= sig != SIGHUP;
    ring(wake_fd);
    errno = saved;
}

static void on_wake(void *ctx)
{
    (void)ctx;
    ring(wake_fd);
}

static void on_lost(void)
{
    ring(wake_fd);
}

static void announce(struct service *s)
{
    notify_manager("READY=1\nSTATUS=works");
    struct err e = {0};
    char link[512], host[256], pin[64];
    const char *colon = strrchr(s->config.listen, ':');
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - s->config.listen) : 0,
             s->config.listen);
    if (!host[0] || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0) {
        snprintf(host, sizeof host, "127.0.0.1");
    }
    bool tls = http_pin(s->http, pin);
    log_info("serve", "ready", "url=%s://%s:%d nodes=%zu data_dir=%s%s%s", http_scheme(s->http),
             host, http_port(s->http), json_array_size(s->config.nodes), s->config.data_dir,
             tls ? " pin=" : "", tls ? pin : "");
    if (http_link(s->http, link, &e) >= 0) {
        printf("%s\n", link);
        fflush(stdout);
    } else {
        log_warn("serve", "cannot make a link for the browser", "why=\"%s\"", e.message);
    }
}

/* ---- run and stop ---------------------------------------------------------------------------- */

/* Waits for the next turn. Turns follow those of the ranks' pulses (worker/pulse/pulse.c) by 15 ms
 * of wall-clock time, so that their reports reach browsers soon. If a host's clock is wrong, this
 * takes up to a turn longer. If a turn could not read all reports, the next one follows at once. */
static void wait_turn(struct service *s)
{
    struct pollfd p = {.fd = wake_fd, .events = POLLIN};
    int64_t past = (clock_wall_ms() - AFTER_PULSES_MS) % TURN_MS;
    int ms = sched_behind(s->sched) ? 0 : (int)(TURN_MS - past);
    if (poll(&p, 1, ms) > 0) {
        uint64_t count;
        ssize_t ignored = read(wake_fd, &count, sizeof count);
        (void)ignored;
        sched_woken(s->sched);
        s->sweeps.due = 0;
    }
}

/* Runs before the scheduler, so that jobs which a sweep submits start in the same turn. Without the
 * store or the lease nothing is decided. */
static void advance_sweeps(struct service *s)
{
    if (!sched_store_away(s->sched) && lease_held(s->lease) &&
        sweeps_tick(&s->sweeps, clock_now())) {
        sched_woken(s->sched);
    }
}

/* Starts a private store again that has died (killed, or its disk was full). Its append-only file
 * has all that it accepted. */
static void watch_store(struct service *s)
{
    struct err e = {0};
    char url[512], quoted[600];
    double now = clock_now();
    if (!s->is_private || !sched_store_away(s->sched)) {
        s->store_retry = 0;
        return;
    }
    if (now < s->store_retry_at) {
        return;
    }
    int rc = redis_private_start(s->config.data_dir, url, NULL, &e);
    if (rc == SERVER_STARTED) {
        log_info("serve", "the private redis-server had ended and was started again", "data_dir=%s",
                 s->config.data_dir);
    } else if (rc < 0) {
        log_error("serve", "cannot start the private redis-server again; it is tried again",
                  "why=%s", log_quote(quoted, sizeof quoted, e.message));
    }
    s->store_retry = s->store_retry < store_retry_least ? store_retry_least : 2 * s->store_retry;
    s->store_retry = s->store_retry < store_retry_most ? s->store_retry : store_retry_most;
    s->store_retry_at = clock_now() + s->store_retry;
}

static void turn(struct service *s)
{
    sched_tick(s->sched, clock_now());
    watch_store(s);
}

/* Reads now the files that are otherwise read once a second or when they are needed. So someone who
 * changed one sees the outcome in the log. */
static void read_again(struct service *s)
{
    log_info("serve", "told to read its files again: tokens, certificate, quotas", "signal=HUP");
    quotas_read_again(s->quotas);
    http_read_again(s->http);
}

static void run(struct service *s)
{
    while (!told_to_stop && !lease_lost(s->lease)) {
        if (told_to_read) {
            told_to_read = 0;
            read_again(s);
        }
        advance_sweeps(s);
        turn(s);
        wait_turn(s);
    }
}

/* Running jobs write a checkpoint and go back to the queue. */
static void drain(struct service *s)
{
    if (s->sched && s->ready) {
        log_info("serve", "stopping", "running=%d", sched_running(s->sched));
        sched_drain(s->sched);
        double until = clock_now() + drain_seconds;
        turn(s); /* adopts jobs that have no run yet */
        while (sched_running(s->sched) && clock_now() < until) {
            turn(s);
            clock_sleep(0.05);
        }
        sched_abandon(s->sched);
        turn(s);
    }
}

/* Stops all parts. After SIGUSR1 jobs, nodes and the store stay as they are for the next
 * coordinator, which adopts them.
 *
 * Without the lease jobs, nodes, the store and the histories in a shared folder belong to the other
 * coordinator, and are left alone. The scheduler is not freed then either, since its monitors would
 * write their unwritten rows. */
static void stop(struct service *s)
{
    bool lost = lease_lost(s->lease), left = lost || told_to_leave;
    notify_manager("STOPPING=1");
    if (!left) {
        drain(s);
    } else if (!lost && s->ready) {
        log_info("serve", "stopping; jobs go on", "running=%d", sched_running(s->sched));
    }
    service_stop(s, left, lost);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static void tell_failure(const struct err *e)
{
    char quoted[700];
    if (e->code != ERR_CANCELLED) {
        log_error("serve", "cannot start", "why=%s hint=\"%s\"",
                  log_quote(quoted, sizeof quoted, e->message), e->hint);
    }
}

/* The exit status, on which systemd and scripts rely (coordinator.h). */
static int status_of(const struct service *s, int rc, bool lost)
{
    if (rc == -ERR_CANCELLED) {
        return 0;
    }
    bool elsewhere = lost || (rc == -ERR_CONFLICT && s->store && !s->sched);
    return elsewhere ? SERVE_ELSEWHERE : rc < 0 ? 1 : 0;
}

int serve_main(int argc, char **argv)
{
    static struct service s; /* too large for a stack */
    struct err e = {0};
    s.wake = on_wake;
    s.lost = on_lost;
    s.told_to_stop = &told_to_stop;
    int rc = serve_config_read(&s.config, argc, argv, &e);
    if (rc == OPT_HELPED) {
        serve_config_release(&s.config);
        return 0;
    }
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rc == 0) {
        log_set_level(s.config.log_level);
        catch_signals();
        rc = service_start(&s, &e);
    }
    if (rc >= 0) {
        s.ready = true;
        announce(&s);
        run(&s);
    } else {
        tell_failure(&e);
    }
    int status = status_of(&s, rc, lease_lost(s.lease));
    stop(&s);
    serve_config_release(&s.config);
    close(wake_fd);
    return status;
}
