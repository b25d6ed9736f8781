/* See check.h. */
#include "cli/run/check.h"

#include <stdio.h>
#include <string.h>

#include "cli/session.h"
#include "cli/worker.h"
#include "common/text/text.h"
#include "job/documents/results/compared.h"

enum { WORKERS = 3 };
static int refuse(const char *option, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID, "--check and %s: %s", option, why);
}

/* What a program does not seed itself would begin otherwise in each job (client/python). */
static void seed(json_t *program)
{
    json_t *env = json_object_get(program, "env");
    env = env ? json_incref(env) : json_object();
    if (!json_object_get(env, "CHECK_SEED")) {
        json_object_set_new(env, "CHECK_SEED", json_string("0"));
    }
    json_object_set_new(program, "env", env);
}

int check_several(json_t *spec, const struct opt_values *o, struct err *e)
{
    const char *strategy = opt_string(o, "strategy");
    if (opt_flag(o, "detach")) {
        return refuse("--detach", "the result is known when both jobs have ended", e);
    }
    if (opt_string(o, "output")) {
        return refuse("--output", "the two jobs are for comparison alone", e);
    }
    if (opt_flag(o, "ddp")) {
        return refuse("--ddp", "such a program has equal minibatches", e);
    }
    if (json_object_get(spec, "elastic")) {
        return refuse("elastic workers", "say how many, as --workers 3", e);
    }
    if (strategy && strcmp(strategy, "sync") != 0) {
        return refuse("--strategy", "only sync computes the same on any number of workers", e);
    }
    json_int_t workers =
        opt_given(o, "workers") ? json_integer_value(json_object_get(spec, "workers")) : WORKERS;
    if (workers < 2) {
        return refuse("--workers 1", "one worker is compared with several", e);
    }
    json_object_set_new(spec, "workers", json_integer(workers));
    json_object_set_new(spec, "strategy", json_pack("{s:s}", "type", "sync"));
    seed(json_object_get(spec, "program"));
    if (!json_object_get(spec, "batching")) {
        json_t *weights = json_array();
        for (json_int_t i = workers; i > 0; i--) {
            json_array_append_new(weights, json_integer(i));
        }
        json_object_set_new(spec, "batching",
                            json_pack("{s:s, s:o}", "policy", "static", "weights", weights));
    }
    return 0;
}

json_t *check_alone(const json_t *several)
{
    json_t *alone = json_deep_copy(several), *batching = json_object_get(alone, "batching");
    json_object_set_new(alone, "workers", json_integer(1));
    json_object_del(alone, "nodes"); /* any of them; the list may be one for each worker */
    json_object_set_new(batching, "policy", json_string("equal"));
    json_object_del(batching, "weights");
    json_object_del(batching, "sizes");
    return alone;
}

json_t *check_beside(const json_t *alone)
{
    json_t *beside = json_deep_copy(alone);
    json_t *env = json_object_get(json_object_get(beside, "program"), "env");
    json_object_set_new(env, "CHECK_ROUNDING", json_string("1"));
    return beside;
}

/* ---- the result ------------------------------------------------------------------------------ */

enum status check_compare(struct compared *out, const char *alone, const char *several,
                          const char *beside, struct err *e)
{
    const char *argv[] = {NULL,   "--compare", alone, "--with", several, beside ? "--beside" : NULL,
                          beside, NULL};
    json_t *answer = worker_answer(argv, e);
    bool compared = answer && compared_read(out, answer, e) >= 0;
    json_decref(answer);
    return compared ? STATUS_DONE : STATUS_FAILED;
}

static void say(const struct compared *c)
{
    char name[2 * COMPARED_NAME];
    fprintf(stderr, "compared %lld values in %lld tensors; of the root mean square of all:\n",
            (long long)c->values, (long long)c->tensors);
    for (int i = 0; i < c->n_largest; i++) {
        const struct compared_tensor *t = &c->largest[i];
        fprintf(stderr, "  %-40s differs by %.1e", text_shown(name, sizeof name, t->name),
                t->difference);
        if (c->rounding > 0) {
            fprintf(stderr, ", by rounding alone %.1e", t->rounding);
        }
        fputc('\n', stderr);
    }
    if (compared_is_same(c)) {
        fputs("the same within rounding: several workers train this program as one does\n", stderr);
    }
}

static void say_told(const json_t *told)
{
    size_t i;
    json_t *sentence;
    fputs("what the program was told on several workers:\n", stderr);
    json_array_foreach(told, i, sentence) {
        fputs("  ", stderr);
        text_print(stderr, json_string_value(sentence));
        fputc('\n', stderr);
    }
}

static void put(const struct compared *c, const json_t *jobs, const json_t *told)
{
    json_t *answer = compared_json(c);
    json_object_set(answer, "jobs", (json_t *)jobs);
    json_object_set(answer, "told", (json_t *)told);
    json_object_set_new(answer, "same", json_boolean(compared_is_same(c)));
    json_object_del(answer, "format");
    session_put(answer);
    json_decref(answer);
}

enum status check_tell(const struct compared *found, const json_t *jobs, const json_t *told,
                       bool json, struct err *e)
{
    bool same = compared_is_same(found), knows = json_array_size(told) > 0;
    if (json) {
        put(found, jobs, told);
    } else {
        say(found);
    }
    if (same) {
        return STATUS_DONE;
    }
    if (knows && !json) {
        say_told(told);
    }
    if (compared_is_blind(found)) {
        err_set(e, ERR_DATA,
                "cannot tell whether several workers train the same: on one worker, too, rounding "
                "alone moves this program's parameters by %.1e",
                found->rounding);
        err_hint(e,
                 "every step adds to it, and half precision makes most: take few steps, in 32 "
                 "bits%s",
                 knows ? "; what the program was told may say more" : "");
        return STATUS_FAILED;
    }
    err_set(e, ERR_DATA, "not the same: on several workers this program trains another model");
    err_hint(e,
             "%sdropout, batch norm and random numbers of each sample differ by design, so leave "
             "them out for this (docs/own-program-support.md)",
             knows ? "what the program was told says why, or some of it; " : "");
    return STATUS_FAILED;
}
