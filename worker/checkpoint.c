/* Checkpoints on disk (see checkpoint.h): which progress a file holds, which files are kept, and
 * which one is the newest that can be trusted.
 *
 * A checkpoint has the same tensors as an artifact, under the same names and in the same shapes,
 * and besides them the optimizer's state as one vector; so any checkpoint can serve as `init`.
 * Progress stands in metadata.progress as JSON text. The checksum covers it: a resumed job must not
 * trust a cursor that was altered any more than a weight.
 */
#include "worker/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/proc.h"
#include "worker/artifact.h"
#include "worker/own_files.h"

enum { PATH_BYTES = 4096 };

/* ---- progress -------------------------------------------------------------------------------- */

static json_t *slice_json(const struct slice *s)
{
    return json_pack("[I,I,I]", (json_int_t)s->epoch, (json_int_t)s->start, (json_int_t)s->count);
}

/* own: what own_files_write() said; a reference is kept. */
static json_t *progress_json(const struct jobspec *spec, const struct run_state *state, json_t *own)
{
    char hash[17];
    json_t *out = json_array();
    network_hash(&spec->network, hash);
    for (int i = 0; i < state->n_out; i++) {
        json_array_append_new(out, slice_json(&state->out[i]));
    }
    json_t *j =
        json_pack("{s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:o, s:s}", "version",
                  (json_int_t)state->version, "applied_samples", (json_int_t)state->applied_samples,
                  "cursor", "samples", (json_int_t)state->cursor.samples, "epochs",
                  (json_int_t)state->cursor.epochs, "epoch", (json_int_t)state->cursor.epoch,
                  "position", (json_int_t)state->cursor.position, "out", out, "network", hash);
    json_object_set_new(j, "optimizer", json_string(catalog_get(spec->optimizer.type)->name));
    json_object_set_new(j, "strategy", json_string(catalog_get(spec->strategy.type)->name));
    if (state->extra) {
        json_object_set(j, "extra", state->extra);
    }
    if (state->n_own > 0) {
        json_object_set(j, "own", own);
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
    state->cursor = (struct cursor){integer(cursor, "samples"), integer(cursor, "epochs"),
                                    integer(cursor, "epoch"), integer(cursor, "position")};
    state->n_out = (int)json_array_size(out);
    if (state->cursor.samples < 1 || state->version < 0 || state->applied_samples < 0 ||
        state->cursor.epoch < 0 || state->cursor.position < 0 ||
        state->cursor.position > state->cursor.samples ||
        state->n_out > (int)(sizeof(state->out) / sizeof(state->out[0]))) {
        return err_set(e, ERR_DATA, "its progress is malformed");
    }
    for (int i = 0; i < state->n_out; i++) {
        const json_t *s = json_array_get(out, (size_t)i);
        struct slice *one = &state->out[i];
        *one = (struct slice){json_integer_value(json_array_get(s, 0)),
                              json_integer_value(json_array_get(s, 1)),
                              json_integer_value(json_array_get(s, 2))};
        if (one->epoch < 0 || one->start < 0 || one->count < 1 ||
            one->start > state->cursor.samples - one->count) {
            return err_set(e, ERR_DATA, "its slice %d is of samples that are not there", i);
        }
    }
    return 0;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static int checkpoint_filter(const struct dirent *d)
{
    int64_t step = 0;
    int end = 0;
    return sscanf(d->d_name, "step-%ld.safetensors%n", &step, &end) == 1 && end > 0 &&
           d->d_name[end] == '\0';
}

/* Names are zero-padded, so the order of the alphabet is that of steps; newest last. Returns their
 * number, negative on failure. */
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

int checkpoint_write(const char *job_dir, const struct jobspec *spec, const struct run_state *state,
                     int keep, char *path, size_t path_bytes, struct err *e)
{
    char dir[PATH_BYTES - 64];
    snprintf(dir, sizeof(dir), "%s/checkpoints", job_dir);
    int rc = proc_mkdirs(dir, 0755, e);
    if (rc < 0) {
        return err_prefix(e, "cannot write a checkpoint");
    }
    safetensors_drop_torn(dir);
    snprintf(path, path_bytes, "%s/step-%012lld.safetensors", dir, (long long)state->version);
    json_t *own = own_files_write(dir, state->version, state->own, state->n_own, e);
    if (!own) {
        return -ERR_IO;
    }
    json_t *meta = artifact_describe("evenstep-checkpoint", spec);
    artifact_set(meta, "progress", progress_json(spec, state, own));
    rc = artifact_save(path, &spec->network, state, true, meta, e);
    json_decref(meta);
    if (rc == 0) {
        drop_old(dir, keep);
        own_files_sweep(dir, state->version, own);
    }
    json_decref(own);
    return rc;
}

static void copy_name(char out[32], const json_t *name)
{
    const char *text = json_string_value(name);
    snprintf(out, 32, "%s", text ? text : "");
}

static int load_own(struct checkpoint *out, const char *path, const json_t *progress, struct err *e)
{
    char dir[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return own_files_read(dir, json_object_get(progress, "own"), &out->own, &out->state.n_own, e);
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
    const struct safetensor *optim = safetensors_find(&s, ARTIFACT_OPTIMIZER);
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
        network_init(net, spec->seed, out->params,
                     out->stats); /* statistics may be absent: servers have none */
        rc = artifact_take(&s, net, NULL, out->params, out->stats, e);
    }
    if (rc >= 0) {
        rc = load_own(out, path, progress, e);
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
        out->state.own = out->own;
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
static int newest_in(const char *dir, const struct jobspec *spec, struct checkpoint *out,
                     struct err *e)
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
            log_warn("checkpoint", "skipped a checkpoint that cannot be used", "why=%s",
                     log_quote(quoted, sizeof(quoted), why.message));
            rc = 1;
        }
    }
    free_names(names, n);
    return rc;
}

int checkpoint_newest(const char *job_dir, const struct jobspec *spec, struct checkpoint *out,
                      struct err *e)
{
    char dir[PATH_BYTES - 300];
    snprintf(dir, sizeof(dir), "%s/checkpoints", job_dir);
    return newest_in(dir, spec, out, e);
}

int checkpoint_open(const char *path, const struct jobspec *spec, struct checkpoint *out,
                    struct err *e)
{
    struct stat st;
    memset(out, 0, sizeof(*out));
    if (stat(path, &st) < 0) {
        return err_errno(e, ERR_NOT_FOUND, "cannot continue from '%.200s'", path);
    }
    int rc = S_ISDIR(st.st_mode) ? newest_in(path, spec, out, e) : load(out, path, spec, e);
    return rc == 1
               ? err_set(e, ERR_NOT_FOUND,
                         "cannot continue from '%.200s': it holds no checkpoint of this network",
                         path)
               : rc;
}

void checkpoint_drop_own(struct checkpoint *c)
{
    own_files_release(c->own, c->state.n_own);
    c->own = NULL;
    c->state.own = NULL;
    c->state.n_own = 0;
}

void checkpoint_release(struct checkpoint *c)
{
    free(c->params);
    free(c->optim);
    free(c->stats);
    checkpoint_drop_own(c);
    json_decref(c->extra);
    memset(c, 0, sizeof(*c));
}
