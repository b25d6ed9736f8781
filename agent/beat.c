/* The agent's heartbeat: see beat.h. Figures that change with every beat (load, GPUs) are in the
 * host's document. A node's document changes only when the node does, because every change of it is
 * sent to all browsers. DIR/alive is touched after each heartbeat that arrived, since health checks
 * read its age.
 */
#include "agent/beat.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/machine/host.h"
#include "common/log.h"
#include "job/node/node.h"
#include "store/loads.h"

struct beat {
    const struct agent_config *config;
    const struct gpus *gpus;
    struct interpreters *interpreters;
    const char *instance;
    struct store *store; /* the thread's, after the first heartbeat */
    struct host_load load;
    struct loads *loads;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    json_t *refused;
    int running;
    bool leaving, stopping;
    bool soon; /* a beat is due at once */
};

/* Sends the host's document. */
static int send_host(struct beat *b, struct err *e)
{
    const struct agent_config *c = b->config;
    json_t *gpus = json_array(), *names = json_array(), *node;
    size_t i;
    for (int k = 0; k < gpus_count(b->gpus); k++) {
        json_t *gpu = gpus_json(b->gpus, k);
        if (gpu) {
            json_array_append_new(gpus, gpu);
        }
    }
    json_array_foreach(c->nodes, i, node) {
        json_array_append_new(names, json_string(node_name(node)));
    }
    pthread_mutex_lock(&b->lock);
    json_t *refused = json_copy(b->refused);
    int running = b->running;
    pthread_mutex_unlock(&b->lock);
    const struct host_beat host = {.name = c->host,
                                   .instance = b->instance,
                                   .address = c->address,
                                   .network = c->network,
                                   .versions = c->versions,
                                   .nodes = names,
                                   .load = host_load_read(&b->load),
                                   .gpus = gpus,
                                   .refused = refused,
                                   .daemons = running};
    int rc = store_host_put(b->store, &host, e);
    json_decref(host.load);
    json_decref(gpus);
    json_decref(names);
    json_decref(refused);
    return rc;
}

/* The document of a node. A host that leaves says so in it. interpreters: NULL while they are being
 * asked. */
static json_t *node_document(struct beat *b, const json_t *node, const json_t *interpreters)
{
    pthread_mutex_lock(&b->lock);
    bool leaving = b->leaving;
    pthread_mutex_unlock(&b->lock);
    json_t *out = json_copy((json_t *)(uintptr_t)node);
    if (out) {
        node_set_interpreters(out, interpreters);
    }
    if (out && leaving) {
        node_set_leaving(out);
    }
    return out;
}

static int send_node(struct beat *b, int i, const json_t *interpreters, struct err *e)
{
    const json_t *node = json_array_get(b->config->nodes, (size_t)i);
    json_t *document = node_document(b, node, interpreters),
           *gpu = gpus_of_device(b->gpus, node_device(node));
    int rc = store_node_put(b->store, document, e);
    if (rc >= 0 && gpu) {
        rc = store_gpu_put(b->store, node_name(node), gpu, e);
    }
    loads_take(b->loads, i, node_name(node), gpu);
    json_decref(document);
    json_decref(gpu);
    return rc;
}

static void touch_alive(const struct beat *b)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/alive", b->config->data_dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        futimens(fd, NULL);
        close(fd);
    }
}

static int send_beat(struct beat *b, struct err *e)
{
    json_t *interpreters = interpreters_tell(b->interpreters);
    int rc = send_host(b, e);
    loads_read(b->loads);
    for (int i = 0; rc >= 0 && i < (int)json_array_size(b->config->nodes); i++) {
        rc = send_node(b, i, interpreters, e);
    }
    json_decref(interpreters);
    if (rc >= 0) {
        loads_send(b->loads, b->store);
    }
    if (rc == 0) {
        touch_alive(b);
    }
    return rc;
}

static void *run(void *arg)
{
    struct beat *b = arg;
    bool away = false;
    pthread_mutex_lock(&b->lock);
    while (!b->stopping) {
        struct timespec until = clock_timespec(clock_now() + 1);
        if (!b->soon && !b->stopping) {
            pthread_cond_timedwait(&b->wake, &b->lock, &until);
        }
        if (b->stopping) {
            break;
        }
        b->soon = false;
        pthread_mutex_unlock(&b->lock);
        struct err e = {0};
        char quoted[600];
        bool failed = send_beat(b, &e) < 0;
        if (failed && !away) {
            log_warn("agent", "cannot send heartbeats", "why=%s",
                     log_quote(quoted, sizeof quoted, e.message));
        } else if (!failed && away) {
            log_info("agent", "heartbeats arrive again", "%s", "");
        }
        away = failed;
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

struct beat *beat_start(const struct agent_config *c, const struct gpus *gpus,
                        struct interpreters *interpreters, const char *instance, struct err *e)
{
    struct beat *b = calloc(1, sizeof *b);
    if (!b) {
        err_set(e, ERR_MEMORY, "cannot start the heartbeat: memory ran out");
        return NULL;
    }
    b->config = c;
    b->gpus = gpus;
    b->interpreters = interpreters;
    b->instance = instance;
    b->refused = json_object();
    b->loads = loads_new((int)json_array_size(c->nodes));
    pthread_mutex_init(&b->lock, NULL);
    clock_cond_init(&b->wake);
    b->store = agent_config_open_store(c, e);
    if (!b->store || send_beat(b, e) < 0) {
        goto fail;
    }
    if (pthread_create(&b->thread, NULL, run, b) != 0) {
        err_set(e, ERR_MEMORY, "cannot start the thread of the heartbeat");
        goto fail;
    }
    return b;
fail:
    store_close(b->store);
    json_decref(b->refused);
    loads_free(b->loads);
    free(b);
    return NULL;
}

void beat_refused(struct beat *b, const char *cause)
{
    pthread_mutex_lock(&b->lock);
    json_object_set_new(b->refused, cause,
                        json_integer(json_integer_value(json_object_get(b->refused, cause)) + 1));
    pthread_mutex_unlock(&b->lock);
}

void beat_running(struct beat *b, int daemons)
{
    pthread_mutex_lock(&b->lock);
    b->running = daemons;
    pthread_mutex_unlock(&b->lock);
}

void beat_leaving(struct beat *b)
{
    pthread_mutex_lock(&b->lock);
    b->leaving = b->soon = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

void beat_stop(struct beat *b)
{
    if (!b) {
        return;
    }
    pthread_mutex_lock(&b->lock);
    b->stopping = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    size_t i;
    json_t *node;
    char alive[PATH_MAX + 8];
    json_array_foreach(b->config->nodes, i, node) {
        store_node_remove(b->store, node_name(node), NULL);
    }
    store_host_remove(b->store, b->config->host, b->instance, NULL);
    snprintf(alive, sizeof alive, "%s/alive", b->config->data_dir);
    unlink(alive);
    store_close(b->store);
    json_decref(b->refused);
    loads_free(b->loads);
    pthread_cond_destroy(&b->wake);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
