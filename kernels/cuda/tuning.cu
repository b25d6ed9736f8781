/* What was measured to choose cuDNN's algorithms (conv.cu), as a document that the node's profile keeps, so that the next job on this GPU
 * need not measure again.
 *
 *   {"device": what the GPU and cuDNN are, "choices": [[key ..., algorithm of each pass, arithmetic of each pass], ...]}
 *
 * What a newcomer would get wrong: a document may be old or altered. One of another GPU or cuDNN is ignored, and so is a choice that this
 * job's precision does not allow; an algorithm that cuDNN does not know is found out by conv.cu when it asks for its workspace. The list
 * belongs to whoever holds `building`, which a thread that measures does for long: who only asks what is new comes again later.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

enum { MOST_CHOICES = 4096 };

struct cuda_choice *cuda_choice_find(struct cuda_device *d, const int key[CUDA_CHOICE_KEY])
{
    for (struct cuda_choice *c = d->choices; c; c = c->next) {
        if (memcmp(c->key, key, sizeof(c->key)) == 0) {
            return c;
        }
    }
    return NULL;
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

static int *fields_of(struct cuda_choice *c, int i)
{
    return i < CUDA_CHOICE_KEY                 ? &c->key[i]
           : i < CUDA_CHOICE_KEY + CUDA_PASSES ? &c->algorithm[i - CUDA_CHOICE_KEY]
                                               : &c->math[i - CUDA_CHOICE_KEY - CUDA_PASSES];
}
static const int n_fields = CUDA_CHOICE_KEY + 2 * CUDA_PASSES;

json_t *cuda_tuning(struct device *dev)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    if (pthread_mutex_trylock(&d->building) != 0) {
        return NULL;
    }
    json_t *list = d->untold ? json_array() : NULL;
    for (struct cuda_choice *c = d->choices; list && c; c = c->next) {
        json_t *row = json_array();
        for (int i = 0; i < n_fields; i++) {
            json_array_append_new(row, json_integer(*fields_of(c, i)));
        }
        json_array_append_new(list, row);
    }
    d->untold = false;
    pthread_mutex_unlock(&d->building);
    return list ? json_pack("{s:s, s:o}", "device", d->line, "choices", list) : NULL;
}

static bool read_choice(struct cuda_choice *c, const json_t *row)
{
    bool good = json_array_size(row) == (size_t)n_fields;
    for (int i = 0; good && i < n_fields; i++) {
        const json_t *field = json_array_get(row, (size_t)i);
        json_int_t value = json_integer_value(field), least = i < CUDA_CHOICE_KEY || i >= CUDA_CHOICE_KEY + CUDA_PASSES ? 0 : -1;
        good = json_is_integer(field) && value >= least && value <= 1 << 30;
        *fields_of(c, i) = (int)value;
    }
    for (int i = 0; good && i < CUDA_PASSES; i++) {
        good = c->algorithm[i] < 0 || cuda_math_allowed((enum cuda_precision)c->key[0], c->math[i]);
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
    d->untold = false; /* nothing that its teller does not know */
    pthread_mutex_unlock(&d->building);
}
