/* Evaluates a model's file (see evaluate.h). The file has the network and the normalisation of its
 * samples. With --spec and --data they become a job spec, which the code for job specs reads and
 * checks:
 *
 *   metadata (network, normalize, crop, data, seed), or --spec; then --data
 *     ─► job spec ─► network, samples ─► device
 */
#include "worker/tasks/evaluate.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/process/proc.h"
#include "job/documents/results/scored.h"
#include "kernels/device.h"
#include "worker/checkpoint/artifact.h"
#include "worker/data/dataset.h"
#include "worker/data/thumbnail.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/tasks/print.h"

enum { SPEC_MAX = 16 << 20 };

struct evaluate {
    const struct evaluate_ask *ask;
    struct jobspec spec;
    char roots[PATH_MAX + 8]; /* the roots of its data */
    float *params, *stats;
    struct dataset data;
    const struct dataset_part *part;
    struct device *dev;
    struct dev_replica replica;
    struct dev_program *program;
    bool data_there, replica_there;
    int outputs;
    struct scored scored; /* confusion[classes][classes], NULL if targets are no labels; worst */
    double loss;
    FILE *npy;
};

/* ---- the job spec of it ---------------------------------------------------------------------- */

/* The file of a user's own program has tensors, but a network without layers. */
static bool is_of_program(const json_t *network)
{
    return network && json_array_size(json_object_get(network, "layers")) == 0;
}

/* New reference. Keys that are neither in the file nor in --spec are missing. */
static json_t *base_spec(const struct evaluate_ask *ask, const struct artifact_about *about,
                         struct err *e)
{
    json_t *base = ask->spec ? jsonx_load(ask->spec, SPEC_MAX, e) : json_object();
    if (!base) {
        err_prefix(e, "cannot read the job spec");
        return NULL;
    }
    if (!ask->spec && is_of_program(about->network)) {
        json_decref(base);
        err_set(e, ERR_UNSUPPORTED,
                "the model is a user's own program's, which alone knows its network and its data");
        err_hint(e, "evaluate it in the program, whose parameters it has by their names");
        return NULL;
    }
    if (about->network && !ask->spec) {
        json_object_set(base, "model", about->network);
    }
    if (about->data && !ask->spec) {
        json_object_set(base, "data", about->data);
    }
    if (!ask->spec) { /* a file without a window has none, whatever the recipe */
        json_t *crop = about->crop ? json_pack("{s:{s:O}}", "crop", "size", about->crop) : NULL;
        json_object_set_new(base, "augment", crop ? crop : json_object());
    }
    if (json_is_integer(about->seed) && !ask->spec) {
        json_object_set(base, "seed", about->seed);
    }
    if (json_object_get(base, "model")) {
        return base;
    }
    json_decref(base);
    err_set(e, ERR_INVALID, "'%.200s' does not describe its network", ask->model);
    err_hint(e, "--spec FILE: a job spec with 'model' and 'data'");
    return NULL;
}

/* The data set that the network was trained on. */
static int check_own_data(const struct evaluate_ask *ask, const json_t *data, struct err *e)
{
    return json_object_get(data, "format")
               ? 0
               : err_set(e, ERR_INVALID,
                         "'%.200s' does not say what it was trained on; name a data set with "
                         "--data",
                         ask->model);
}

static const char *format_of(const json_t *data)
{
    return json_string_value(json_object_get(data, "format"));
}

/* Glyphs in place of other data. If it was trained on glyphs: as many, drawn from the same seed. */
static void choose_glyphs(json_t *data)
{
    const char *before = format_of(data);
    if (!before || strcmp(before, "glyphs") != 0) {
        json_object_set_new(data, "format", json_string("glyphs"));
        json_object_del(data, "path");
        json_object_del(data, "labels");
    }
}

/* Sets the roots, and returns the data set's name beneath them. A folder's parent is the only
 * root; `real` is the folder's path, and is cut. */
static const char *name_beneath_roots(struct evaluate *v, char *real)
{
    char *slash = strrchr(real, '/');
    *slash = '\0';
    snprintf(v->roots, sizeof(v->roots), "%s", real[0] ? real : "/");
    return slash + 1;
}

