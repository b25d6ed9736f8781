/* What was measured to choose cuDNN's engines (conv.cu), as a document that the node's profile
 * keeps, so that the next job on this GPU need not measure again.
 *
 *   {"device": what the GPU and cuDNN are,
 *    "choices": [[[key ...], [[engine, knob, value, ...] of each pass]], ...]}
 *
 * A document may be old or altered. One of another GPU or cuDNN is ignored; an engine that cuDNN
 * does not know, or whose arithmetic the job's precision does not allow, is refused when a plan is
 * made of it. The list belongs to the thread that holds `building`. A thread that measures holds it
 * for long, so a thread that only asks for new entries does not wait, and asks again later.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

enum { MOST_CHOICES = 4096 };

const struct cuda_choice cuda_no_choice = {NULL, {}, {{-1, 0, {}}, {-1, 0, {}}, {-1, 0, {}}}};

struct cuda_choice *cuda_choice_find(struct cuda_device *d, const int key[CUDA_CHOICE_KEY])
{
    for (struct cuda_choice *c = d->choices; c; c = c->next) {
        if (memcmp(c->key, key, sizeof(c->key)) == 0) {
            return c;
        }
    }
    return NULL;
}

/* Does this choice have the same shape, whatever the minibatch, and an engine for each pass? */
static bool lends(const struct cuda_choice *c, const int key[CUDA_CHOICE_KEY], unsigned passes)
{
    int of[CUDA_CHOICE_KEY];
    memcpy(of, c->key, sizeof(of));
    of[CUDA_CHOICE_BATCH] = key[CUDA_CHOICE_BATCH];
    bool all = memcmp(of, key, sizeof(of)) == 0;
    for (int i = 0; i < CUDA_PASSES; i++) {
        all = all && (!(passes >> i & 1) || c->engine[i].index >= 0);
    }
    return all;
}

/* The distance of their minibatches, in powers of two. */
static double distance(const int a[CUDA_CHOICE_KEY], const int b[CUDA_CHOICE_KEY])
{
    return fabs(log2((double)a[CUDA_CHOICE_BATCH] / b[CUDA_CHOICE_BATCH]));
}

const struct cuda_choice *cuda_choice_nearest(const struct cuda_device *d,
                                              const int key[CUDA_CHOICE_KEY], unsigned passes)
{
    const struct cuda_choice *nearest = NULL;
    for (const struct cuda_choice *c = d->choices; c; c = c->next) {
        if (lends(c, key, passes) &&
            (!nearest || distance(c->key, key) < distance(nearest->key, key))) {
            nearest = c;
        }
    }
    return nearest;
}

int cuda_choice_keep(struct cuda_device *d, const struct cuda_choice *choice, struct err *e)
{
    struct cuda_choice *kept = cuda_choice_find(d, choice->key);
    if (!kept) {
        kept = (struct cuda_choice *)calloc(1, sizeof(*kept));
        if (!kept) {
            return err_set(e, ERR_MEMORY, "memory ran out");
        }
        kept->next = d->choices;
        d->choices = kept;
    }
    struct cuda_choice *next = kept->next;
    *kept = *choice;
    kept->next = next;
    d->untold = true;
    return 0;
}

/* [index, kind, value, ...]; [] if none is chosen. */
static json_t *engine_json(const struct cuda_engine *engine)
{
    json_t *row = json_array();
    if (engine->index >= 0) {
        json_array_append_new(row, json_integer(engine->index));
    }
    for (int i = 0; i < 2 * engine->n_knobs; i++) {
        json_array_append_new(row, json_integer(engine->knobs[i / 2][i % 2]));
    }
    return row;
}

static json_t *choice_json(const struct cuda_choice *c)
{
    json_t *key = json_array(), *engines = json_array();
    for (int i = 0; i < CUDA_CHOICE_KEY; i++) {
        json_array_append_new(key, json_integer(c->key[i]));
    }
    for (int i = 0; i < CUDA_PASSES; i++) {
        json_array_append_new(engines, engine_json(&c->engine[i]));
    }
    return json_pack("[o, o]", key, engines);
}

json_t *cuda_tuning(struct device *dev)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    if (pthread_mutex_trylock(&d->building) != 0) {
        return NULL;
    }
    json_t *list = d->untold ? json_array() : NULL;
    for (struct cuda_choice *c = d->choices; list && c; c = c->next) {
        json_array_append_new(list, choice_json(c));
    }
    d->untold = false;
    pthread_mutex_unlock(&d->building);
    return list ? json_pack("{s:s, s:o}", "device", d->line, "choices", list) : NULL;
}

static bool read_number(int *out, const json_t *value)
{
    json_int_t n = json_integer_value(value);
    *out = (int)n;
    return json_is_integer(value) && n >= 0 && n <= 1 << 30;
}

static bool read_engine(struct cuda_engine *out, const json_t *row)
{
    size_t n = json_array_size(row);
    *out = {-1, (int)(n / 2), {}};
    bool good = json_is_array(row) && n <= 1 + 2 * CUDA_KNOBS && (n == 0 || n % 2 == 1);
    for (size_t i = 0; good && i < n; i++) {
        good = read_number(i == 0 ? &out->index : &out->knobs[(i - 1) / 2][(i - 1) % 2],
                           json_array_get(row, i));
    }
    return good;
}

static bool read_choice(struct cuda_choice *c, const json_t *row)
{
    const json_t *key = json_array_get(row, 0), *engines = json_array_get(row, 1);
    bool good = json_array_size(row) == 2 && json_array_size(key) == CUDA_CHOICE_KEY &&
                json_array_size(engines) == CUDA_PASSES;
    for (size_t i = 0; good && i < CUDA_CHOICE_KEY; i++) {
        good = read_number(&c->key[i], json_array_get(key, i));
    }
    for (size_t i = 0; good && i < CUDA_PASSES; i++) {
        good = read_engine(&c->engine[i], json_array_get(engines, i));
    }
    return good;
}

void cuda_tune(struct device *dev, const json_t *tuning)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    const json_t *list = json_object_get(tuning, "choices");
    const char *of = json_string_value(json_object_get(tuning, "device"));
    if (!of || strcmp(of, d->line) != 0 || json_array_size(list) > MOST_CHOICES) {
        return;
    }
    pthread_mutex_lock(&d->building);
    for (size_t i = json_array_size(list); i-- > 0;) {
        struct cuda_choice c = {};
        struct err ignored;
        if (read_choice(&c, json_array_get(list, i)) && !cuda_choice_find(d, c.key)) {
            cuda_choice_keep(d, &c, &ignored);
        }
    }
    d->untold = false; /* the caller knows all of it */
    pthread_mutex_unlock(&d->building);
}
