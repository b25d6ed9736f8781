/* Hosts that join: see hosts.h.
 *
 * Anyone who can write to the store can replay a join. A replay would give the host another key and
 * shut out its agent. So a join with a known nonce, or from before this process started, is
 * refused.
 */
#include "coordinator/hosts/hosts.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/machine/host.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "common/version.h"
#include "job/documents/hosts/joining.h"
#include "job/hostkey.h"
#include "job/node/node.h"
#include "store/store.h"
#include "store/users.h"

static const double away_seconds = 0.25;
enum { ANSWER_SECONDS = 30, HOST_NAME = 40, WAIT_MS = 500, NODES_MOST = 256 };

struct hosts {
    struct store *store; /* the thread's */
    char dir[PATH_MAX];  /* of the keys */
    char id[SIGN_HEX];   /* this coordinator's id, which is that of its data directory */
    struct sign_key secret;
    struct sign_seen seen;
    json_t *versions;
    bool shares_told; /* the log has said that hosts have no users of their own */
    pthread_t thread;
    atomic_bool stopping;
};

/* ---- what is refused ------------------------------------------------------------------------- */

static int check_instance(struct hosts *h, const struct joining_ask *ask, struct err *e)
{
    json_t *host = store_host_get(h->store, ask->host, NULL);
    struct host_beat last;
    int rc = 0;
    host_beat_read(&last, host);
    if (host && !last.lost && strcmp(last.instance, ask->instance) != 0) {
        rc = err_set(e, ERR_CONFLICT, "another agent offers the host '%s' already, from %s",
                     ask->host, last.address);
        err_hint(e, "stop it, or give this one another name: --host");
    }
    json_decref(host);
    return rc;
}

/* Does another host that is alive offer this node? */
static bool is_theirs(const json_t *node, const char *host)
{
    return strcmp(node_state(node), "lost") != 0 && node_beat_age(node) < 4 &&
           (strcmp(node_host(node), host) != 0 || !node_has_agent(node));
}

static int check_nodes(struct hosts *h, const struct joining_ask *ask, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(ask->nodes); i++) {
        const char *name = json_string_value(json_array_get(ask->nodes, i));
        json_t *node = name ? store_node_get(h->store, name, NULL) : NULL;
        if (node && is_theirs(node, ask->host)) {
            rc = err_set(e, ERR_CONFLICT,
                         "the node '%s' of the host '%s' is offered by the host '%s' already", name,
                         ask->host, node_host(node));
            err_hint(e, "give one of them another name: --node");
        }
        json_decref(node);
    }
    return rc;
}

/* `join`: the request as it was sealed, with its nonce and time. */
static int check_join(struct hosts *h, const json_t *join, const struct joining_ask *ask,
                      struct err *e)
{
    char mismatch[300];
    if (!node_valid_name(ask->host, strlen(ask->host), HOST_NAME, false) ||
        strlen(ask->instance) != SIGN_HEX - 1) {
        return err_set(e, ERR_INVALID, "'%.60s' is not a valid name of a host", ask->host);
    }
    int rc = sign_fresh(&h->seen, join, clock_wall_ms(), e);
    if (rc < 0) {
        return err_prefix(e, "the host '%s' is refused", ask->host);
    }
    if (hostkey_mismatch(ask->host, ask->versions, h->versions, mismatch)[0]) {
        err_set(e, ERR_UNSUPPORTED, "%s", mismatch);
        return err_hint(e, "install the same versions on both");
    }
    if (ask->faulty) {
        err_set(e, ERR_DEVICE, "the agent of host '%s' cannot start: %s", ask->host, ask->message);
        return err_hint(e, "%s", ask->hint);
    }
    rc = check_instance(h, ask, e);
    if (rc < 0) {
        return rc;
    }
    return check_nodes(h, ask, e);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct hosts *h, const char *nonce, const struct joining_answer *a)
{
    struct sign_key key, check;
    char box[96];
    json_t *body = joining_answer_json(a);
    if (body && sign_unhex(nonce, &check, NULL) == 0) {
        hostkey_welcome(&h->secret, nonce, &key);
        char *text = sign_seal(&key, "welcome", body, NULL);
        snprintf(box, sizeof box, "welcome.%s", nonce);
        if (text) {
            store_mail_put(h->store, box, text, ANSWER_SECONDS, NULL);
        }
        free(text);
    }
    json_decref(body);
}

/* The name that a host gives itself, if it is valid: the message may be forged. */
static const char *name_of(const struct joining_ask *ask)
{
    const char *host = ask->host;
    return node_valid_name(host, strlen(host), HOST_NAME, false) ? host : "?";
}

