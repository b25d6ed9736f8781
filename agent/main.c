/* evenstep-agent: once on every host. It joins with the cluster's secret, tells of its nodes, and
 * starts Open MPI's daemon when the coordinator asks.
 *
 *     options ─► join ─► heartbeat ─► requests ─► daemons …
 *     SIGTERM ─► says that it leaves ─► jobs write a checkpoint, their daemons end
 *             ─► host and nodes leave the store
 *
 * A daemon dies with the *thread* that forked it (PR_SET_PDEATHSIG). So only the main thread starts
 * daemons, since it lives as long as the agent. Nothing in a box is believed before its signature
 * is checked.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/beat.h"
#include "agent/config.h"
#include "agent/daemon.h"
#include "agent/join.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process/notify.h"
#include "job/documents/hosts/joining.h"
#include "job/hostkey.h"
#include "job/node/node.h"
#include "store/users.h"

static const double turn_seconds = 0.05, join_patience = 10, retry_seconds = 2, look_seconds = 2,
                    stop_grace = 3;
static const double fault_patience = 3;
static const double leave_patience =
    15; /* longer than the coordinator waits for a checkpoint (run.c) */

static volatile sig_atomic_t told_to_stop; /* how often */

static void on_signal(int sig)
{
    (void)sig;
    told_to_stop = told_to_stop + 1;
}

struct agent {
    struct agent_config config;
    struct gpus *gpus;
    struct interpreters *interpreters;
    struct store *store;
    char instance[SIGN_HEX];
    struct welcome welcome;
    struct beat *beat;
    struct daemons *daemons;
    struct sign_seen seen;
    bool leaving;     /* no further daemon is started */
    double looked_at; /* when it asked which coordinator there is */
};

/* ---- join ------------------------------------------------------------------------------------ */

/* The agent's request to join. fault: why this agent cannot start, or NULL. */
static json_t *who(const struct agent *a, const struct err *fault)
{
    json_t *names = json_array(), *node;
    size_t i;
    json_array_foreach(a->config.nodes, i, node) {
        json_array_append_new(names, json_string(node_name(node)));
    }
    struct joining_ask ask = {.host = a->config.host,
                              .instance = a->instance,
                              .address = a->config.address,
                              .network = a->config.network,
                              .versions = a->config.versions,
                              .nodes = names,
                              .faulty = fault != NULL,
                              .message = fault ? fault->message : "",
                              .hint = fault ? fault->hint : ""};
    json_t *j = joining_ask_json(&ask);
    json_decref(names);
    return j;
}

static void wait_a_little(double seconds)
{
    double until = clock_now() + seconds;
    while (!told_to_stop && clock_now() < until) {
        clock_sleep(turn_seconds);
    }
}

/* Connects to the store as the user that may join. own: after joining, as this host's own user, if
 * it has one. */
static int connect_store(struct agent *a, bool own, struct err *e)
{
    struct agent_config *c = &a->config;
    char user[STORE_USER];
    c->own_store[0] = '\0';
    if (own) {
        store_user_of_host(user, c->host);
        store_user_password(&a->welcome.key, c->own_password);
        int rc = store_url_as(c->store, user, c->own_store, e);
        if (rc < 0) {
            c->own_store[0] = '\0';
            return rc;
        }
    }
    struct store *s = agent_config_open_store(c, e);
    if (s) {
        store_close(a->store);
        a->store = s;
    }
    return s ? 0 : -(int)e->code;
}

static int join_once(struct agent *a, struct err *e)
{
    int rc = a->config.own_store[0] ? connect_store(a, false, e) : 0;
    rc = rc == 0 ? agent_config_find_address(&a->config, e) : rc;
    if (rc == 0) {
        json_t *me = who(a, NULL);
        rc =
            join_ask(a->store, &a->config.secret, me, join_patience, &told_to_stop, &a->welcome, e);
        json_decref(me);
    }
    return rc == 0 && a->welcome.own_user ? connect_store(a, true, e) : rc;
}

