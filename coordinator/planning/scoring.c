/* See scoring.h.
 *
 *   GET jobs/ID/confusion ─► jobs/ID/scored.json of this model?  ─ yes ─► answer
 *                                  no ─► evenstep-worker --evaluate ─► scored.json ─► answer
 *
 * One process evaluates the model's file, however it was trained. So the counts are exact for any
 * strategy and number of workers, and no training job does this work. Models with more than 100
 * classes are refused, since their matrix would not be readable.
 */
#include "coordinator/planning/scoring.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/process/answer.h"
#include "common/process/proc.h"
#include "coordinator/planning/ask.h"
#include "coordinator/planning/dryrun.h"
#include "job/documents/results/scored.h"

enum { CLASSES_MOST = 100, KEPT_BYTES = 16 << 20 };
static const struct ask_limits limits = {.seconds = 120};
static const char *const model_name = "model.safetensors";

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* held while a request evaluates */

struct scoring {
    const struct dryrun *d;
    char model[PATH_MAX], kept[PATH_MAX];
    char stamp[64]; /* of the model's file */
};

static int find_model(struct scoring *s, const char *id, struct err *e)
{
    struct stat st;
    const char *root = s->d->data_dir;
    if (snprintf(s->model, PATH_MAX, "%s/jobs/%s/artifacts/%s", root, id, model_name) >= PATH_MAX ||
        snprintf(s->kept, PATH_MAX, "%s/jobs/%s/scored.json", root, id) >= PATH_MAX) {
        return err_set(e, ERR_TOO_LARGE, "the path of the data folder is too long");
    }
    if (stat(s->model, &st) < 0) {
        err_set(e, ERR_NOT_FOUND, "the job has no '%s'", model_name);
        return err_hint(e, "it is written when a job ends well");
    }
    snprintf(s->stamp, sizeof s->stamp, "%lld %lld.%09ld", (long long)st.st_size,
             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return 0;
}

/* The kept result; NULL: there is none of this model. */
static json_t *recall(const struct scoring *s)
{
    json_t *kept = jsonx_load(s->kept, KEPT_BYTES, NULL), *scored = NULL;
    const char *stamp = json_string_value(json_object_get(kept, "stamp"));
    if (stamp && strcmp(stamp, s->stamp) == 0) {
        scored = json_incref(json_object_get(kept, "scored"));
    }
    json_decref(kept);
    return scored;
}

/* Keeps the result. If the file cannot be written, the next request evaluates again. */
static void keep(const struct scoring *s, json_t *scored)
{
    json_t *kept = json_pack("{s:s, s:O}", "stamp", s->stamp, "scored", scored);
    size_t n = 0;
    char *text = jsonx_dump(kept, false, &n);
    if (text) {
        proc_write_file(s->kept, text, n, 0600, NULL);
    }
    free(text);
    json_decref(kept);
}

static int check(const json_t *scored, struct err *e)
{
    struct scored read;
    int rc = scored_read(&read, scored, e);
    if (rc == 0 && read.classes == 0) {
        rc = err_set(e, ERR_UNSUPPORTED,
                     "the targets are not labels, so there is no confusion matrix");
    }
    if (rc == 0 && read.classes > CLASSES_MOST) {
        err_set(e, ERR_UNSUPPORTED, "%d classes are more than the %d of which a matrix is shown",
                read.classes, CLASSES_MOST);
        rc = err_hint(e, "`evenstep evaluate` prints what is confused most often");
    }
    scored_release(&read);
    return rc;
}

static json_t *evaluate(const struct scoring *s, struct err *e)
{
    const char *argv[] = {s->d->worker, "--evaluate", s->model, "--roots",
                          s->d->roots,  "--pictures", NULL};
    char dir[64];
    if (answer_folder(dir, e) < 0) {
        return NULL;
    }
    json_t *scored = ask_program(argv, dir, &limits, e);
    proc_remove_tree(dir, NULL);
    if (scored && check(scored, e) < 0) {
        json_decref(scored);
        return NULL;
    }
    if (scored) {
        json_object_set_new(scored, "model", json_string(model_name)); /* hides the path on this
                                                                          host */
        keep(s, scored);
    }
    return scored;
}

json_t *scoring_of_job(void *ctx, const char *id, struct err *e)
{
    struct scoring s = {.d = ctx};
    if (find_model(&s, id, e) < 0) {
        return NULL;
    }
    json_t *scored = recall(&s);
    if (scored) {
        return scored;
    }
    if (pthread_mutex_trylock(&busy) != 0) {
        err_set(e, ERR_UNAVAILABLE, "a model is being evaluated already");
        err_hint(e, "ask again in a few seconds");
        return NULL;
    }
    scored = recall(&s); /* another request may have finished meanwhile */
    scored = scored ? scored : evaluate(&s, e);
    pthread_mutex_unlock(&busy);
    return scored;
}