static void refuse(struct hosts *h, const struct joining_ask *ask, const char *cause,
                   const struct err *why)
{
    char quoted[700], counter[48];
    struct joining_answer no = {.message = why->message, .hint = why->hint};
    json_t *refusal = json_pack("{s:s, s:s, s:s, s:s}", "host", name_of(ask), "address",
                                strlen(ask->address) < 64 ? ask->address : "", "message",
                                why->message, "hint", why->hint);
    store_refusal_put(h->store, name_of(ask), refusal, NULL); /* the page shows it */
    json_decref(refusal);
    snprintf(counter, sizeof counter, "join.%s", cause);
    log_warn("hosts", "a host was refused", "cause=%s why=%s", cause,
             log_quote(quoted, sizeof quoted, why->message));
    store_refused_add(h->store, counter, NULL);
    answer(h, ask->nonce, &no);
}

static bool read_key(const struct hosts *h, const char *host, struct sign_key *key)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/%.60s.key", h->dir, host);
    char *text = proc_read_file(path, 256, NULL, NULL);
    if (text) {
        text[strcspn(text, "\n")] = 0;
    }
    bool read = text && sign_unhex(text, key, NULL) == 0;
    free(text);
    return read;
}

static int write_key(struct hosts *h, const char *host, const struct sign_key *key, struct err *e)
{
    char path[PATH_MAX], hex[SIGN_HEX + 1];
    snprintf(path, sizeof path, "%.4000s/%s.key", h->dir, host);
    sign_hex(key, hex);
    hex[SIGN_HEX - 1] = '\n';
    return proc_write_file(path, hex, SIGN_HEX, 0600, e);
}

/* Gives the host a user of Redis of its own, if the store has users and ours may make them. If not,
 * hosts share the user that their agents were told. */
static bool give_user(struct hosts *h, const char *host, const json_t *nodes,
                      const struct sign_key *key)
{
    const char *names[NODES_MOST];
    struct err e = {0};
    char quoted[700];
    int n = (int)json_array_size(nodes);
    n = n < NODES_MOST ? n : NODES_MOST;
    for (int i = 0; i < n; i++) {
        names[i] = json_string_value(json_array_get(nodes, (size_t)i));
    }
    int rc = store_user_add_host(h->store, host, names, n, key, &e);
    if (rc < 0 && !h->shares_told) {
        h->shares_told = true;
        log_info("hosts", "hosts share a user of the store", "why=%s",
                 log_quote(quoted, sizeof quoted, e.message));
    }
    return rc == 0;
}

/* Makes the users again: a Redis that was restarted has forgotten them. */
static void give_users_again(struct hosts *h)
{
    json_t *all = store_hosts(h->store, NULL), *host;
    size_t i;
    json_array_foreach(all, i, host) {
        struct host_beat beat;
        struct sign_key key;
        host_beat_read(&beat, host);
        if (read_key(h, beat.name, &key) && beat.nodes) {
            give_user(h, beat.name, beat.nodes, &key);
        }
    }
    json_decref(all);
}

static int welcome(struct hosts *h, const struct joining_ask *ask, struct err *e)
{
    struct sign_key key, salt;
    char salt_hex[SIGN_HEX], wrapped[SIGN_HEX];
    const char *host = ask->host;
    const struct host_beat first = {.name = host,
                                    .instance = ask->instance,
                                    .address = ask->address,
                                    .network = ask->network,
                                    .versions = ask->versions,
                                    .nodes = ask->nodes};
    int rc =
        first.versions && first.nodes
            ? store_host_put(h->store, &first, e)
            : err_set(e, ERR_SYNTAX, "the host '%s' did not send its versions and nodes", host);
    if (rc < 0 || (rc = sign_random(&key, e)) < 0 || (rc = sign_random(&salt, e)) < 0 ||
        (rc = write_key(h, host, &key, e)) < 0) {
        return rc;
    }
    bool own_user = give_user(h, host, ask->nodes, &key);
    sign_hex(&salt, salt_hex);
    hostkey_wrap(&h->secret, ask->nonce, salt_hex, &key);
    sign_hex(&key, wrapped);
    struct joining_answer yes = {.accepted = true,
                                 .coordinator = h->id,
                                 .salt = salt_hex,
                                 .key = wrapped,
                                 .own_user = own_user};
    answer(h, ask->nonce, &yes);
    store_refusal_remove(h->store, host, NULL);
    for (size_t i = 0; i < json_array_size(ask->nodes); i++) { /* a new agent's nodes start without
                                                                  failures */
        store_node_well(h->store, json_string_value(json_array_get(ask->nodes, i)), NULL);
    }
    log_info("hosts", "joined", "host=%s address=%s nodes=%zu", host, ask->address,
             json_array_size(ask->nodes));
    return 0;
}