/* Asks until a coordinator accepts us. Each new cause of a refusal is logged once. */
static void join(struct agent *a)
{
    char said[sizeof((struct err *)0)->message] = "", quoted[700];
    while (!told_to_stop) {
        struct err e = {0};
        if (join_once(a, &e) == 0) {
            notify_manager("STATUS=joined");
            log_info("agent", "joined", "host=%s address=%s network=%s nodes=%zu", a->config.host,
                     a->config.address, a->config.network, json_array_size(a->config.nodes));
            return;
        }
        if (!told_to_stop && strcmp(said, e.message) != 0) {
            snprintf(said, sizeof said, "%s", e.message);
            log_warn("agent", "cannot join yet", "why=%s hint=\"%s\"",
                     log_quote(quoted, sizeof quoted, e.message), e.hint);
        }
        wait_a_little(retry_seconds);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Refuses a request; nonce "": without an answer. */
static void refuse(struct agent *a, const char *cause, const char *nonce, const struct err *why)
{
    char quoted[700], counter[48];
    snprintf(counter, sizeof counter, "launch.%s", cause);
    log_warn("agent", "a request was refused", "cause=%s why=%s", cause,
             log_quote(quoted, sizeof quoted, why->message));
    beat_refused(a->beat, cause);
    store_refused_add(a->store, counter, NULL);
    if (nonce[0]) {
        daemons_answer(a->store, &a->welcome.key, nonce, "refused", 1, why->message, NULL);
    }
}

static int start_daemon(struct agent *a, struct request *r, struct err *e)
{
    if (a->leaving) {
        return err_set(e, ERR_UNAVAILABLE, "this host is about to leave the cluster");
    }
    request_unwrap(r, &a->welcome.key);
    return daemons_start(a->daemons, r, e);
}

static void take_request(struct agent *a, const char *text)
{
    struct err e = {0};
    struct request r;
    json_t *body = sign_open(&a->welcome.key, "launch", text, &e);
    if (!body) {
        refuse(a, e.code == ERR_FORBIDDEN ? "forged" : "malformed", "", &e);
        return;
    }
    int rc = sign_fresh(&a->seen, body, clock_wall_ms(), &e);
    const char *cause = rc == -ERR_CONFLICT  ? "replayed"
                        : rc == -ERR_TIMEOUT ? "expired"
                                             : "malformed";
    if (rc < 0) {
        refuse(a, cause, rc == -ERR_TIMEOUT ? sign_nonce_of(body) : "", &e);
    } else if (request_read(&r, body, a->config.host, &e) < 0) {
        refuse(a, "malformed", sign_nonce_of(body), &e);
    } else if (start_daemon(a, &r, &e) < 0) {
        refuse(a, "failed", r.nonce, &e);
    } else {
        daemons_answer(a->store, &a->welcome.key, r.nonce, "started", 0, "", NULL);
    }
    json_decref(body);
}

/* Is the coordinator still the one that gave us our key, and does the store still know us? */
static bool still_joined(struct agent *a, double now)
{
    if (now - a->looked_at < look_seconds) {
        return true;
    }
    a->looked_at = now;
    struct err e = {0};
    char *id = store_secret_get(a->store, HOSTKEY_COORDINATOR, &e);
    bool other = id && strcmp(id, a->welcome.coordinator) != 0;
    free(id);
    return !other;
}

static void turn(struct agent *a)
{
    char box[96];
    snprintf(box, sizeof box, "host.%s", a->config.host);
    char *text = store_mail_take(a->store, box, 0, NULL);
    if (text) {
        take_request(a, text);
    }
    daemons_tick(a->daemons, a->store, &a->welcome.key, clock_now());
    beat_running(a->beat, daemons_running(a->daemons));
    if (!text) {
        clock_sleep(turn_seconds);
    }
    free(text);
}

/* Leaves: the coordinator lets jobs that run here write a checkpoint and give the nodes back. A
 * second signal ends them at once. */
static void leave(struct agent *a)
{
    double until = clock_now() + leave_patience;
    a->leaving = true;
    if (daemons_running(a->daemons) > 0) {
        beat_leaving(a->beat);
    }
    do {
        turn(a);
    } while (daemons_running(a->daemons) > 0 && told_to_stop == 1 && clock_now() < until);
}

static void serve(struct agent *a)
{
    while (!told_to_stop && still_joined(a, clock_now())) {
        turn(a);
    }
    if (told_to_stop) {
        log_info("agent", "stopping", "daemons=%d", daemons_running(a->daemons));
        leave(a);
    } else {
        log_info("agent", "another coordinator has taken over, joining again", "daemons=%d",
                 daemons_running(a->daemons));
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Logs whether ranks and users' programs can touch the agent's files. */
static void tell_user(const struct agent_config *c)
{
    if (run_as_given(&c->as)) {
        log_info("agent", "ranks run as another user", "user=%s", c->as.name);
    } else if (geteuid() == 0) {
        log_warn(
            "agent",
            "ranks run as root, and so may users' programs read this agent's secrets: --run-as",
            "%s", "");
    }
}

/* One membership: from joining until told to stop, or until there is another coordinator. */
static int live(struct agent *a, struct err *e)
{
    const struct agent_config *c = &a->config;
    join(a);
    if (told_to_stop) {
        return 0;
    }
    a->seen.not_before =
        clock_wall_ms() - SIGN_WINDOW_MS; /* older requests were signed with another key */
    struct daemon_config dc = {c->host,     c->worker_store, c->worker_password, c->roots,
                               c->data_dir, c->network,      c->ports,           c->cache_bytes,
                               NULL,        &c->as};
    if (opt_count(c->options, "python")) {
        dc.python = opt_item(c->options, "python", 0);
    }
    tell_user(c);
    a->daemons = daemons_new(&dc, e);
    a->beat = a->daemons ? beat_start(c, a->gpus, a->interpreters, a->instance, e) : NULL;
    int rc = a->beat ? 0 : -(int)e->code;
    if (rc == 0) {
        serve(a);
    }
    daemons_free(a->daemons, stop_grace);
    beat_stop(a->beat);
    sign_seen_release(&a->seen);
    a->daemons = NULL;
    a->beat = NULL;
    return rc;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static int start(struct agent *a, struct err *e)
{
    struct sign_key random;
    int rc = sign_random(&random, e);
    sign_hex(&random, a->instance);
    log_set_level(a->config.log_level);
    a->store = rc == 0 ? agent_config_open_store(&a->config, e) : NULL;
    return a->store ? 0 : -(int)e->code;
}

/* A missing device ends this agent. The coordinator is told why, so that the page shows it too. */
static void tell_fault(struct agent *a, const struct err *fault)
{
    struct err e = {0};
    json_t *me =
        agent_config_find_address(&a->config, &e) == 0 && start(a, &e) == 0 ? who(a, fault) : NULL;
    if (me) {
        join_ask(a->store, &a->config.secret, me, fault_patience, &told_to_stop, &a->welcome, &e);
        json_decref(me);
    }
}

int main(int argc, char **argv)
{
    static struct agent a; /* too large for a stack */
    struct err e = {0};
    char quoted[700], path[PATH_MAX];
    a.gpus = gpus_open();
    int rc = agent_config_read(&a.config, a.gpus, argc - 1, argv + 1, &e);
    if (rc == 0) {
        catch_signals();
        rc = start(&a, &e);
        a.interpreters =
            rc == 0 ? interpreters_start(a.config.options, daemon_path(path), &e) : NULL;
        rc = a.interpreters ? rc : -(int)e.code;
        if (rc == 0) {
            notify_manager("READY=1\nSTATUS=joins"); /* joining may take long, and systemd need not
                                                        wait for it */
        }
        while (rc == 0 && !told_to_stop) {
            rc = live(&a, &e);
            if (rc == -ERR_CONFLICT || rc == -ERR_UNAVAILABLE) { /* another host has our name
                                                                    meanwhile, or the store went
                                                                    away: joins again */
                log_warn("agent", "joining again", "why=%s",
                         log_quote(quoted, sizeof quoted, e.message));
                err_clear(&e);
                wait_a_little(retry_seconds);
                rc = 0;
            }
        }
    }
    if (rc == -ERR_DEVICE) {
        tell_fault(&a, &e);
    }
    if (rc < 0) {
        log_error("agent", "cannot run", "why=%s hint=\"%s\"",
                  log_quote(quoted, sizeof quoted, e.message), e.hint);
    }
    interpreters_stop(a.interpreters);
    store_close(a.store);
    agent_config_release(&a.config);
    gpus_close(a.gpus);
    return rc < 0 ? 1 : 0;
}
