/* Which settings the trials of a sweep have, and the specs of their jobs: see sweep.h.
 *
 * A grid counts like a clock whose last parameter turns fastest. Drawn values are a pure function
 * of the method's seed, the parameter and the trial (common/rng.h), so a coordinator that starts
 * again finds the same trials. If there are few combinations, they are shuffled and the trials go
 * through them, so none comes twice before each came once.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "job/sweep/sweep.h"

enum { DIGITS = 6, TOKEN = 128, SHUFFLE = 1000 /* a stream that no parameter has */ };

/* ---- values ---------------------------------------------------------------------------------- */

/* How many values a parameter has in a grid. In a drawing only a range of whole numbers has a
 * number of values. */
static int values_of(const struct sweep_parameter *p)
{
    if (p->scale == SWEEP_CHOICE || p->steps > 0) {
        return p->scale == SWEEP_CHOICE ? (int)json_array_size(p->values) : p->steps;
    }
    double n = p->most - p->least + 1;
    return p->scale == SWEEP_INT && n <= SWEEP_TRIALS ? (int)n : 0;
}

/* 0.0316228, not 0.03162277660168379. */
static double rounded(double x)
{
    char text[40];
    snprintf(text, sizeof text, "%.*g", (int)DIGITS, x);
    return strtod(text, NULL);
}

/* The value at `share`, from 0 to 1, of a range. */
static json_t *within(const struct sweep_parameter *p, double share)
{
    double x = p->scale == SWEEP_LOG ? exp(log(p->least) + share * (log(p->most) - log(p->least)))
                                     : p->least + share * (p->most - p->least);
    x = share <= 0 ? p->least : share >= 1 ? p->most : rounded(x);
    return json_real(fmin(fmax(x, p->least), p->most));
}

static json_t *of_grid(const struct sweep *s, int trial, int parameter)
{
    const struct sweep_parameter *p = &s->parameters[parameter];
    int n = values_of(p);
    for (int i = s->n_parameters - 1; i > parameter; i--) {
        trial /= values_of(&s->parameters[i]);
    }
    trial %= n;
    if (p->scale == SWEEP_CHOICE) {
        return json_incref(json_array_get(p->values, (size_t)trial));
    }
    double share = (double)trial / (n - 1);
    return p->scale == SWEEP_INT
               ? json_integer((json_int_t)round(p->least + share * (p->most - p->least)))
               : within(p, share);
}

static json_t *drawn(const struct sweep *s, int trial, int parameter)
{
    const struct sweep_parameter *p = &s->parameters[parameter];
    uint64_t stream = (uint64_t)parameter, at = (uint64_t)trial;
    if (p->scale == SWEEP_CHOICE) {
        uint64_t n = json_array_size(p->values);
        return json_incref(json_array_get(p->values, rng_below(s->seed, stream, at, n)));
    }
    if (p->scale == SWEEP_INT) {
        uint64_t n = (uint64_t)(p->most - p->least) + 1;
        return json_integer((json_int_t)p->least + (json_int_t)rng_below(s->seed, stream, at, n));
    }
    return within(p, rng_double(s->seed, stream, at));
}

json_t *sweep_value(const struct sweep *s, int trial, int parameter)
{
    if (s->n_order > 0) {
        return of_grid(s, s->order[trial % s->n_order], parameter);
    }
    return s->method == SWEEP_GRID ? of_grid(s, trial, parameter) : drawn(s, trial, parameter);
}

/* Fisher and Yates' shuffle. */
void sweep_shuffle(struct sweep *s)
{
    int n = 1;
    for (int i = 0; i < s->n_parameters && n <= SWEEP_TRIALS; i++) {
        n *= values_of(&s->parameters[i]);
    }
    s->n_order = s->method != SWEEP_GRID && n <= SWEEP_TRIALS ? n : 0;
    for (int i = 0; i < s->n_order; i++) {
        int other = (int)rng_below(s->seed, SHUFFLE, (uint64_t)i, (uint64_t)i + 1);
        s->order[i] = s->order[other];
        s->order[other] = (short)i;
    }
}

json_t *sweep_settings(const struct sweep *s, int trial)
{
    json_t *all = json_object();
    for (int i = 0; i < s->n_parameters; i++) {
        json_object_set_new(all, s->parameters[i].pointer, sweep_value(s, trial, i));
    }
    return all;
}

/* ---- specs ----------------------------------------------------------------------------------- */

/* Reads the first token of a pointer, after its slash, unescaped. Returns what follows. */
static const char *next_token(const char *pointer, char out[TOKEN])
{
    size_t n = 0;
    const char *at = pointer + 1;
    for (; *at && *at != '/'; at++) {
        bool escaped = *at == '~' && (at[1] == '0' || at[1] == '1');
        char c = escaped ? (at[1] == '0' ? '~' : '/') : *at;
        at += escaped;
        if (n + 1 < TOKEN) {
            out[n++] = c;
        }
    }
    out[n] = '\0';
    return at;
}