static void take_join(struct hosts *h, const char *text)
{
    struct sign_key key;
    struct joining_ask ask;
    struct err e = {0};
    hostkey_join(&h->secret, &key);
    json_t *join = sign_open(&key, "join", text, &e);
    if (!join) {
        json_t *claimed = sign_peek(text);
        joining_ask_read(&ask, claimed);
        if (e.code == ERR_FORBIDDEN) {
            err_set(&e, ERR_FORBIDDEN,
                    "a host that calls itself '%s' does not know the cluster's secret",
                    name_of(&ask));
            err_hint(&e, "give its agent the coordinator's secret: --secret-file");
        }
        refuse(h, &ask, "forged", &e);
        json_decref(claimed);
        return;
    }
    joining_ask_read(&ask, join);
    int rc = check_join(h, join, &ask, &e);
    if (rc == 0) {
        rc = welcome(h, &ask, &e);
    }
    if (rc < 0) {
        refuse(h, &ask,
               rc == -ERR_UNSUPPORTED ? "version"
               : rc == -ERR_TIMEOUT   ? "expired"
               : rc == -ERR_CONFLICT  ? "taken"
               : rc == -ERR_DEVICE    ? "device"
                                      : "invalid",
               &e);
    }
    json_decref(join);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *run(void *arg)
{
    struct hosts *h = arg;
    struct err e = {0};
    bool told = false, loaded = false;
    h->versions = host_versions(&e);
    if (!h->versions) {
        log_warn("hosts", "hosts cannot join", "why=\"%s\"", e.message);
        h->versions = json_pack("{s:s, s:s, s:i}", "evenstep", EVENSTEP_VERSION, "openmpi", "none",
                                "protocol", EVENSTEP_PROTOCOL);
    }
    while (!atomic_load(&h->stopping)) {
        told = told || store_secret_put(h->store, HOSTKEY_COORDINATOR, h->id, 0, NULL) >= 0;
        struct err why = {0};
        loaded = loaded && store_follows(h->store); /* the Redis at this address may be a new one */
        if (!loaded && store_functions_load(h->store, NULL) >= 0) {
            loaded = true;
            give_users_again(h);
        }
        char *text = store_mail_take(h->store, "join", WAIT_MS, &why);
        if (text) {
            take_join(h, text);
        } else if (why.code) {
            clock_sleep(away_seconds);
        }
        free(text);
    }
    return NULL;
}

/* Reads this coordinator's id: a random one, kept with the keys that it gave. */
static int read_id(struct hosts *h, struct err *e)
{
    char path[PATH_MAX];
    struct sign_key id;
    snprintf(path, sizeof path, "%.4000s/id", h->dir);
    char *text = proc_read_file(path, 256, NULL, NULL);
    if (text) {
        text[strcspn(text, "\n")] = 0;
    }
    bool kept = text && sign_unhex(text, &id, NULL) == 0;
    free(text);
    if (!kept) {
        int rc = sign_random(&id, e);
        sign_hex(&id, h->id);
        if (rc < 0) {
            return rc;
        }
        return proc_write_file(path, h->id, SIGN_HEX - 1, 0600, e);
    }
    sign_hex(&id, h->id);
    return 0;
}

struct hosts *hosts_start(const struct hosts_config *c, struct err *e)
{
    struct hosts *h = calloc(1, sizeof *h);
    char secret[PATH_MAX];
    if (!h) {
        err_set(e, ERR_MEMORY, "cannot wait for hosts: memory ran out");
        return NULL;
    }
    snprintf(h->dir, sizeof h->dir, "%.4000s/hosts", c->data_dir);
    snprintf(secret, sizeof secret, "%.4000s/secret", c->data_dir);
    h->seen.not_before = clock_wall_ms();
    int rc = proc_mkdirs(h->dir, 0700, e);
    if (rc == 0) {
        rc = sign_read_secret(c->secret_file ? c->secret_file : secret, !c->secret_file, &h->secret,
                              e);
    }
    if (rc == 0) {
        rc = read_id(h, e);
    }
    h->store = rc == 0 ? store_open(c->store_url, c->password, e) : NULL;
    if (h->store) {
        store_fence(h->store, c->fence);
    }
    if (h->store && pthread_create(&h->thread, NULL, run, h) == 0) {
        return h;
    }
    if (h->store) {
        err_set(e, ERR_MEMORY, "cannot start the thread that waits for hosts");
    }
    store_close(h->store);
    free(h);
    return NULL;
}

void hosts_tell(struct hosts *h)
{
    if (h) {
        atomic_store(&h->stopping, true);
    }
}

void hosts_stop(struct hosts *h)
{
    if (h) {
        hosts_tell(h);
        pthread_join(h->thread, NULL);
        store_close(h->store);
        sign_seen_release(&h->seen);
        json_decref(h->versions);
        free(h);
    }
}
