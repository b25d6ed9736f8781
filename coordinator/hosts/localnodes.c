/* Heartbeats of local nodes: see localnodes.h. */
#include "coordinator/hosts/localnodes.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/machine/gpu.h"
#include "common/log.h"
#include "job/node/node.h"
#include "store/loads.h"

static const double beat_seconds = 1, asked_seconds = 0.1; /* asked_seconds: while interpreters are
                                                              being asked */

struct localnodes {
    struct store *store; /* the thread's, after the first heartbeat */
    json_t *nodes;
    struct gpus *gpus; /* NULL: none */
    struct loads *loads;
    struct interpreters *interpreters; /* borrowed; NULL: none */
    bool asked;                        /* some interpreter has not answered yet */
    pthread_t thread;
    pthread_mutex_t lock; /* guards stopping */
    pthread_cond_t wake;
    bool stopping;
};

static void set_interpreters(struct localnodes *l)
{
    size_t i;
    json_t *node, *all = l->interpreters ? interpreters_tell(l->interpreters) : NULL;
    l->asked = l->interpreters && !all;
    json_array_foreach(l->nodes, i, node) {
        if (l->interpreters) {
            node_set_interpreters(node, all);
        }
    }
    json_decref(all);
}

static int beat(struct localnodes *l, struct err *e)
{
    size_t i;
    json_t *node;
    set_interpreters(l);
    loads_read(l->loads);
    int rc = store_nodes_put(l->store, l->nodes, e);
    json_array_foreach(l->nodes, i, node) {
        json_t *gpu = gpus_of_device(l->gpus, node_device(node));
        if (rc >= 0 && gpu) {
            rc = store_gpu_put(l->store, node_name(node), gpu, e);
        }
        loads_take(l->loads, (int)i, node_name(node), gpu);
        json_decref(gpu);
    }
    if (rc >= 0) {
        loads_send(l->loads, l->store);
    }
    return rc < 0 ? rc : 0;
}

static void *run(void *arg)
{
    struct localnodes *l = arg;
    bool away = false;
    pthread_mutex_lock(&l->lock);
    while (!l->stopping) {
        struct timespec until =
            clock_timespec(clock_now() + (l->asked ? asked_seconds : beat_seconds));
        pthread_cond_timedwait(&l->wake, &l->lock, &until);
        if (l->stopping) {
            break;
        }
        pthread_mutex_unlock(&l->lock);
        struct err e = {0};
        bool failed = beat(l, &e) < 0;
        if (failed && !away) {
            log_warn("nodes", "cannot send heartbeats", "why=\"%s\"", e.message);
        }
        away = failed;
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

struct localnodes *localnodes_start(const char *store_url, const char *password,
                                    const json_t *nodes, struct interpreters *interpreters,
                                    struct err *e)
{
    struct localnodes *l = calloc(1, sizeof *l);
    if (!l) {
        err_set(e, ERR_MEMORY, "cannot register the local nodes: memory ran out");
        return NULL;
    }
    l->store = store_open(store_url, password, e);
    l->nodes = json_deep_copy(nodes);
    l->gpus = gpus_open();
    l->loads = loads_new((int)json_array_size(nodes));
    l->interpreters = interpreters;
    pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->wake);
    if (!l->store || beat(l, e) < 0) {
        goto fail;
    }
    if (pthread_create(&l->thread, NULL, run, l) != 0) {
        err_set(e, ERR_MEMORY, "cannot start the thread of the local nodes");
        goto fail;
    }
    return l;
fail:
    gpus_close(l->gpus);
    loads_free(l->loads);
    store_close(l->store);
    json_decref(l->nodes);
    free(l);
    return NULL;
}

void localnodes_stop(struct localnodes *l, int remove)
{
    if (!l) {
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    size_t i;
    json_t *node;
    json_array_foreach(l->nodes, i, node) {
        if (remove) {
            store_node_remove(l->store, node_name(node), NULL);
        }
    }
    gpus_close(l->gpus);
    loads_free(l->loads);
    store_close(l->store);
    json_decref(l->nodes);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
