/* See scored.h. */
#include "job/documents/results/scored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t cell(const struct scored *s, int row, int column)
{
    return s->confusion[(size_t)row * (size_t)s->classes + (size_t)column];
}

struct scored_class scored_class(const struct scored *s, int c)
{
    struct scored_class one = {.name = json_string_value(json_array_get(s->names, (size_t)c)),
                               .right = cell(s, c, c)};
    for (int k = 0; k < s->classes; k++) {
        one.samples += cell(s, c, k);
        one.answers += cell(s, k, c);
    }
    one.accuracy = one.samples ? (double)one.right / (double)one.samples : NAN;
    one.precision = one.answers ? (double)one.right / (double)one.answers : NAN;
    return one;
}

int64_t scored_right(const struct scored *s)
{
    int64_t right = 0;
    for (int c = 0; c < s->classes; c++) {
        right += cell(s, c, c);
    }
    return right;
}

void scored_add_worst(struct scored *s, int64_t sample, int label, int answer, double loss)
{
    int at = s->n_worst;
    while (at > 0 && s->worst[at - 1].loss < loss) {
        at--;
    }
    if (at == SCORED_WORST) {
        return;
    }
    s->n_worst += s->n_worst < SCORED_WORST;
    memmove(&s->worst[at + 1], &s->worst[at], (size_t)(s->n_worst - 1 - at) * sizeof s->worst[0]);
    s->worst[at] = (struct scored_worst){sample, label, answer, loss, NULL};
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *class_json(const struct scored *s, int c)
{
    struct scored_class one = scored_class(s, c);
    return json_pack("{s:i, s:I, s:I, s:I, s:s?, s:o, s:o}", "class", c, "samples",
                     (json_int_t)one.samples, "right", (json_int_t)one.right, "answers",
                     (json_int_t)one.answers, "name", one.name, "accuracy",
                     document_real(one.accuracy), "precision", document_real(one.precision));
}

static void add_classes(const struct scored *s, json_t *out)
{
    json_t *classes = json_array(), *matrix = json_array();
    int64_t right = scored_right(s);
    for (int c = 0; c < s->classes; c++) {
        json_t *row = json_array();
        for (int k = 0; k < s->classes; k++) {
            json_array_append_new(row, json_integer((json_int_t)cell(s, c, k)));
        }
        json_array_append_new(classes, class_json(s, c));
        json_array_append_new(matrix, row);
    }
    double accuracy = s->samples > 0 ? (double)right / (double)s->samples : 0;
    json_object_set_new(out, "accuracy", json_real(accuracy));
    json_object_set_new(out, "right", json_integer((json_int_t)right));
    json_object_set_new(out, "classes", classes);
    json_object_set_new(out, "confusion", matrix);
}

static json_t *worst_json(const struct scored *s)
{
    json_t *out = json_array();
    for (int i = 0; i < s->n_worst; i++) {
        const struct scored_worst *w = &s->worst[i];
        json_t *one = json_pack("{s:I, s:i, s:i, s:o}", "sample", (json_int_t)w->sample, "label",
                                w->label, "answer", w->answer, "loss", document_real(w->loss));
        if (w->picture) {
            json_object_set(one, "picture", w->picture);
        }
        json_array_append_new(out, one);
    }
    return out;
}

json_t *scored_json(const struct scored *s)
{
    json_t *out = json_pack("{s:s, s:I, s:{s:s, s:s, s:s, s:s}, s:s, s:I, s:f}", "model", s->model,
                            "parameters", (json_int_t)s->parameters, "data", "format", s->format,
                            "path", s->path, "part", s->part, "digest", s->digest, "device",
                            s->device, "samples", (json_int_t)s->samples, "loss", s->loss);
    if (s->confusion) {
        add_classes(s, out);
        json_object_set_new(out, "worst", worst_json(s));
    } else {
        json_object_update_new(
            out, json_pack("{s:n, s:n, s:n, s:n}", "accuracy", "right", "classes", "confusion"));
    }
    return out;
}

json_t *scored_refusal(const struct err *why)
{
    return json_pack("{s:{s:s, s:o, s:o}}", "error", "code", err_name(why->code), "message",
                     jsonx_text(why->message), "hint", jsonx_text(why->hint));
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_matrix(struct scored *out, const json_t *matrix, struct err *e)
{
    size_t n = json_array_size(matrix);
    for (size_t c = 0; c < n; c++) {
        if (json_array_size(json_array_get(matrix, c)) != n) {
            return err_set(e, ERR_DATA, "row %zu of the confusion matrix must have %zu counts", c,
                           n);
        }
    }
    if (!(out->confusion = calloc(n * n + 1, sizeof *out->confusion))) {
        return err_set(e, ERR_MEMORY, "cannot read the confusion matrix: memory ran out");
    }
    for (size_t i = 0; i < n * n; i++) {
        out->confusion[i] =
            json_integer_value(json_array_get(json_array_get(matrix, i / n), i % n));
    }
    out->classes = (int)n;
    return 0;
}

/* Reads the classes' names: either all have one or none has. */
static void read_names(struct scored *out, const json_t *classes)
{
    size_t i;
    json_t *one;
    out->names = json_array();
    json_array_foreach((json_t *)(uintptr_t)classes, i, one) {
        json_t *name = json_object_get(one, "name");
        if (json_is_string(name)) {
            json_array_append(out->names, name);
        }
    }
    if (json_array_size(out->names) < (size_t)out->classes) {
        json_decref(out->names);
        out->names = NULL;
    }
}

static void read_worst(struct scored *out, const json_t *worst)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)(uintptr_t)worst, i, one) {
        if (out->n_worst < SCORED_WORST) {
            out->worst[out->n_worst++] =
                (struct scored_worst){json_integer_value(json_object_get(one, "sample")),
                                      (int)json_integer_value(json_object_get(one, "label")),
                                      (int)json_integer_value(json_object_get(one, "answer")),
                                      json_number_value(json_object_get(one, "loss")),
                                      json_incref(json_object_get(one, "picture"))};
        }
    }
}

