/* `evenstep serve`: starts everything, then turns the scheduler at least every 200 ms, and at once when the HTTP room wakes it.
 *
 *   store (private or given) ─► local nodes ─► HTTP ─► "ready" ─► sched_tick … ─► on SIGTERM: drain, stop
 *
 * On a clean stop running jobs write a checkpoint and go back to the queue; on SIGKILL they go on, and the next coordinator adopts them. The
 * private redis-server ends only in the first case. What a newcomer would get wrong: mpirun processes die with the *thread* that
 * forked only where PR_SET_PDEATHSIG is set, so it is not set for them.
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
#include "coordinator/config.h"
#include "coordinator/dryrun.h"
#include "coordinator/launcher.h"
#include "coordinator/localnodes.h"
#include "coordinator/predict.h"
#include "coordinator/scheduler.h"
#include "http/server.h"

enum { TURN_MS = 200 };
static const double drain_seconds = 20;

static int wake_fd = -1; /* the signal handler's way into the loop */
static volatile sig_atomic_t told_to_stop;

static void ring(int fd)
{
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

static void on_signal(int sig)
{
    (void)sig;
    int saved = errno;
    told_to_stop = 1;
    ring(wake_fd);
    errno = saved;
}

static void on_wake(void *ctx)
{
    (void)ctx;
    ring(wake_fd);
}

struct service {
    struct serve_config config;
    char url[512];
    struct store *store;
    struct launcher mpirun, simulator;
    bool simulates, is_private;
    struct sched *sched;
    struct localnodes *nodes;
    struct dryrun dryrun;
    struct http_server *http;
};

/* ---- start -------------------------------------------------------------------------------------------------- */

static int start_store(struct service *s, struct err *e)
{
    int rc = 0;
    if (s->config.store) {
        snprintf(s->url, sizeof s->url, "%s", s->config.store);
    } else {
        rc = redis_private_start(s->config.data_dir, s->url, NULL, e);
        s->is_private = rc >= 0;
    }
    s->store = rc >= 0 ? store_open(s->url, s->config.password, e) : NULL;
    if (!s->store) {
        return -(int)e->code;
    }
    return store_ping(s->store, e);
}

static int start_sched(struct service *s, struct err *e)
{
    struct serve_config *c = &s->config;
    struct launcher_config real = {c->data_dir, s->url, c->password, c->worker}, sim = {c->data_dir, s->url, c->password, c->simulator};
    int rc = launcher_mpirun_init(&s->mpirun, &real, e);
    s->simulates = access(c->simulator, X_OK) == 0;
    if (rc >= 0) {
        rc = launcher_sim_init(&s->simulator, &sim, e);
    }
    struct sched_config sc = {s->store, c->data_dir, c->roots, c->host, c->virtual_jobs, &s->mpirun, s->simulates ? &s->simulator : NULL};
    s->sched = rc >= 0 ? sched_new(&sc, e) : NULL;
    return s->sched ? 0 : -(int)e->code;
}

static bool others_offer_nodes(struct service *s)
{
    json_t *nodes = store_nodes(s->store, NULL), *node;
    size_t i;
    bool found = false;
    json_array_foreach(nodes, i, node)
    {
        found |= strcmp(json_string_value(json_object_get(node, "state")), "lost") != 0;
    }
    json_decref(nodes);
    return found;
}

static int start_nodes(struct service *s, struct err *e)
{
    struct serve_config *c = &s->config;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (json_array_size(c->nodes) == 0 && !others_offer_nodes(s)) {
        char text[300], name[48];
        size_t n = 0;
        for (const char *h = c->host; *h && *h != '.' && n < sizeof name - 1; h++) { /* no '_' (PLATFORM.md) */
            name[n++] = *h == '_' ? '-' : *h;
        }
        name[n] = 0;
        snprintf(text, sizeof text, "%s=auto", name);
        json_t *node = serve_config_node(text, c->host, e);
        if (!node) {
            return -(int)e->code;
        }
        json_array_append_new(c->nodes, node);
    } else if (json_array_size(c->nodes)) {
        double factor = serve_config_overload(c->nodes, cores > 0 ? (int)cores : 1);
        if (factor > 1) {
            log_warn("serve", "the local nodes ask for more than 0.7 of the cores; their speeds will not be what they say",
                     "cores=%ld multiply_every_slowdown_by=%.2f", cores, factor);
        }
    }
    s->nodes = localnodes_start(s->url, c->password, c->nodes, e);
    return s->nodes ? 0 : -(int)e->code;
}

static int start_http(struct service *s, struct err *e)
{
    struct serve_config *c = &s->config;
    s->dryrun = (struct dryrun){s->url, c->password, c->data_dir, c->roots, c->host, c->worker, s->simulates ? c->simulator : NULL};
    struct http_config hc = {.listen = c->listen, .data_dir = c->data_dir, .static_dir = c->static_dir, .store_url = s->url,
                             .store_password = c->password, .token_file = c->token_file, .allow_hosts = c->allow_hosts};
    hc.hooks.ctx = &s->dryrun;
    hc.hooks.plan = dryrun_plan;
    hc.hooks.datasets = dryrun_datasets;
    hc.hooks.predict = s->simulates ? predict_job : NULL;
    hc.hooks.wake = on_wake;
    s->http = http_start(&hc, e);
    return s->http ? 0 : -(int)e->code;
}

static void announce(struct service *s)
{
    struct err e = {0};
    char link[512], host[256];
    const char *colon = strrchr(s->config.listen, ':');
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - s->config.listen) : 0, s->config.listen);
    if (!host[0] || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0) {
        snprintf(host, sizeof host, "127.0.0.1");
    }
    log_info("serve", "ready", "url=http://%s:%d nodes=%zu data_dir=%s", host, http_port(s->http), json_array_size(s->config.nodes),
             s->config.data_dir);
    if (http_link(s->http, link, &e) >= 0) {
        printf("%s\n", link);
        fflush(stdout);
    } else {
        log_warn("serve", "cannot make a link for the browser", "why=\"%s\"", e.message);
    }
}

