/* See quotas.h. */
#include "coordinator/files/quotas.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/path.h"

enum { FILE_BYTES = 1 << 20 };

struct quotas {
    pthread_mutex_t lock; /* guards everything below */
    struct path_watch file;
    json_t *document; /* owned */
    long version;
};

/* The file's document; NULL with every mistake in one message. */
static json_t *read_file(const char *path, struct err *e)
{
    struct jsonx_problems problems = {0};
    json_t *document = jsonx_load(path, FILE_BYTES, e);
    if (document && !quota_check(document, &problems)) {
        char first[JSONX_FIRST];
        int more = problems.count + problems.dropped - 1;
        err_set(e, ERR_INVALID, "cannot read quotas file '%s': %s", path,
                jsonx_problems_first(&problems, first));
        if (more > 0) {
            err_hint(e, "%d more mistake%s in the file", more, more == 1 ? " is" : "s are");
        }
        json_decref(document);
        document = NULL;
    }
    jsonx_problems_release(&problems);
    return document;
}

static void read_again(struct quotas *q, bool at_once)
{
    struct err e = {0};
    char quoted[600];
    if (!path_watch_changed(&q->file, at_once)) {
        return;
    }
    json_t *fresh = read_file(q->file.path, &e);
    if (!fresh) {
        log_warn("quotas", "the quotas file is not valid, the quotas stay as they were", "why=%s",
                 log_quote(quoted, sizeof quoted, e.message));
        return;
    }
    json_decref(q->document);
    q->document = fresh;
    q->version++;
    log_info("quotas", "the quotas file was read again", "path=%s", q->file.path);
}

struct quotas *quotas_open(const char *file, struct err *e)
{
    struct quotas *q = calloc(1, sizeof *q);
    if (!q) {
        err_set(e, ERR_MEMORY, "cannot read quotas file '%s': memory ran out", file);
        return NULL;
    }
    if (path_watch_init(&q->file, file) < 0) {
        err_errno(e, ERR_IO, "cannot read quotas file '%s'", file);
        free(q);
        return NULL;
    }
    if (!(q->document = read_file(file, e))) {
        free(q);
        return NULL;
    }
    pthread_mutex_init(&q->lock, NULL);
    return q;
}

void quotas_close(struct quotas *q)
{
    if (q) {
        pthread_mutex_destroy(&q->lock);
        json_decref(q->document);
    }
    free(q);
}

void quotas_read_again(struct quotas *q)
{
    if (q) {
        pthread_mutex_lock(&q->lock);
        read_again(q, true);
        pthread_mutex_unlock(&q->lock);
    }
}

void quotas_find(struct quotas *q, const char *owner, struct quota *out)
{
    if (!q) {
        quota_of(NULL, owner, out);
        return;
    }
    pthread_mutex_lock(&q->lock);
    read_again(q, false);
    quota_of(q->document, owner, out);
    pthread_mutex_unlock(&q->lock);
}

struct preemption quotas_preemption(struct quotas *q)
{
    if (!q) {
        return quota_preemption(NULL);
    }
    pthread_mutex_lock(&q->lock);
    read_again(q, false);
    struct preemption p = quota_preemption(q->document);
    pthread_mutex_unlock(&q->lock);
    return p;
}

long quotas_version(struct quotas *q)
{
    if (!q) {
        return 0;
    }
    pthread_mutex_lock(&q->lock);
    read_again(q, false);
    long version = q->version;
    pthread_mutex_unlock(&q->lock);
    return version;
}
