/* Checkpoints and artifacts on disk (see checkpoint.h): which tensors and which progress a file holds, which files are
 * kept, and which one is the newest that can be trusted.
 *
 * A checkpoint has the same tensors as an artifact, under the same names and in the same shapes, and besides them the optimizer's
 * state as one vector; so any checkpoint can serve as `init`. Progress stands in metadata.progress as JSON text. The checksum
 * covers it: a resumed job must not trust a cursor that was altered any more than a weight.
 */
#include "worker/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/log.h"
#include "common/proc.h"
#include "worker/safetensors.h"

static const char optimizer_tensor[] = "optimizer.state";
enum { PATH_BYTES = 4096 };

/* ---- tensors --------------------------------------------------------------------------------------------- */

static int add_tensors(struct safetensor *out, int n, const struct tensor *from, int count, const float *block)
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

static int write_state(const char *path, const struct network *net, const struct run_state *state, bool optim, const json_t *metadata,
                       struct err *e)
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
        memcpy(t->name, optimizer_tensor, sizeof(optimizer_tensor));
        t->rank = 1;
        t->dim[0] = (int64_t)state->n_optim;
        t->count = state->n_optim;
        t->data = state->optim;
    }
    int rc = safetensors_write(path, list, n, metadata, e);
    free(list);
    return rc;
}

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

/* ---- from a file into a network ----------------------------------------------------------------------------- */

struct taking {
    const struct safetensors *file;
    const struct network *net;
    const struct init_spec *how; /* or NULL */
    bool met[SPEC_ALLOW];        /* patterns that met a tensor */
    struct buf left_out;         /* names, for the log */
    int n_left_out;
};

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

/* Does the tensor fit? If not, *why tells what it is instead. */
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
        memcpy(block + t->first, from->data, t->count * sizeof(float));
        return 0;
    }
    if (may_differ) {
        leave_out(taking, t->name, why);
        return 0;
    }
    err_set(e, ERR_DATA, "tensor '%s' %s", t->name, why);
    err_hint(e, "\"init\": {\"path\": …, \"allow\": [\"%.60s\"]} starts without it", t->name);
    return -ERR_DATA;
}

static bool belongs(const struct network *net, const char *name)
{
    size_t n = strlen(name), tail = strlen(".num_batches_tracked");
    if (strncmp(name, "optimizer.", 10) == 0 || (n > tail && strcmp(name + n - tail, ".num_batches_tracked") == 0)) {
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
        if (!allowed(t, name)) {
            return err_set(e, ERR_DATA, "tensor '%s' is not one of the network's", name);
        }
        leave_out(t, name, "is not one of the network's");
    }
    for (int i = 0; rc == 0 && t->how && i < t->how->n_allow; i++) {
        if (!t->met[i]) {
            return err_set(e, ERR_INVALID, "'allow' names '%s', but neither the network nor the file has such a tensor", t->how->allow[i]);
        }
    }
    return rc;
}

int artifact_read(const char *path, const struct network *net, const struct init_spec *how, float *params, float *stats, struct err *e)
{
    struct safetensors s;
    int rc = safetensors_open(&s, path, false, e);
    if (rc < 0) {
        return rc;
    }
    struct taking t = {.file = &s, .net = net, .how = how};
    buf_init(&t.left_out, 3000);
    rc = take_all(&t, params, stats, e);
    if (rc == 0 && t.n_left_out > 0) {
        log_warn("checkpoint", "tensors of init were left out", "count=%d tensors=\"%s\"", t.n_left_out,
                 t.left_out.failed || !t.left_out.data ? "too many to name" : t.left_out.data);
        rc = t.n_left_out;
    }
    buf_release(&t.left_out);
    safetensors_close(&s);
    return rc < 0 ? err_prefix(e, "cannot use '%.200s'", path) : rc;
}

/* ---- what a file says of itself ---------------------------------------------------------------------------- */

static void set_text(json_t *meta, const char *key, json_t *value)
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

/* The network, what its samples must have gone through, and where they came from: enough to evaluate the file. New reference. */
static json_t *describe(const char *kind, const struct jobspec *spec)
{
    json_t *meta = json_pack("{s:s, s:s, s:s}", "format", "pt", "kind", kind, "job", spec->name);
    set_text(meta, "network", network_json(&spec->network));
    json_t *normalize = normalize_json(&spec->data);
    if (json_is_string(normalize)) {
        json_object_set_new(meta, "normalize", normalize);
    } else {
        set_text(meta, "normalize", normalize);
    }
    if (spec->data.augment.crop) { /* from the middle of the picture */
        set_text(meta, "crop", json_pack("[i,i]", spec->data.augment.crop_size[0], spec->data.augment.crop_size[1]));
    }
    if (json_object_get(spec->json, "data")) {
        set_text(meta, "data", json_incref(json_object_get(spec->json, "data")));
        set_text(meta, "seed", json_integer((json_int_t)spec->seed));
    }
    return meta;
}

/* ---- progress -------------------------------------------------------------------------------------------- */