static int start(struct service *s, struct err *e)
{
    int rc = start_store(s, e);
    if (rc >= 0) {
        rc = start_sched(s, e);
    }
    if (rc >= 0) {
        rc = start_nodes(s, e);
    }
    return rc >= 0 ? start_http(s, e) : rc;
}

/* ---- run and stop ------------------------------------------------------------------------------------------- */

static void wait_turn(void)
{
    struct pollfd p = {.fd = wake_fd, .events = POLLIN};
    if (poll(&p, 1, TURN_MS) > 0) {
        uint64_t count;
        ssize_t ignored = read(wake_fd, &count, sizeof count);
        (void)ignored;
    }
}

static void run(struct service *s)
{
    while (!told_to_stop) {
        sched_tick(s->sched, clock_now());
        wait_turn();
    }
}

static void stop(struct service *s)
{
    if (s->sched) {
        log_info("serve", "stopping", "running=%d", sched_running(s->sched));
        sched_drain(s->sched);
        double until = clock_now() + drain_seconds;
        while (sched_running(s->sched) && clock_now() < until) {
            sched_tick(s->sched, clock_now());
            clock_sleep(0.05);
        }
        sched_abandon(s->sched);
        sched_tick(s->sched, clock_now());
    }
    if (s->http) {
        http_stop(s->http);
    }
    sched_free(s->sched);
    localnodes_stop(s->nodes, 1);
    store_close(s->store);
    if (s->is_private) {
        redis_private_stop(s->config.data_dir);
    }
    launcher_release(&s->mpirun);
    launcher_release(&s->simulator);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static void set_level(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            log_set_level((enum log_level)i);
        }
    }
}

int serve_main(int argc, char **argv)
{
    static struct service s; /* too large for a stack */
    struct err e = {0};
    int rc = serve_config_read(&s.config, argc, argv, &e);
    if (rc == 1) {
        serve_config_release(&s.config);
        return 0;
    }
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rc == 0) {
        set_level(opt_string(s.config.options, "log-level"));
        catch_signals();
        rc = start(&s, &e);
    }
    if (rc >= 0) {
        announce(&s);
        run(&s);
    } else {
        char quoted[700];
        log_error("serve", "cannot start", "why=%s hint=\"%s\"", log_quote(quoted, sizeof quoted, e.message), e.hint);
    }
    stop(&s);
    serve_config_release(&s.config);
    close(wake_fd);
    return rc < 0 ? 1 : 0;
}