/* A token as an index below `size`; negative: it is none. */
static long index_of(const char *token, size_t size)
{
    char *end;
    long i = strtol(token, &end, 10);
    return isdigit((unsigned char)token[0]) && !*end && i < (long)size ? i : -1;
}

/* Sets the value at a pointer, and makes missing objects on the way. Takes `value`. */
static bool set_at(json_t *root, const char *pointer, json_t *value)
{
    char token[TOKEN];
    json_t *at = root;
    for (const char *rest = next_token(pointer, token);; rest = next_token(rest, token)) {
        long i = json_is_array(at) ? index_of(token, json_array_size(at)) : -1;
        if (!json_is_object(at) && i < 0) {
            json_decref(value);
            return false;
        }
        if (!*rest) {
            return (json_is_object(at) ? json_object_set_new(at, token, value)
                                       : json_array_set_new(at, (size_t)i, value)) == 0;
        }
        json_t *below =
            json_is_object(at) ? json_object_get(at, token) : json_array_get(at, (size_t)i);
        if (!below && json_is_object(at)) {
            below = json_object();
            json_object_set_new(at, token, below);
        }
        at = below;
    }
}

/* Is the value at this pointer a text for a program? */
static bool is_text(const char *pointer)
{
    return strncmp(pointer, "/program/args/", 14) == 0 ||
           strncmp(pointer, "/program/env/", 13) == 0;
}

/* As set_at(), but a number becomes text where a program needs text. */
static bool set_setting(json_t *spec, const char *pointer, json_t *value)
{
    if (json_is_number(value) && is_text(pointer)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        json_decref(value);
        value = json_string(text);
        free(text);
    }
    return set_at(spec, pointer, value);
}

/* Adds the tag of all jobs of a sweep: "sweep:ID". */
static void set_tag(json_t *spec, const char *id)
{
    char tag[32];
    json_t *tags = json_object_get(spec, "tags");
    snprintf(tag, sizeof tag, "sweep:%.20s", id);
    if (!json_is_array(tags)) {
        tags = json_array();
        json_object_set_new(spec, "tags", tags);
    }
    json_array_append_new(tags, json_string(tag));
}

/* "rates-7", "rates-7-r2-s3": trial, rung and seed as people count them. */
static void set_name(const struct sweep *s, json_t *spec, struct sweep_run_id run)
{
    char name[SPEC_NAME + 40], rung[16] = "", seed[16] = "";
    if (s->n_rungs > 1) {
        snprintf(rung, sizeof rung, "-r%d", run.rung + 1);
    }
    if (s->seeds > 1) {
        snprintf(seed, sizeof seed, "-s%d", run.seed + 1);
    }
    snprintf(name, sizeof name, "%.100s-%d%s%s", s->name[0] ? s->name : "sweep", run.trial + 1,
             rung, seed);
    json_object_set_new(spec, "name", json_string(name));
}

int sweep_workers(const struct sweep *s, int trial)
{
    const json_t *spec = json_object_get(s->json, "spec");
    const json_t *given = json_object_get(spec, "workers");
    int n = json_is_integer(given) ? (int)json_integer_value(given) : 1;
    for (int i = 0; i < s->n_parameters; i++) {
        if (strcmp(s->parameters[i].pointer, "/workers") == 0) {
            json_t *value = sweep_value(s, trial, i);
            n = (int)json_number_value(value);
            json_decref(value);
        }
    }
    return json_object_get(spec, "cluster") ? 0 : n;
}

json_t *sweep_run_spec(const struct sweep *s, const char *id, struct sweep_run_id run,
                       const char *before, int *failed)
{
    char path[64];
    json_t *spec = json_deep_copy(json_object_get(s->json, "spec"));
    const json_t *seed = json_object_get(spec, "seed");
    json_int_t first = seed ? json_integer_value(seed) : 1;
    *failed = -1;
    for (int i = 0; i < s->n_parameters; i++) {
        if (!set_setting(spec, s->parameters[i].pointer, sweep_value(s, run.trial, i))) {
            *failed = i;
            json_decref(spec);
            return NULL;
        }
    }
    if (s->epochs_at[0] && !set_setting(spec, s->epochs_at, json_integer(s->rungs[run.rung]))) {
        *failed = s->n_parameters;
        json_decref(spec);
        return NULL;
    }
    set_name(s, spec, run);
    set_tag(spec, id);
    if (s->seeds > 1) {
        json_object_set_new(spec, "seed", json_integer(first + run.seed));
    }
    if (s->method == SWEEP_HALVING) {
        json_object_set_new(spec, "epochs", json_integer(s->rungs[run.rung]));
    }
    if (before) {
        snprintf(path, sizeof path, "%.20s/checkpoints", before);
        json_object_set_new(spec, "init", json_pack("{s:s, s:b}", "path", path, "continue", 1));
    }
    return spec;
}
