/* See artifact.h. Writes a network's tensors and their description into a file, and reads them back
 * tensor by tensor.
 *
 * A file may have the running statistics of all norms or of none (a server has none); a file with
 * some of them must have all. Tensors that `allow` names keep their values, and a message names
 * them. Reading and checking are one walk over the tensors: reading ends at the first that does not
 * fit, checking lists all of them.
 */
#include "worker/checkpoint/artifact.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/buf.h"
#include "common/log.h"
#include "common/process/proc.h"

enum { PATH_BYTES = 4096 };

/* ---- what a file says of itself -------------------------------------------------------------- */

void artifact_set(json_t *meta, const char *key, json_t *value)
{
    char *text = jsonx_dump(value, false, NULL);
    json_object_set_new(meta, key, json_string(text ? text : ""));
    free(text);
    json_decref(value);
}

static void set_number(json_t *meta, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof(text), "%.9g", value);
    json_object_set_new(meta, key, json_string(text));
}

static json_t *normalize_json(const struct data_spec *d)
{
    if (d->normalize_unit || d->normalize_picture || d->n_normalize == 0) {
        return json_string(d->normalize_picture ? "picture" : "unit");
    }
    json_t *mean = json_array(), *deviation = json_array();
    for (int i = 0; i < d->n_normalize; i++) {
        json_array_append_new(mean, json_real((double)d->mean[i]));
        json_array_append_new(deviation, json_real((double)d->deviation[i]));
    }
    return json_pack("{s:o, s:o}", "mean", mean, "deviation", deviation);
}

json_t *artifact_describe(const char *kind, const struct jobspec *spec)
{
    json_t *meta = json_pack("{s:s, s:s, s:s}", "format", "pt", "kind", kind, "job", spec->name);
    artifact_set(meta, "network", network_json(&spec->network));
    json_t *normalize = normalize_json(&spec->data);
    if (json_is_string(normalize)) {
        json_object_set_new(meta, "normalize", normalize);
    } else {
        artifact_set(meta, "normalize", normalize);
    }
    if (spec->data.augment.crop) { /* from the middle of the picture */
        artifact_set(
            meta, "crop",
            json_pack("[i,i]", spec->data.augment.crop_size[0], spec->data.augment.crop_size[1]));
    }
    if (json_object_get(spec->json, "data")) {
        artifact_set(meta, "data", json_incref(json_object_get(spec->json, "data")));
        artifact_set(meta, "seed", json_integer((json_int_t)spec->seed));
    }
    return meta;
}

static json_t *said(const struct safetensors *file, const char *key)
{
    const char *text = safetensors_meta(file, key);
    return text ? jsonx_parse(text, strlen(text), NULL) : NULL;
}

void artifact_about(const struct safetensors *file, struct artifact_about *out)
{
    *out = (struct artifact_about){.network = said(file, "network"),
                                   .data = said(file, "data"),
                                   .normalize = said(file, "normalize"),
                                   .crop = said(file, "crop"),
                                   .seed = said(file, "seed")};
    const char *word = safetensors_meta(file, "normalize");
    if (word && !out->normalize) {
        out->normalize = json_string(word);
    }
}