/* The format that was asked for, or that the files at `path` have. NULL: *e says why. */
static const struct catalog_entry *choose_format(const struct evaluate *v, const char *path,
                                                 struct err *e)
{
    const char *asked = v->ask->format;
    const struct catalog_entry *format =
        asked ? catalog_find(CATALOG_FORMAT, asked) : catalog_get(dataset_detect(v->roots, path));
    if (!format && asked) {
        err_set(e, ERR_INVALID, "there is no data format '%.40s'", asked);
    } else if (!format) {
        err_set(e, ERR_DATA, "'%.200s' is not a data set of a known format", v->ask->data);
    }
    return format;
}

/* Removes the parameters of another format than this one. */
static void forget_other_format(json_t *data, const struct catalog_entry *format)
{
    const char *before = format_of(data);
    if (!before || strcmp(before, format->name) == 0) {
        return;
    }
    const struct catalog_entry *old = catalog_find(CATALOG_FORMAT, before);
    for (const struct catalog_param *p = old ? old->params : NULL; p && p->name; p++) {
        json_object_del(data, p->name);
    }
}

/* Takes the data set that --data names instead of that in `data`, with the normalisation of the
 * latter. */
static int choose_data(struct evaluate *v, json_t *data, struct err *e)
{
    const char *name = v->ask->data;
    char path[PATH_MAX], real[PATH_MAX];
    struct stat st;
    if (!name) {
        return check_own_data(v->ask, data, e);
    }
    if (realpath(name, real) && stat(real, &st) == 0 && S_ISDIR(st.st_mode)) {
        name = name_beneath_roots(v, real);
    } else if (strcmp(name, "glyphs") == 0) {
        choose_glyphs(data);
        return 0;
    }
    int rc = dataset_find(v->roots, name, path, e);
    const struct catalog_entry *format = rc < 0 ? NULL : choose_format(v, path, e);
    if (!format) {
        return -(int)e->code;
    }
    forget_other_format(data, format);
    json_object_del(data, "validation");
    json_object_set_new(data, "format", json_string(format->name));
    json_object_set_new(data, "path", json_string(name));
    return 0;
}

static int parse_spec(struct evaluate *v, const json_t *base, struct err *e)
{
    static const char *const kept[] = {"model", "data", "augment",
                                       "seed"}; /* the other keys of --spec have no effect here */
    json_t *spec = json_pack("{s:{s:i}}", "batching", "global_batch", v->ask->batch);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        if (json_object_get(base, kept[i])) {
            json_object_set(spec, kept[i], json_object_get(base, kept[i]));
        }
    }
    int rc = jobspec_read(&v->spec, spec, e);
    json_decref(spec);
    return rc < 0 ? err_prefix(e, "the network or the data cannot be used") : rc;
}

static int read_spec(struct evaluate *v, struct err *e)
{
    struct safetensors s;
    struct artifact_about about;
    int rc = safetensors_open(&s, v->ask->model, false, e);
    if (rc < 0) {
        return rc;
    }
    artifact_about(&s, &about);
    json_t *base = base_spec(v->ask, &about, e);
    json_t *data = json_object_get(base, "data");
    if (base && !json_is_object(data)) {
        data = json_object();
        json_object_set_new(base, "data", data);
    }
    if (base && about.normalize && !json_object_get(data, "normalize")) {
        json_object_set(data, "normalize", about.normalize);
    }
    rc = base ? choose_data(v, data, e) : -(int)e->code;
    if (rc >= 0) {
        rc = parse_spec(v, base, e);
    }
    json_decref(base);
    artifact_about_release(&about);
    safetensors_close(&s);
    return rc;
}

/* ---- the parts ------------------------------------------------------------------------------- */

static int open_model(struct evaluate *v, struct err *e)
{
    const struct network *net = &v->spec.network;
    v->params = malloc((net->n_params + 1) * sizeof(float));
    v->stats = malloc((net->n_stat_floats + 1) * sizeof(float));
    if (!v->params || !v->stats) {
        return err_set(e, ERR_MEMORY, "cannot hold the parameters: memory ran out");
    }
    network_init(net, 0, v->params, v->stats);
    return artifact_read(v->ask->model, net, NULL, v->params, v->stats, e);
}

