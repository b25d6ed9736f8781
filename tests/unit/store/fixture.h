/* A private redis-server in a temporary folder, for the tests of store/. Each test file has one;
 * its folder is used to end it after the tests. Nothing here sleeps: tests wait for conditions with
 * a deadline.
 */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/process/proc.h"
#include "store/store.h"

struct place {
    char dir[64];
    char url[512];
    int pid;
    struct store *store;
};

#define OK(call)                                     \
    do {                                             \
        struct err *e_ = &err_;                      \
        (void)e_;                                    \
        if ((call) < 0) {                            \
            fail_msg("%s: %s", #call, err_.message); \
        }                                            \
    } while (0)

static struct err err_;

static inline int place_open(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    snprintf(p->dir, sizeof p->dir, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(p->dir) || redis_private_start(p->dir, p->url, &p->pid, &err_) < 0 ||
        !(p->store = store_open(p->url, NULL, &err_))) {
        fprintf(stderr, "cannot start: %s (logs in %s)\n", err_.message, p->dir);
        return -1;
    }
    *state = p;
    return 0;
}

static inline int place_close(void **state)
{
    struct place *p = *state;
    store_close(p->store);
    redis_private_stop(p->dir);
    proc_remove_tree(p->dir, NULL);
    free(p);
    return 0;
}

/* A command that none of our programs sends. */
static inline void raw(struct place *p, const char *command)
{
    redisContext *c = redisConnectUnix(p->url + strlen("unix:"));
    assert_true(c && !c->err);
    redisReply *r = redisCommand(c, command);
    assert_true(r && r->type != REDIS_REPLY_ERROR);
    freeReplyObject(r);
    redisFree(c);
}

static inline json_t *json_of(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    return j;
}

/* What a rank's pulse sends, one item at a time. */
static inline int report_rows(struct store *s, const char *id, int rank, const struct row *rows,
                              int n, struct err *e)
{
    return store_report(s, id, rank, &(struct store_report){.rows = rows, .n_rows = n}, e);
}

static inline int report_beat(struct store *s, const char *id, int rank, const json_t *beat,
                              struct err *e)
{
    return store_report(s, id, rank, &(struct store_report){.beat = beat}, e);
}

/* The rows of one rank after a position. */
static inline int rows_of(struct store *s, const char *id, int rank, char *last, int count,
                          store_rows_fn *fn, void *ctx, struct err *e)
{
    struct store_tail tail = {rank, last};
    const struct store_rows_ask ask = {
        .tails = &tail, .n = 1, .count = count, .fn = fn, .ctx = ctx};
    return store_rows_read(s, id, &ask, e);
}

/* The contents of the i-th of these events. */
static inline json_t *said_by(json_t *events, size_t i)
{
    return json_of(json_string_value(json_object_get(json_array_get(events, i), "data")));
}

/* "/a/b/0" of a document; borrowed. */
static inline json_t *at(json_t *j, const char *path)
{
    char key[64];
    while (j && *path) {
        path++;
        size_t n = strcspn(path, "/");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        path += n;
        j = json_is_array(j) ? json_array_get(j, (size_t)strtoul(key, NULL, 10))
                             : json_object_get(j, key);
    }
    return j;
}

static inline const char *text_at(json_t *j, const char *path)
{
    const char *text = json_string_value(at(j, path));
    return text ? text : "(none)";
}

static inline double number_at(json_t *j, const char *path)
{
    return json_is_number(at(j, path)) ? json_number_value(at(j, path)) : NAN;
}

static inline void new_job(struct store *s, const char *spec, int priority, char id[STORE_ID])
{
    json_t *j = json_of(spec);
    OK(store_job_create(s, j, priority, NULL, NULL, id, &err_));
    json_decref(j);
}

#endif