void artifact_about_release(struct artifact_about *about)
{
    json_decref(about->network);
    json_decref(about->data);
    json_decref(about->normalize);
    json_decref(about->crop);
    json_decref(about->seed);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int add_tensors(struct safetensor *out, int n, const struct tensor *from, int count,
                       const float *block)
{
    for (int i = 0; i < count; i++) {
        struct safetensor *t = &out[n++];
        snprintf(t->name, sizeof(t->name), "%s", from[i].name);
        t->rank = from[i].rank;
        memcpy(t->dim, from[i].dim, sizeof(from[i].dim[0]) * (size_t)from[i].rank);
        t->count = from[i].count;
        t->data = block + from[i].first;
    }
    return n;
}

int artifact_save(const char *path, const struct network *net, const struct run_state *state,
                  bool optim, const json_t *metadata, struct err *e)
{
    struct safetensor *list = calloc((size_t)(net->n_tensors + net->n_stats + 1), sizeof(*list));
    if (!list) {
        return err_set(e, ERR_MEMORY, "cannot write '%.200s': memory ran out", path);
    }
    int n = add_tensors(list, 0, net->tensors, net->n_tensors, state->params);
    if (state->stats) {
        n = add_tensors(list, n, net->stats, net->n_stats, state->stats);
    }
    if (optim && state->n_optim > 0) {
        struct safetensor *t = &list[n++];
        memcpy(t->name, ARTIFACT_OPTIMIZER, sizeof(ARTIFACT_OPTIMIZER));
        t->rank = 1;
        t->dim[0] = (int64_t)state->n_optim;
        t->count = state->n_optim;
        t->data = state->optim;
    }
    int rc = safetensors_write(path, list, n, metadata, e);
    free(list);
    return rc;
}

int artifact_write(const char *job_dir, const char *name, const struct jobspec *spec,
                   const struct run_state *state, struct err *e)
{
    char dir[PATH_BYTES - 128], path[PATH_BYTES];
    snprintf(dir, sizeof(dir), "%s/artifacts", job_dir);
    int rc = proc_mkdirs(dir, 0755, e);
    if (rc < 0) {
        return err_prefix(e, "cannot write the artifact '%s'", name);
    }
    safetensors_drop_torn(dir);
    snprintf(path, sizeof(path), "%s/%s.safetensors", dir, name);
    json_t *meta = artifact_describe("evenstep-model", spec);
    set_number(meta, "step", (double)state->version);
    set_number(meta, "epoch",
               state->cursor.samples > 0
                   ? (double)state->applied_samples / (double)state->cursor.samples
                   : 0);
    if (!isnan(state->test_accuracy)) {
        set_number(meta, "test_accuracy", state->test_accuracy);
    }
    if (!isnan(state->test_loss)) {
        set_number(meta, "test_loss", state->test_loss);
    }
    rc = artifact_save(path, &spec->network, state, false, meta, e);
    json_decref(meta);
    return rc;
}

/* ---- from a file into a network -------------------------------------------------------------- */

static void shape_text(char *out, size_t bytes, const int64_t *dim, int rank)
{
    size_t n = (size_t)snprintf(out, bytes, "[");
    for (int i = 0; i < rank && n < bytes; i++) {
        n += (size_t)snprintf(out + n, bytes - n, "%s%lld", i ? ", " : "", (long long)dim[i]);
    }
    if (n < bytes) {
        snprintf(out + n, bytes - n, "]");
    }
}

struct taking {
    const struct safetensors *file;
    const struct network *net;
    const struct init_spec *how; /* or NULL */
    bool met[SPEC_ALLOW];        /* patterns that matched a tensor */
    struct buf left_out;         /* names, for the log */
    int n_left_out;
    struct jsonx_problems *problems; /* of a check, which copies nothing; or NULL */
    const char *pointer;
};

static bool checks_only(const struct taking *t)
{
    return t->problems;
}

/* Reports a tensor that does not fit: as an error, which ends reading, or as a problem of a
 * check. */
__attribute__((format(printf, 4, 5))) static int refuse(struct taking *t, enum err_code code,
                                                        struct err *e, const char *fmt, ...)
{
    char text[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (checks_only(t)) {
        jsonx_problem(t->problems, t->pointer, "%s", text);
        return 0;
    }
    return err_set(e, code, "%s", text);
}

static bool allowed(struct taking *t, const char *name)
{
    bool found = false;
    for (int i = 0; t->how && i < t->how->n_allow; i++) {
        if (fnmatch(t->how->allow[i], name, 0) == 0) {
            t->met[i] = found = true;
        }
    }
    return found;
}

static void leave_out(struct taking *t, const char *name, const char *why)
{
    buf_addf(&t->left_out, "%s%s (%s)", t->n_left_out++ > 0 ? ", " : "", name, why);
}

/* Does the tensor fit? If not, *why says how it differs. */
static bool fits(const struct safetensor *from, const struct tensor *t, char why[300])
{
    char have[120], want[120];
    if (!from) {
        snprintf(why, 300, "is missing");
        return false;
    }
    shape_text(have, sizeof(have), from->dim, from->rank);
    shape_text(want, sizeof(want), t->dim, t->rank);
    if (strcmp(have, want) != 0) {
        snprintf(why, 300, "has the shape %s, the network needs %s", have, want);
        return false;
    }
    snprintf(why, 300, "is not of the type F32");
    return from->count == t->count;
}

/* Copies one tensor of the network out of the file. */
static int take_tensor(struct taking *taking, const struct tensor *t, float *block, struct err *e)
{
    const struct safetensor *from = safetensors_find(taking->file, t->name);
    bool may_differ = allowed(taking, t->name);
    char why[300];
    if (fits(from, t, why)) {
        if (!checks_only(taking)) {
            memcpy(block + t->first, from->data, t->count * sizeof(float));
        }
        return 0;
    }
    if (may_differ) {
        leave_out(taking, t->name, why);
        return 0;
    }
    int rc = refuse(taking, ERR_DATA, e, "tensor '%s' %s", t->name, why);
    if (rc < 0) {
        err_hint(e, "\"init\": {\"path\": …, \"allow\": [\"%.60s\"]} starts without it", t->name);
    }
    return rc;
}

static bool belongs(const struct network *net, const char *name)
{
    size_t n = strlen(name), tail = strlen(".num_batches_tracked");
    if (strncmp(name, "optimizer.", 10) == 0 ||
        (n > tail && strcmp(name + n - tail, ".num_batches_tracked") == 0)) {
        return true;
    }
    for (int i = 0; i < net->n_tensors; i++) {
        if (strcmp(net->tensors[i].name, name) == 0) {
            return true;
        }
    }
    for (int i = 0; i < net->n_stats; i++) {
        if (strcmp(net->stats[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static int take_all(struct taking *t, float *params, float *stats, struct err *e)
{
    const struct network *net = t->net;
    int rc = 0, stats_there = 0;
    for (int i = 0; rc == 0 && i < net->n_tensors; i++) {
        rc = take_tensor(t, &net->tensors[i], params, e);
    }
    for (int i = 0; i < net->n_stats; i++) {
        stats_there += safetensors_find(t->file, net->stats[i].name) != NULL;
    }
    for (int i = 0; rc == 0 && stats_there > 0 && i < net->n_stats; i++) {
        rc = take_tensor(t, &net->stats[i], stats, e);
    }
    for (int i = 0; rc == 0 && i < t->file->n; i++) {
        const char *name = t->file->tensors[i].name;
        if (belongs(net, name)) {
            continue;
        }
        if (allowed(t, name)) {
            leave_out(t, name, "is not one of the network's");
        } else {
            rc = refuse(t, ERR_DATA, e, "tensor '%s' is not one of the network's", name);
        }
    }
    for (int i = 0; rc == 0 && t->how && i < t->how->n_allow; i++) {
        if (!t->met[i]) {
            rc =
                refuse(t, ERR_INVALID, e,
                       "'allow' names '%s', but neither the network nor the file has such a tensor",
                       t->how->allow[i]);
        }
    }
    return rc;
}

int artifact_take(const struct safetensors *file, const struct network *net,
                  const struct init_spec *how, float *params, float *stats, struct err *e)
{
    struct taking t = {.file = file, .net = net, .how = how};
    buf_init(&t.left_out, 3000);
    int rc = take_all(&t, params, stats, e);
    if (rc == 0 && t.n_left_out > 0) {
        log_warn("checkpoint", "tensors of init were left out", "count=%d tensors=\"%s\"",
                 t.n_left_out,
                 t.left_out.failed || !t.left_out.data ? "too many to name" : t.left_out.data);
        rc = t.n_left_out;
    }
    buf_release(&t.left_out);
    return rc;
}

int artifact_read(const char *path, const struct network *net, const struct init_spec *how,
                  float *params, float *stats, struct err *e)
{
    struct safetensors s;
    int rc = safetensors_open(&s, path, false, e);
    if (rc < 0) {
        return rc;
    }
    rc = artifact_take(&s, net, how, params, stats, e);
    safetensors_close(&s);
    return rc < 0 ? err_prefix(e, "cannot use '%.200s'", path) : rc;
}

void artifact_check(const char *path, const struct network *net, const struct init_spec *how,
                    const char *pointer, struct jsonx_problems *problems)
{
    struct safetensors file;
    struct err why = {0};
    if (safetensors_open(&file, path, false, &why) < 0) {
        jsonx_problem(problems, pointer, "%s", why.message);
        return;
    }
    struct taking t = {
        .file = &file, .net = net, .how = how, .problems = problems, .pointer = pointer};
    buf_init(&t.left_out, 3000);
    take_all(&t, NULL, NULL, &why);
    buf_release(&t.left_out);
    safetensors_close(&file);
}
