/* evenstep-launch: mpirun's launch agent (plm_rsh_agent). In place of ssh it asks the host's agent,
 * in a signed request of named fields, to start Open MPI's daemon, and stays until that has ended:
 *
 *     mpirun ─ evenstep-launch HOST orted -mca … ─ request ─► store ─► agent of HOST ─ orted
 *
 * While it lives it renews a lease, so that the agent notices when mpirun is gone. It passes on
 * only a few numbers of the daemon's command, and the agent writes a command of its own. Its
 * environment comes from launchers/mpirun.c: EVENSTEP_STORE, EVENSTEP_HOSTS (folder of the hosts'
 * keys), EVENSTEP_JOB, EVENSTEP_ATTEMPT, EVENSTEP_SEAL, EVENSTEP_OWN_USERS. What it says on stderr
 * is in the attempt's log. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/request.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/manual.h"
#include "common/process/proc.h"
#include "common/sign.h"
#include "job/hostkey.h"
#include "job/node/node.h"
#include "store/store.h"

static const char prefix[] = HOSTKEY_PREFIX;
static const double start_patience = 20, turn_seconds = 0.05, renew_seconds = 1;
enum { LEASE_SECONDS = 10, REQUEST_SECONDS = 30 };

static const struct opt options[] = {
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    MANUAL_OPTION,
    {0},
};

static const struct manual manual = {
    .name = "evenstep-launch",
    .brief = "has a host's agent start Open MPI's daemon",
    .usage = "evenstep-launch es-HOST orted …",
    .about =
        "The service has mpirun start it for each host of a job, in place of ssh: it sends the "
        "host's agent a signed request for Open MPI's daemon, stays until that has ended, and "
        "ends it when mpirun is gone. Nobody starts it by hand.",
    .options = options,
    .statuses =
        (const struct manual_term[]){{"0", "the daemon has ended without an error"},
                                     {"1",
                                      "there was no daemon, or it failed; stderr, which is in "
                                      "the attempt's log, says why"},
                                     {0}},
    .variables =
        (const struct manual_term[]){
            {"EVENSTEP_STORE", "the store's address; its password is EVENSTEP_STORE_PASSWORD"},
            {"EVENSTEP_HOSTS", "folder of the hosts' keys"},
            {"EVENSTEP_JOB", "the job, whose attempt is EVENSTEP_ATTEMPT and key EVENSTEP_SEAL"},
            {"EVENSTEP_OWN_USERS", "set: the host's ranks run as users of their own"},
            {0}},
};

static volatile sig_atomic_t told_to_stop;

static void on_signal(int sig)
{
    (void)sig;
    told_to_stop = 1;
}

struct launch {
    const char *host;
    struct sign_key key;
    struct store *store;
    char nonce[SIGN_HEX], instance[SIGN_HEX]; /* the request's nonce, and the agent that was asked;
                                                 "": not known yet */
    bool started;                             /* a daemon */
    bool declined;                            /* no daemon was started, and its host is the cause */
    double renewed_at;
};

static const char *wanted(const char *name, struct err *e)
{
    const char *value = getenv(name);
    if (!value || !*value) {
        err_set(e, ERR_INVALID,
                "%s is not set: this program is started by mpirun under `evenstep serve`", name);
        return NULL;
    }
    return value;
}

static int read_key(struct launch *l, struct err *e)
{
    char path[4200];
    const char *dir = wanted("EVENSTEP_HOSTS", e);
    if (!dir) {
        return -ERR_INVALID;
    }
    snprintf(path, sizeof path, "%s/%s.key", dir, l->host);
    char *text = proc_read_file(path, 256, NULL, NULL);
    if (text) {
        text[strcspn(text, "\n")] = 0;
    }
    int rc =
        text && sign_unhex(text, &l->key, NULL) == 0
            ? 0
            : err_set(e, ERR_NOT_FOUND, "the host '%s' has not joined: it has no key", l->host);
    free(text);
    return rc;
}

/* Adds the key of the ranks on this host, wrapped so that only its agent can read it. */
static int add_seal(const struct launch *l, json_t *body, struct err *e)
{
    struct sign_key attempt, seal;
    char hex[SIGN_HEX];
    const char *text = wanted(SEAL_VARIABLE, e);
    if (!text || sign_unhex(text, &attempt, e) < 0) {
        return -ERR_INVALID;
    }
    seal_of_host(&attempt, l->host, &seal);
    seal_wrap(&l->key, l->nonce, &seal);
    sign_hex(&seal, hex);
    json_object_set_new(body, "seal", json_string(hex));
    return 0;
}

static int send_request(struct launch *l, int argc, char **argv, struct err *e)
{
    const char *job = wanted("EVENSTEP_JOB", e), *attempt = wanted("EVENSTEP_ATTEMPT", e);
    json_t *body = job && attempt ? request_from_command(argc, argv, e) : NULL;
    char *text = NULL, box[96];
    int rc = body ? sign_stamp(body, clock_wall_ms(), l->nonce, e) : -(int)e->code;
    if (rc == 0) {
        rc = add_seal(l, body, e);
    }
    if (rc == 0) {
        json_object_set_new(body, "host", json_string(l->host));
        json_object_set_new(body, "job", json_string(job));
        if (getenv(OWN_USERS)) {
            json_object_set_new(body, "user", json_string("own"));
        }
        json_object_set_new(body, "attempt", json_integer(strtol(attempt, NULL, 10)));
        text = sign_seal(&l->key, "launch", body, e);
        rc = text ? 0 : -(int)e->code;
    }
    char lease[96];
    snprintf(lease, sizeof lease, "launch.%s", l->nonce);
    snprintf(box, sizeof box, "host.%s", l->host);
    if (rc == 0) {
        rc = store_lease_set(l->store, lease, LEASE_SECONDS, e);
    }
    if (rc == 0) {
        rc = store_mail_put(l->store, box, text, REQUEST_SECONDS, e);
    }
    json_decref(body);
    free(text);
    return rc;
}

