/* See compare.h. */
#include "worker/tasks/compare.h"

#include <math.h>
#include <string.h>

#include "job/documents/results/compared.h"
#include "job/documents/results/scored.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/tasks/print.h"

/* The i-th value of a tensor in a file, where it may be unaligned. */
static double value_at(const struct safetensor *t, size_t i)
{
    float value;
    memcpy(&value, (const char *)t->data + i * sizeof value, sizeof value);
    return (double)value;
}

/* `other` NULL: the sum of squares of the values themselves. */
static double sum_of_squares(const struct safetensor *one, const struct safetensor *other)
{
    double sum = 0;
    for (size_t i = 0; i < one->count; i++) {
        double value = value_at(one, i) - (other ? value_at(other, i) : 0);
        sum += value * value;
    }
    return sum;
}

static bool are_alike(const struct safetensor *one, const struct safetensor *other)
{
    return one->rank == other->rank &&
           memcmp(one->dim, other->dim, (size_t)one->rank * sizeof *one->dim) == 0;
}

/* Checks that each tensor of one model has a counterpart in the other. */
static int check_tensors(const struct safetensors *one, const struct safetensors *other,
                         struct err *e)
{
    for (int i = 0; i < one->n; i++) {
        const struct safetensor *fellow = safetensors_find(other, one->tensors[i].name);
        if (!fellow || !are_alike(&one->tensors[i], fellow)) {
            return err_set(e, ERR_DATA, "the models differ in tensor '%s': %s",
                           one->tensors[i].name,
                           fellow ? "it has another shape" : "only one of them has it");
        }
    }
    return one->n == other->n
               ? 0
               : err_set(e, ERR_DATA, "the models have %d and %d tensors", one->n, other->n);
}

/* The root mean square of n values, relative to all values. */
static double in_all(double squares, double n, double all)
{
    return squares == 0 ? 0 : sqrt(squares / n) / all;
}

/* `beside` has no tensors if there is no third model. */
static void compare(const struct safetensors *one, const struct safetensors *other,
                    const struct safetensors *beside, struct compared *out)
{
    double squares = 0, rounded = 0;
    for (int i = 0; i < one->n; i++) {
        out->values += (int64_t)one->tensors[i].count;
        squares += sum_of_squares(&one->tensors[i], NULL);
    }
    out->tensors = one->n;
    double all = out->values > 0 ? sqrt(squares / (double)out->values) : 0;
    for (int i = 0; i < one->n; i++) {
        const struct safetensor *t = &one->tensors[i], *third = safetensors_find(beside, t->name);
        double rounding = third ? sum_of_squares(t, third) : 0;
        compared_add(
            out, t->name,
            in_all(sum_of_squares(t, safetensors_find(other, t->name)), (double)t->count, all),
            in_all(rounding, (double)t->count, all));
        rounded += rounding;
    }
    out->rounding = in_all(rounded, (double)out->values, all);
}

static int open_all(struct safetensors opened[COMPARED_MODELS],
                    const char *const files[COMPARED_MODELS], struct err *e)
{
    int rc = 0;
    for (int i = 0; i < COMPARED_MODELS && rc >= 0; i++) {
        if (files[i] && (rc = safetensors_open(&opened[i], files[i], false, e)) >= 0) {
            rc = check_tensors(&opened[0], &opened[i], e);
        }
    }
    return rc;
}

static json_t *compared_files(const char *const files[COMPARED_MODELS], struct err *e)
{
    struct safetensors opened[COMPARED_MODELS] = {0};
    struct compared found = {0};
    int rc = open_all(opened, files, e);
    if (rc >= 0) {
        compare(&opened[0], &opened[1], &opened[2], &found);
    }
    for (int i = 0; i < COMPARED_MODELS; i++) {
        safetensors_close(&opened[i]);
    }
    return rc < 0 ? NULL : compared_json(&found);
}

int compare_models(const char *const files[COMPARED_MODELS], struct err *e)
{
    json_t *out = compared_files(files, e);
    bool printed = print_answer(out ? out : scored_refusal(e));
    return e->code || printed ? -(int)e->code : err_set(e, ERR_IO, "cannot print the answer");
}
