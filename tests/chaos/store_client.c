/* One client of the store for tests/chaos: it does what it reads from its standard input, one
 * command a line, and says how each ended. Python (stores.py) starts several of them, breaks Redis
 * between them, and checks the histories; what is tested is store/ itself, its scripts and its
 * fence.
 *
 *   store_client URL INSTANCE         a user's connection, until the first `take`; from then on all
 *                                     its changes carry the token of its lease
 *   store_client --serve DIR          starts the private Redis as evenstep does, prints its pid
 *
 * Answers: `ok WORDS`, `fenced`, or `no CODE SENTENCE` with the name of the error. `away` is an
 * error of which nobody knows whether the change was made. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

struct client {
    struct store *store;
    const char *instance;
    struct store_fence fence;
    struct err err;
    char *word[4]; /* of the command, behind its name; "" where there are no more */
    char said[256];
};

/* ---- a user's ---------------------------------------------------------------------------------*/

static int number(const char *word)
{
    return (int)strtol(word, NULL, 10);
}

static int create(struct client *c)
{
    char id[STORE_ID] = "";
    json_t *spec = json_pack("{s:s}", "name", c->word[0]);
    int rc = store_job_create(c->store, spec, number(c->word[1]), c->word[0], NULL, id, &c->err);
    json_decref(spec);
    snprintf(c->said, sizeof c->said, "%s %s", rc == JOB_CREATED_BEFORE ? "before" : "new", id);
    return rc;
}

static int ask(struct client *c)
{
    return store_job_request(c->store, c->word[0], c->word[1], &c->err);
}

static int delete (struct client *c)
{
    int rc = store_job_delete(c->store, c->word[0], c->word[1][0] ? c->word[1] : NULL, &c->err);
    snprintf(c->said, sizeof c->said, "%s", rc == JOB_WAS_ANOTHER ? "another" : "done");
    return rc;
}

static int priority(struct client *c)
{
    int value = number(c->word[1]);
    struct job_change change = {.priority = &value};
    const char *seen = c->word[2][0] ? c->word[2] : NULL;
    int rc = store_job_change(c->store, c->word[0], &change, seen, &c->err);
    snprintf(c->said, sizeof c->said, "%s", rc == JOB_WAS_ANOTHER ? "another" : "done");
    return rc;
}

static int get(struct client *c)
{
    char version[STORE_VERSION] = "";
    int rc = store_job_version(c->store, c->word[0], version, &c->err);
    snprintf(c->said, sizeof c->said, "%s", version);
    return rc;
}

/* ---- a coordinator's --------------------------------------------------------------------------*/

static int take(struct client *c)
{
    struct store_leader leader = {.instance = ""};
    json_t *who = json_pack("{s:s}", "host", c->instance);
    struct store_candidate candidate = {c->instance, who, c->word[0][0] ? c->word[0] : NULL, false,
                                        NULL};
    int rc = store_leader_take(c->store, &candidate, &c->fence, &leader, &c->err);
    json_decref(who);
    if (rc == LEADER_OTHER) {
        snprintf(c->said, sizeof c->said, "other %s", leader.instance);
        store_leader_release(&leader);
    } else {
        snprintf(c->said, sizeof c->said, "self %lld", (long long)c->fence.token);
    }
    store_fence(c->store, &c->fence);
    return rc;
}

static int give(struct client *c)
{
    return store_leader_give(c->store, c->instance, &c->err);
}

static int move(struct client *c)
{
    int from = jobstate_find(c->word[1]), to = jobstate_find(c->word[2]);
    if (from < 0 || to < 0) {
        return err_set(&c->err, ERR_INVALID, "'%s' or '%s' is no state", c->word[1], c->word[2]);
    }
    return store_job_transition(c->store, c->word[0], (enum job_state)from, (enum job_state)to,
                                NULL, &c->err);
}

static int attempt(struct client *c)
{
    int64_t n = store_job_increment(c->store, c->word[0], "attempt", &c->err);
    snprintf(c->said, sizeof c->said, "%lld", (long long)n);
    return n < 0 ? (int)n : 0;
}

static int claim(struct client *c)
{
    int rc = store_node_claim(c->store, c->word[0], c->word[1], &c->err);
    snprintf(c->said, sizeof c->said, "%s", rc == CLAIM_OURS ? "ours" : "lost");
    return rc;
}

static int release(struct client *c)
{
    int rc = store_node_release(c->store, c->word[0], c->word[1], &c->err);
    snprintf(c->said, sizeof c->said, "%s", rc > 0 ? "released" : "not");
    return rc;
}

/* ---- the conversation -------------------------------------------------------------------------*/

static const struct verb {
    const char *name;
    int (*run)(struct client *c);
} verbs[] = {{"create", create},   {"ask", ask},     {"delete", delete},  {"priority", priority},
             {"get", get},         {"take", take},   {"give", give},      {"move", move},
             {"attempt", attempt}, {"claim", claim}, {"release", release}};

static void answer(struct client *c, const char *name)
{
    int rc = err_set(&c->err, ERR_INVALID, "there is no command '%s'", name);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!strcmp(verbs[i].name, name)) {
            c->err = (struct err){0};
            c->said[0] = '\0';
            rc = verbs[i].run(c);
        }
    }
    if (rc >= 0) {
        printf("ok %s\n", c->said);
    } else if (strstr(c->err.message, "takes no change of this coordinator")) {
        printf("fenced\n");
    } else {
        printf("no %s %s\n", err_name(c->err.code), c->err.message);
    }
    fflush(stdout);
}

static int serve(const char *folder)
{
    struct err e = {0};
    char url[512];
    int pid = 0;
    if (redis_private_start(folder, url, &pid, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        return 1;
    }
    printf("%d %s\n", pid, url);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: store_client URL INSTANCE | --serve DIR\n");
        return 2;
    }
    if (!strcmp(argv[1], "--serve")) {
        return serve(argv[2]);
    }
    char line[512], *rest;
    struct client c = {.instance = argv[2]};
    if (!(c.store = store_open(argv[1], NULL, &c.err))) {
        fprintf(stderr, "%s\n", c.err.message);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        const char *name = strtok_r(line, " \n", &rest);
        for (size_t i = 0; i < sizeof c.word / sizeof *c.word; i++) {
            char *word = name ? strtok_r(NULL, " \n", &rest) : NULL;
            c.word[i] = word ? word : line + strlen(line);
        }
        answer(&c, name ? name : "");
    }
    store_close(c.store);
    return 0;
}