bool scored_is_refusal(const json_t *j, enum err_code others, struct err *e)
{
    const json_t *error = json_object_get(j, "error");
    if (!error) {
        return false;
    }
    bool of_data = strcmp(jsonx_string_at(error, "code"), err_name(ERR_DATA)) == 0;
    const char *message = jsonx_string_at(error, "message");
    err_set(e, of_data ? ERR_DATA : others, "%s",
            *message ? message : "the worker's program does not say why");
    err_hint(e, "%s", jsonx_string_at(error, "hint"));
    return true;
}

int scored_read(struct scored *out, const json_t *j, struct err *e)
{
    const json_t *data = json_object_get(j, "data"), *matrix = json_object_get(j, "confusion");
    *out = (struct scored){.model = jsonx_string_at(j, "model"),
                           .format = jsonx_string_at(data, "format"),
                           .path = jsonx_string_at(data, "path"),
                           .part = jsonx_string_at(data, "part"),
                           .digest = jsonx_string_at(data, "digest"),
                           .device = jsonx_string_at(j, "device"),
                           .parameters = json_integer_value(json_object_get(j, "parameters")),
                           .samples = json_integer_value(json_object_get(j, "samples")),
                           .loss = json_number_value(json_object_get(j, "loss"))};
    if (scored_is_refusal(j, ERR_DATA, e)) {
        return -ERR_DATA;
    }
    if (!json_is_array(matrix)) {
        return 0;
    }
    int rc = read_matrix(out, matrix, e);
    if (rc == 0) {
        read_names(out, json_object_get(j, "classes"));
        read_worst(out, json_object_get(j, "worst"));
    }
    return rc;
}

void scored_release(struct scored *s)
{
    free(s->confusion);
    json_decref(s->names);
    for (int i = 0; i < s->n_worst; i++) {
        json_decref(s->worst[i].picture);
    }
    s->confusion = NULL;
    s->names = NULL;
    s->n_worst = 0;
}
