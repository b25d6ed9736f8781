/* Checkpoints on disk (see checkpoint.h): which files are kept, and which one is the newest that
 * can be trusted.
 *
 * A checkpoint has the same tensors as an artifact, under the same names and in the same shapes,
 * and besides them the optimizer's state as one vector; so any checkpoint can serve as `init`.
 * metadata.progress holds the progress (progress.h) as JSON text. The checksum covers it: a resumed
 * job must not trust a cursor that was altered any more than a weight.
 */
#include "worker/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json/jsonx.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "worker/checkpoint/artifact.h"
#include "worker/checkpoint/own_files.h"
#include "worker/checkpoint/progress.h"

enum { PATH_BYTES = 4096 };

/* ---- checkpoints ----------------------------------------------------------------------------- */

static int checkpoint_filter(const struct dirent *d)
{
    int64_t step = 0;
    int end = 0;
    return sscanf(d->d_name, "step-%ld.safetensors%n", &step, &end) == 1 && end > 0 &&
           d->d_name[end] == '\0';
}

/* Names are zero-padded, so alphabetical order is the order of steps; the newest is last. Returns
 * their number, negative on failure. */
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
    artifact_set(meta, "progress", progress_json(spec, state));
    artifact_set(meta, "own", json_incref(own));
    rc = artifact_save(path, &spec->network, state, true, meta, e);
    json_decref(meta);
    if (rc == 0) {
        drop_old(dir, keep);
        own_files_sweep(dir, state->version, own);
    }
    json_decref(own);
    return rc;
}

/* Reads the progress in the file's metadata, if it is of a run with this network. */
static int load_progress(struct checkpoint *out, const struct safetensors *s,
                         const struct network *net, struct err *e)
{
    const char *text = safetensors_meta(s, "progress");
    char hash[17];
    json_t *j = text ? jsonx_parse(text, strlen(text), e) : NULL;
    if (!j) {
        return err_set(e, ERR_DATA, "it holds no progress");
    }
    int rc = progress_read(&out->state, &out->of, j, e);
    json_decref(j);
    network_hash(net, hash);
    return rc == 0 && strcmp(out->of.network, hash) != 0
               ? err_set(e, ERR_DATA, "it is of another network")
               : rc;
}

static int load_blocks(struct checkpoint *out, struct safetensors *s, const struct jobspec *spec,
                       struct err *e)
{
    const struct network *net = &spec->network;
    const struct safetensor *optim = safetensors_find(s, ARTIFACT_OPTIMIZER);
    struct run_state *state = &out->state;
    state->n_params = net->n_params;
    state->n_stats = net->n_stat_floats;
    state->n_optim = optim ? optim->count : 0;
    out->params = malloc((net->n_params + 1) * sizeof(float));
    out->stats = calloc(net->n_stat_floats + 1, sizeof(float));
    out->optim = malloc((state->n_optim + 1) * sizeof(float));
    if (!out->params || !out->stats || !out->optim) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    /* statistics may be absent: servers have none */
    network_init(net, spec->seed, out->params, out->stats);
    memcpy(out->optim, optim ? optim->data : "", state->n_optim * sizeof(float));
    state->params = out->params;
    state->stats = out->stats;
    state->optim = out->optim;
    return artifact_take(s, net, NULL, out->params, out->stats, e);
}

/* An older checkpoint has no list of its workers' states. */
static int load_own(struct checkpoint *out, const struct safetensors *s, const char *path,
                    struct err *e)
{
    char dir[PATH_BYTES];
    const char *slash = strrchr(path, '/'), *text = safetensors_meta(s, "own");
    json_t *list = text ? jsonx_parse(text, strlen(text), e) : json_array();
    snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int rc = list ? own_files_read(dir, list, &out->own, &out->state.n_own, e) : -ERR_DATA;
    out->state.own = out->own;
    json_decref(list);
    return rc;
}

static int load(struct checkpoint *out, const char *path, const struct jobspec *spec, struct err *e)
{
    struct safetensors s;
    int rc = safetensors_open(&s, path, true, e);
    if (rc < 0) {
        return rc;
    }
    if ((rc = load_progress(out, &s, &spec->network, e)) == 0) {
        rc = load_blocks(out, &s, spec, e);
    }
    if (rc >= 0) {
        rc = load_own(out, &s, path, e);
    }
    out->state.test_accuracy = out->state.test_loss = NAN;
    snprintf(out->path, sizeof(out->path), "%s", path);
    safetensors_close(&s);
    if (rc < 0) {
        checkpoint_release(out);
        return err_prefix(e, "cannot use '%.200s'", path);
    }
    return 0;
}

/* Returns enum checkpoint_found, or negative if the folder is unreadable. */
static int newest_in(const char *dir, const struct jobspec *spec, struct checkpoint *out,
                     struct err *e)
{
    struct dirent **names;
    char path[PATH_BYTES];
    int found = CHECKPOINT_NONE;
    memset(out, 0, sizeof(*out));
    int n = list_checkpoints(dir, &names);
    if (n < 0) {
        return err_errno(e, ERR_IO, "cannot look for checkpoints in '%.200s'", dir);
    }
    for (int i = n - 1; found == CHECKPOINT_NONE && i >= 0; i--) {
        struct err why = {0};
        char quoted[600];
        snprintf(path, sizeof(path), "%.3700s/%s", dir, names[i]->d_name);
        if (load(out, path, spec, &why) == 0) {
            found = CHECKPOINT_FOUND;
        } else {
            log_warn("checkpoint", "skipped a checkpoint that cannot be used", "why=%s",
                     log_quote(quoted, sizeof(quoted), why.message));
        }
    }
    free_names(names, n);
    return found;
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
    return rc == CHECKPOINT_NONE
               ? err_set(e, ERR_NOT_FOUND,
                         "cannot continue from '%.200s': it holds no checkpoint of this network",
                         path)
               : rc;
}

int checkpoint_begin(const char *job_dir, const char *init_path, const struct jobspec *spec,
                     struct checkpoint *out, struct err *e)
{
    int rc = job_dir ? checkpoint_newest(job_dir, spec, out, e) : CHECKPOINT_NONE;
    return rc == CHECKPOINT_NONE && init_path && spec->init_how.go_on
               ? checkpoint_open(init_path, spec, out, e)
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
    checkpoint_drop_own(c);
    free(c->params);
    free(c->optim);
    free(c->stats);
    json_decref(c->state.staleness);
    memset(c, 0, sizeof(*c));
}