static json_t *slice_json(const struct slice *s)
{
    return json_pack("[I,I,I]", (json_int_t)s->epoch, (json_int_t)s->start, (json_int_t)s->count);
}

static json_t *progress_json(const struct jobspec *spec, const struct run_state *state)
{
    char hash[17];
    json_t *out = json_array();
    network_hash(&spec->network, hash);
    for (int i = 0; i < state->n_out; i++) {
        json_array_append_new(out, slice_json(&state->out[i]));
    }
    json_t *j = json_pack("{s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:o, s:s}", "version", (json_int_t)state->version, "applied_samples",
                          (json_int_t)state->applied_samples, "cursor", "samples", (json_int_t)state->cursor.samples, "epochs",
                          (json_int_t)state->cursor.epochs, "epoch", (json_int_t)state->cursor.epoch, "position",
                          (json_int_t)state->cursor.position, "out", out, "network", hash);
    json_object_set_new(j, "optimizer", json_string(catalog_get(spec->optimizer.type)->name));
    json_object_set_new(j, "strategy", json_string(catalog_get(spec->strategy.type)->name));
    if (state->extra) {
        json_object_set(j, "extra", state->extra);
    }
    return j;
}

static int64_t integer(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static int progress_read(const json_t *j, struct run_state *state, struct err *e)
{
    const json_t *cursor = json_object_get(j, "cursor"), *out = json_object_get(j, "out");
    state->version = integer(j, "version");
    state->applied_samples = integer(j, "applied_samples");
    state->cursor = (struct cursor){integer(cursor, "samples"), integer(cursor, "epochs"), integer(cursor, "epoch"),
                                    integer(cursor, "position")};
    state->n_out = (int)json_array_size(out);
    if (state->cursor.samples < 1 || state->version < 0 || state->applied_samples < 0 || state->cursor.epoch < 0 || state->cursor.position < 0 ||
        state->cursor.position > state->cursor.samples || state->n_out > (int)(sizeof(state->out) / sizeof(state->out[0]))) {
        return err_set(e, ERR_DATA, "its progress is malformed");
    }
    for (int i = 0; i < state->n_out; i++) {
        const json_t *s = json_array_get(out, (size_t)i);
        struct slice *one = &state->out[i];
        *one = (struct slice){json_integer_value(json_array_get(s, 0)), json_integer_value(json_array_get(s, 1)),
                              json_integer_value(json_array_get(s, 2))};
        if (one->epoch < 0 || one->start < 0 || one->count < 1 || one->start > state->cursor.samples - one->count) {
            return err_set(e, ERR_DATA, "its slice %d is of samples that are not there", i);
        }
    }
    return 0;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------ */

static int checkpoint_filter(const struct dirent *d)
{
    int64_t step = 0;
    int end = 0;
    return sscanf(d->d_name, "step-%ld.safetensors%n", &step, &end) == 1 && end > 0 && d->d_name[end] == '\0';
}

/* Names are zero-padded, so the order of the alphabet is that of steps; newest last. Returns their number, negative on failure. */
static int list_checkpoints(const char *dir, struct dirent ***names)
{
    int n = scandir(dir, names, checkpoint_filter, alphasort);
    return n < 0 && errno == ENOENT ? 0 : n;
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    if (n > 0) {
        free(names);
    }
}

static void drop_old(const char *dir, int keep)
{
    struct dirent **names;
    char path[PATH_BYTES + 300];
    int n = list_checkpoints(dir, &names);
    for (int i = 0; i < n - (keep > 0 ? keep : 1); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        unlink(path);
    }
    free_names(names, n);
}

int checkpoint_write(const char *job_dir, const struct jobspec *spec, const struct run_state *state, int keep, char *path, size_t path_bytes,
                     struct err *e)
{
    char dir[PATH_BYTES - 64];
    snprintf(dir, sizeof(dir), "%s/checkpoints", job_dir);
    int rc = proc_mkdirs(dir, 0755, e);
    if (rc < 0) {
        return err_prefix(e, "cannot write a checkpoint");
    }
    snprintf(path, path_bytes, "%s/step-%012lld.safetensors", dir, (long long)state->version);
    json_t *meta = describe("evenstep-checkpoint", spec);
    set_text(meta, "progress", progress_json(spec, state));
    rc = write_state(path, &spec->network, state, true, meta, e);
    json_decref(meta);
    if (rc == 0) {
        drop_old(dir, keep);
    }
    return rc;
}

static void copy_name(char out[32], const json_t *name)
{
    const char *text = json_string_value(name);
    snprintf(out, 32, "%s", text ? text : "");
}

static int load(struct checkpoint *out, const char *path, const struct jobspec *spec, struct err *e)
{
    struct safetensors s;
    const struct network *net = &spec->network;
    char hash[17];
    int rc = safetensors_open(&s, path, true, e);
    if (rc < 0) {
        return rc;
    }
    const char *text = safetensors_meta(&s, "progress");
    json_t *progress = text ? jsonx_parse(text, strlen(text), e) : NULL;
    const char *told = json_string_value(json_object_get(progress, "network"));
    const struct safetensor *optim = safetensors_find(&s, optimizer_tensor);
    network_hash(net, hash);
    if (!progress) {
        rc = err_set(e, ERR_DATA, "it holds no progress");
    } else if (!told || strcmp(told, hash) != 0) {
        rc = err_set(e, ERR_DATA, "it is of another network");
    } else {
        rc = progress_read(progress, &out->state, e);
    }
    if (rc == 0) {
        out->state.n_params = net->n_params;
        out->state.n_stats = net->n_stat_floats;
        out->state.n_optim = optim ? optim->count : 0;
        out->params = malloc((net->n_params + 1) * sizeof(float));
        out->stats = calloc(net->n_stat_floats + 1, sizeof(float));
        out->optim = malloc((out->state.n_optim + 1) * sizeof(float));
        rc = out->params && out->stats && out->optim ? 0 : err_set(e, ERR_MEMORY, "memory ran out");
    }
    if (rc == 0) {
        network_init(net, spec->seed, out->params, out->stats); /* statistics may be absent: servers have none */
        struct taking t = {.file = &s, .net = net};
        rc = take_all(&t, out->params, out->stats, e);
    }
    if (rc == 0) {
        memcpy(out->optim, optim ? optim->data : "", out->state.n_optim * sizeof(float));
        out->extra = json_incref(json_object_get(progress, "extra"));
        copy_name(out->optimizer, json_object_get(progress, "optimizer"));
        copy_name(out->strategy, json_object_get(progress, "strategy"));
        out->state.params = out->params;
        out->state.stats = out->stats;
        out->state.optim = out->optim;
        out->state.extra = out->extra;
        out->state.test_accuracy = out->state.test_loss = -1;
        snprintf(out->path, sizeof(out->path), "%s", path);
    }
    json_decref(progress);
    safetensors_close(&s);
    if (rc < 0) {
        checkpoint_release(out);
        return err_prefix(e, "cannot use '%.200s'", path);
    }
    return 0;
}

/* 0 found, 1 there is none, negative: unreadable. */
static int newest_in(const char *dir, const struct jobspec *spec, struct checkpoint *out, struct err *e)
{
    struct dirent **names;
    char path[PATH_BYTES];
    int rc = 1;
    memset(out, 0, sizeof(*out));
    int n = list_checkpoints(dir, &names);
    if (n < 0) {
        return err_errno(e, ERR_IO, "cannot look for checkpoints in '%.200s'", dir);
    }
    for (int i = n - 1; rc != 0 && i >= 0; i--) {
        struct err why = {0};
        char quoted[600];
        snprintf(path, sizeof(path), "%.3700s/%s", dir, names[i]->d_name);
        rc = load(out, path, spec, &why);
        if (rc < 0) {
            log_warn("checkpoint", "skipped a checkpoint that cannot be used", "why=%s", log_quote(quoted, sizeof(quoted), why.message));
            rc = 1;
        }
    }
    free_names(names, n);
    return rc;
}

int checkpoint_newest(const char *job_dir, const struct jobspec *spec, struct checkpoint *out, struct err *e)
{
    char dir[PATH_BYTES - 300];
    snprintf(dir, sizeof(dir), "%s/checkpoints", job_dir);
    return newest_in(dir, spec, out, e);
}

int checkpoint_open(const char *path, const struct jobspec *spec, struct checkpoint *out, struct err *e)
{
    struct stat st;
    memset(out, 0, sizeof(*out));
    if (stat(path, &st) < 0) {
        return err_errno(e, ERR_NOT_FOUND, "cannot continue from '%.200s'", path);
    }
    int rc = S_ISDIR(st.st_mode) ? newest_in(path, spec, out, e) : load(out, path, spec, e);
    return rc == 1 ? err_set(e, ERR_NOT_FOUND, "cannot continue from '%.200s': it holds no checkpoint of this network", path) : rc;
}

void checkpoint_release(struct checkpoint *c)
{
    free(c->params);
    free(c->optim);
    free(c->stats);
    json_decref(c->extra);
    memset(c, 0, sizeof(*c));
}

/* ---- artifacts -------------------------------------------------------------------------------------------- */

int artifact_write(const char *job_dir, const char *name, const struct jobspec *spec, const struct run_state *state, struct err *e)
{
    char dir[PATH_BYTES - 128], path[PATH_BYTES];
    snprintf(dir, sizeof(dir), "%s/artifacts", job_dir);
    int rc = proc_mkdirs(dir, 0755, e);
    if (rc < 0) {
        return err_prefix(e, "cannot write the artifact '%s'", name);
    }
    snprintf(path, sizeof(path), "%s/%s.safetensors", dir, name);
    json_t *meta = describe("evenstep-model", spec);
    set_number(meta, "step", (double)state->version);
    set_number(meta, "epoch", state->cursor.samples > 0 ? (double)state->applied_samples / (double)state->cursor.samples : 0);
    if (state->test_accuracy >= 0) {
        set_number(meta, "test_accuracy", state->test_accuracy);
        set_number(meta, "test_loss", state->test_loss);
    }
    rc = write_state(path, &spec->network, state, false, meta, e);
    json_decref(meta);
    return rc;
}