static int open_data(struct evaluate *v, struct err *e)
{
    int rc = dataset_open(&v->data, &v->spec.data, v->spec.seed, v->roots, e);
    if (rc < 0) {
        return rc;
    }
    v->data_there = true;
    v->part = strcmp(v->ask->part, "train") == 0 ? &v->data.train : &v->data.test;
    v->outputs = (int)shape_count(&v->spec.network.output);
    if (v->data.y_labels) {
        size_t n = (size_t)v->outputs;
        v->scored.classes = v->outputs;
        v->scored.confusion = calloc(n * n, sizeof(*v->scored.confusion));
        rc = v->scored.confusion
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot hold the confusion matrix: memory ran out");
    }
    if (rc < 0) {
        return rc;
    }
    return dataset_check(&v->data, &v->spec.data, &v->spec.network, e);
}

static int open_device(struct evaluate *v, struct err *e)
{
    v->dev = dev_open(v->ask->device, e);
    if (!v->dev) {
        return -(int)e->code;
    }
    int rc =
        v->dev->ops->replica_init(v->dev, &v->replica, &v->spec.network, &v->spec.optimizer, e);
    if (rc < 0) {
        return rc;
    }
    v->replica_there = true;
    const float *from[DEV_BLOCKS] = {[DEV_PARAMS] = v->params, [DEV_STATS] = v->stats};
    for (int b = 0; rc >= 0 && b < DEV_BLOCKS; b++) {
        if (from[b] && v->replica.count[b] > 0) {
            memcpy(v->replica.host[b], from[b], v->replica.count[b] * sizeof(float));
            rc = v->dev->ops->store(&v->replica, b, 0, v->replica.count[b], e);
        }
    }
    if (rc >= 0) {
        v->program = v->dev->ops->program_new(&v->replica, v->ask->batch, v->spec.bucket_bytes, e);
    }
    return rc < 0 ? rc : v->program ? 0 : -(int)e->code;
}

/* The header of a .npy file of floats: its length is padded to 64 bytes. */
static int open_npy(struct evaluate *v, struct err *e)
{
    char head[128];
    v->npy = v->ask->outputs ? fopen(v->ask->outputs, "wb") : NULL;
    if (!v->ask->outputs) {
        return 0;
    }
    memset(head, ' ', sizeof(head));
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    int n = snprintf(head + 10, sizeof(head) - 10,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }",
                     (long long)v->part->samples, v->outputs);
    head[10 + n] = ' ';
    head[sizeof(head) - 1] = '\n';
    return v->npy && fwrite(head, 1, sizeof(head), v->npy) == sizeof(head)
               ? 0
               : err_errno(e, ERR_IO, "cannot write '%.200s'", v->ask->outputs);
}

/* ---- the pass over the samples --------------------------------------------------------------- */

static void no_mark(void *ctx, int bucket)
{
    (void)ctx;
    (void)bucket;
}