/* Has the daemon ended, or was it refused? Then it sets *code. */
static bool take_answer(struct launch *l, int *code, struct err *e)
{
    char box[96];
    snprintf(box, sizeof box, "answer.%s", l->nonce);
    char *text = store_mail_take(l->store, box, 0, NULL);
    json_t *body = text ? sign_open(&l->key, "answer", text, NULL) : NULL;
    struct request_answer a;
    bool over = false;
    free(text);
    request_answer_read(&a, body);
    if (!a.state[0] || strcmp(a.nonce, l->nonce) != 0) {
        json_decref(body);
        return false;
    }
    if (strcmp(a.state, "started") == 0) {
        l->started = true;
    } else {
        over = true;
        *code = a.code;
        if (strcmp(a.state, "refused") == 0) {
            l->declined = true;
            err_set(e, ERR_FORBIDDEN, "the agent of host '%s' refused to start a daemon: %s",
                    l->host, a.message);
        } else if (a.code != 0) {
            err_set(e, ERR_PEER, "Open MPI's daemon on host '%s' ended with code %d: %s", l->host,
                    a.code, a.message);
        }
    }
    json_decref(body);
    return over;
}

/* Will nobody answer? The host may be lost, or another agent may have joined for it, with another
 * key. */
static bool is_agent_gone(struct launch *l, struct err *e)
{
    json_t *host = store_host_get(l->store, l->host, NULL);
    struct host_beat beat;
    host_beat_read(&beat, host);
    if (!l->instance[0]) {
        snprintf(l->instance, sizeof l->instance, "%s", beat.instance);
    }
    bool gone = host && (beat.lost || strcmp(beat.instance, l->instance) != 0);
    if (gone) {
        err_set(e, ERR_PEER, "the agent of host '%s' %s before it answered", l->host,
                beat.lost ? "was lost" : "was replaced by another one");
    }
    json_decref(host);
    return gone;
}

static int wait_for_end(struct launch *l, struct err *e)
{
    char lease[96];
    double until = clock_now() + start_patience;
    pid_t parent = getppid();
    int code = 1;
    snprintf(lease, sizeof lease, "launch.%s", l->nonce);
    while (!told_to_stop && getppid() == parent) {
        double now = clock_now();
        if (take_answer(l, &code, e)) {
            return code;
        }
        if (now - l->renewed_at >= renew_seconds) {
            l->renewed_at = now;
            store_lease_set(l->store, lease, LEASE_SECONDS,
                            NULL); /* if the store is away, the lease is renewed when it is back */
            if (!l->started && is_agent_gone(l, e)) {
                l->declined = true;
                break;
            }
        }
        if (!l->started && now >= until) {
            l->declined = true;
            err_set(e, ERR_TIMEOUT, "the agent of host '%s' did not answer within %.0f s", l->host,
                    start_patience);
            break;
        }
        clock_sleep(turn_seconds);
    }
    store_lease_set(l->store, lease, 0, NULL);
    return 1;
}

static bool names_a_host(int argc, char **argv)
{
    const size_t n = strlen(prefix);
    return argc >= 3 && strncmp(argv[1], prefix, n) == 0 &&
           node_valid_name(argv[1] + n, strlen(argv[1]) - n, 40, false);
}

/* The daemon's exit code; 1 with an error if there was no daemon. */
static int launch(struct launch *l, int argc, char **argv, struct err *e)
{
    const char *url;
    if (!names_a_host(argc, argv)) {
        err_set(e, ERR_INVALID,
                "evenstep-launch is started by mpirun: evenstep-launch es-HOST orted …");
        return 1;
    }
    l->host = argv[1] + strlen(prefix);
    if (!(url = wanted("EVENSTEP_STORE", e)) || read_key(l, e) < 0 ||
        !(l->store = store_open(url, getenv("EVENSTEP_STORE_PASSWORD"), e)) ||
        send_request(l, argc - 2, argv + 2, e) < 0) {
        return 1;
    }
    return wait_for_end(l, e);
}

/* Answers --help and the like, if a person started it: mpirun passes more than one word. */
static bool answers(int argc, char **argv)
{
    struct opt_values *v = NULL;
    bool helped = argc == 2 && manual_begin(&manual, 1, argv + 1, &v, NULL) == OPT_HELPED;
    opt_free(v);
    return helped;
}

int main(int argc, char **argv)
{
    if (answers(argc, argv)) {
        return 0;
    }
    struct launch l = {.host = ""};
    struct err e = {0};
    char quoted[700];
    struct sigaction action = {.sa_handler = on_signal};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int code = launch(&l, argc, argv, &e);
    if (e.code != ERR_NONE) {
        log_error("launch", l.declined ? HOSTKEY_NO_DAEMON : "error", "host=%s why=%s", l.host,
                  log_quote(quoted, sizeof quoted, e.message));
    }
    store_close(l.store);
    return code == 0 ? 0 : 1;
}
