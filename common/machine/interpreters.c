/* A thread that asks the Python interpreters of a host: see interpreters.h. */
#include "common/machine/interpreters.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/machine/packages.h"

struct interpreters {
    const struct opt_values *options; /* borrowed */
    const char *path;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards what follows */
    json_t *all;          /* as interpreters_tell() returns it */
    bool found;           /* each interpreter has said what it finds */
};

int interpreters_check(const struct opt_values *options, struct err *e)
{
    for (int k = 0; k < opt_count(options, "python"); k++) {
        const char *path = opt_item(options, "python", k);
        if (strchr(path, '/') && path[0] != '/') {
            return err_set(e, ERR_INVALID, "--python '%.200s': the path must begin with /", path);
        }
        if (path[0] == '/' && access(path, X_OK) != 0) {
            return err_errno(e, ERR_NOT_FOUND, "--python '%.200s' cannot be run", path);
        }
    }
    return 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static const char *path_of(const struct interpreters *i, int k)
{
    return opt_count(i->options, "python") ? opt_item(i->options, "python", k) : "python3";
}

static struct packages_ask ask_of(const struct interpreters *i, int k)
{
    return (struct packages_ask){.python = path_of(i, k), .path = i->path, .stop = &i->stop};
}

static void find(struct interpreters *i, int k)
{
    struct err e = {0};
    char quoted[600];
    struct packages_ask ask = ask_of(i, k);
    json_t *packages = packages_find(&ask, &e);
    if (!packages && e.code != ERR_CANCELLED) {
        log_warn("programs", "an interpreter does not say which packages it has", "path=%s why=%s",
                 ask.python, log_quote(quoted, sizeof quoted, e.message));
    }
    json_t *one = json_pack("{s:s, s:o*}", "path", ask.python, "packages", packages);
    pthread_mutex_lock(&i->lock);
    json_array_append_new(i->all, one);
    pthread_mutex_unlock(&i->lock);
}

/* Removes a package that cannot be imported, and records why in `broken`. */
static void set_broken(struct interpreters *i, int k, const char *name, const char *why)
{
    pthread_mutex_lock(&i->lock);
    json_t *one = json_array_get(i->all, (size_t)k), *broken = json_object_get(one, "broken");
    if (!broken) {
        broken = json_object();
        json_object_set_new(one, "broken", broken);
    }
    json_object_set_new(broken, name, json_string(why));
    json_object_del(json_object_get(one, "packages"), name);
    pthread_mutex_unlock(&i->lock);
}

static bool has(struct interpreters *i, int k, const char *name)
{
    pthread_mutex_lock(&i->lock);
    const json_t *one = json_array_get(i->all, (size_t)k);
    bool there = json_object_get(json_object_get(one, "packages"), name) != NULL;
    pthread_mutex_unlock(&i->lock);
    return there;
}

static void import_all(struct interpreters *i, int k)
{
    for (const char *const *name = packages_names; *name && !atomic_load(&i->stop); name++) {
        struct err e = {0};
        char quoted[600];
        struct packages_ask ask = ask_of(i, k);
        if (has(i, k, *name) && packages_import(&ask, *name, &e) < 0 && e.code != ERR_CANCELLED) {
            log_warn("programs", "a package cannot be imported", "python=%s package=%s why=%s",
                     ask.python, *name, log_quote(quoted, sizeof quoted, e.message));
            set_broken(i, k, *name, e.message);
        }
    }
}

static void *run(void *arg)
{
    struct interpreters *i = arg;
    int given = opt_count(i->options, "python");
    for (int k = 0; k < (given ? given : 1) && !atomic_load(&i->stop); k++) {
        find(i, k);
    }
    pthread_mutex_lock(&i->lock);
    i->found = true;
    pthread_mutex_unlock(&i->lock);
    for (int k = 0; k < given; k++) {
        import_all(i, k);
    }
    return NULL;
}

/* ---- its owner ------------------------------------------------------------------------------- */

struct interpreters *interpreters_start(const struct opt_values *options, const char *path,
                                        struct err *e)
{
    struct interpreters *i = calloc(1, sizeof *i);
    if (!i) {
        err_set(e, ERR_MEMORY, "cannot ask for interpreters: memory ran out");
        return NULL;
    }
    i->options = options;
    i->path = path;
    i->all = json_array();
    pthread_mutex_init(&i->lock, NULL);
    if (pthread_create(&i->thread, NULL, run, i) != 0) {
        err_set(e, ERR_MEMORY, "cannot start the thread that asks for interpreters");
        pthread_mutex_destroy(&i->lock);
        json_decref(i->all);
        free(i);
        return NULL;
    }
    return i;
}

json_t *interpreters_tell(struct interpreters *i)
{
    pthread_mutex_lock(&i->lock);
    json_t *all = i->found ? json_deep_copy(i->all) : NULL;
    pthread_mutex_unlock(&i->lock);
    return all;
}

void interpreters_stop(struct interpreters *i)
{
    if (!i) {
        return;
    }
    atomic_store(&i->stop, true);
    pthread_join(i->thread, NULL);
    pthread_mutex_destroy(&i->lock);
    json_decref(i->all);
    free(i);
}