static int largest(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* Softmax cross-entropy of one sample. */
static double loss_of(const float *logits, int n, int label)
{
    double most = (double)logits[largest(logits, n)], sum = 0;
    for (int i = 0; i < n; i++) {
        sum += exp((double)logits[i] - most);
    }
    return log(sum) - ((double)logits[label] - most);
}

static int chunk(struct evaluate *v, int64_t first, int64_t n, float *x, void *y, int64_t *index,
                 float *logits, struct err *e)
{
    struct visit visit = {.training = false};
    struct dev_result result = {.finite = true};
    for (int64_t i = 0; i < n; i++) {
        index[i] = first + i;
    }
    dataset_gather(&v->data, v->part, &v->spec.data, &visit, index, n, x, y);
    struct dev_input in = {.x = x, .y = y, .sample = index, .count = (int)n};
    int rc = v->dev->ops->compute(v->program, &in, &result, logits, no_mark, NULL, e);
    if (rc < 0) {
        return rc;
    }
    if (!result.finite) {
        return err_set(e, ERR_DATA, "the loss is NaN or infinite within the samples %lld to %lld",
                       (long long)first, (long long)(first + n - 1));
    }
    v->loss += result.loss;
    for (int64_t i = 0; v->scored.confusion && i < n; i++) {
        const float *out = logits + i * v->outputs;
        int label = ((int32_t *)y)[i], answer = largest(out, v->outputs);
        v->scored.confusion[label * v->outputs + answer]++;
        scored_add_worst(&v->scored, first + i, label, answer, loss_of(out, v->outputs, label));
    }
    size_t floats = (size_t)n * (size_t)v->outputs;
    return !v->npy || fwrite(logits, sizeof(float), floats, v->npy) == floats
               ? 0
               : err_errno(e, ERR_IO, "cannot write '%.200s'", v->ask->outputs);
}

static int pass(struct evaluate *v, struct err *e)
{
    struct shape shape = dataset_shape(&v->data, &v->spec.data);
    size_t batch = (size_t)v->ask->batch, wide = (size_t)(v->data.y_labels ? 1 : v->data.target);
    float *x = malloc(batch * shape_count(&shape) * sizeof(float)),
          *logits = malloc(batch * (size_t)v->outputs * sizeof(float));
    void *y = malloc(batch * wide * sizeof(float));
    int64_t *index = malloc(batch * sizeof(*index));
    int rc = x && y && index && logits
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot hold a minibatch of %zu samples: memory ran out",
                           batch);
    for (int64_t done = 0; rc >= 0 && done < v->part->samples; done += (int64_t)batch) {
        int64_t left = v->part->samples - done;
        rc = chunk(v, done, left < (int64_t)batch ? left : (int64_t)batch, x, y, index, logits, e);
    }
    free(x);
    free(y);
    free(index);
    free(logits);
    return rc;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static json_t *answer(struct evaluate *v)
{
    const struct data_spec *d = &v->spec.data;
    struct scored *s = &v->scored;
    s->model = v->ask->model;
    s->format = catalog_get(d->format)->name;
    s->path = d->path;
    s->part = v->ask->part;
    s->digest = v->data.digest;
    s->device = v->dev->ops->name;
    s->parameters = (int64_t)v->spec.network.n_params;
    s->samples = v->part->samples;
    s->loss = v->loss / (double)v->part->samples;
    s->names = s->confusion ? dataset_names(d, v->roots, s->classes) : NULL;
    for (int i = 0; v->ask->pictures && i < s->n_worst; i++) {
        s->worst[i].picture = thumbnail(&v->data, v->part, s->worst[i].sample);
    }
    return scored_json(s);
}

static void release(struct evaluate *v)
{
    if (v->npy) {
        fclose(v->npy);
    }
    if (v->program) {
        v->dev->ops->program_free(v->program);
    }
    if (v->replica_there) {
        v->dev->ops->replica_release(&v->replica);
    }
    if (v->dev) {
        dev_close(v->dev);
    }
    if (v->data_there) {
        dataset_release(&v->data);
    }
    jobspec_release(&v->spec);
    scored_release(&v->scored);
    free(v->params);
    free(v->stats);
    free(v);
}

static int check_part(const char *part, struct err *e)
{
    if (strcmp(part, "test") == 0 || strcmp(part, "train") == 0) {
        return 0;
    }
    return err_set(e, ERR_INVALID, "a data set has the parts 'test' and 'train', not '%.40s'",
                   part);
}

static int evaluate_model(struct evaluate *v, struct err *e)
{
    int rc;
    if ((rc = check_part(v->ask->part, e)) < 0 || (rc = read_spec(v, e)) < 0 ||
        (rc = open_model(v, e)) < 0 || (rc = open_data(v, e)) < 0 || (rc = open_device(v, e)) < 0 ||
        (rc = open_npy(v, e)) < 0 || (rc = pass(v, e)) < 0) {
        return rc;
    }
    if (v->npy && fflush(v->npy) != 0) {
        return err_errno(e, ERR_IO, "cannot write '%.200s'", v->ask->outputs);
    }
    return 0;
}

int evaluate_run(const struct evaluate_ask *ask, struct err *e)
{
    struct evaluate *v = calloc(1, sizeof(*v));
    if (!v) {
        return err_set(e, ERR_MEMORY, "cannot evaluate: memory ran out");
    }
    v->ask = ask;
    snprintf(v->roots, sizeof(v->roots), "%s", ask->roots);
    int rc = evaluate_model(v, e);
    if (!print_answer(rc < 0 ? scored_refusal(e) : answer(v)) && rc >= 0) {
        rc = err_set(e, ERR_IO, "cannot print the answer");
    }
    release(v);
    return rc;
}
