/* Checks that need data sets or strategies. The coordinator is built without these and delegates
 * the checks to this program: see check.h. Mistakes in a job are its answer, not its failure.
 */
#include "worker/tasks/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine/probe.h"
#include "job/minibatch/assign.h"
#include "job/node/device_kind.h"
#include "job/documents/results/checked.h"
#include "job/documents/results/scored.h"
#include "kernels/device.h"
#include "worker/config.h"
#include "worker/data/preview.h"
#include "worker/exchange/strategy.h"
#include "worker/training/start.h"
#include "worker/tasks/print.h"

static const double digest_seconds = 1.5; /* the coordinator waits 5 s in all */

static int print(json_t *j, struct err *e)
{
    return print_answer(j) ? 0 : err_set(e, ERR_IO, "cannot print the answer");
}

int check_datasets(const char *roots, const char *cache, struct err *e)
{
    json_t *list = dataset_list(roots, cache, digest_seconds, e);
    return list ? print(list, e) : -ERR_MEMORY;
}

int check_preview(const char *roots, const char *path, bool whole, struct err *e)
{
    struct err why = {0};
    json_t *shown = preview(roots, path, whole, &why);
    return print(shown ? shown : scored_refusal(&why), e);
}

static json_t *precisions_of(struct device *dev)
{
    static const char *const all[] = {"fp32", "tf32", "bf16"};
    json_t *out = json_array();
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct err ignored = {0};
        if (dev_use_precision(dev, all[i], &ignored) >= 0) {
            json_array_append_new(out, json_string(all[i]));
        }
    }
    return out;
}

int check_device(const char *name, struct err *e)
{
    struct err why = {0};
    bool any = strcmp(name, "auto") == 0;
    struct device *dev = any ? dev_open_fastest(&why, e) : dev_open(name, &why);
    if (!dev) {
        return any ? -(int)e->code : print(probe_refusal(why.message), e);
    }
    const struct device_ops *ops = dev->ops;
    const struct device_kind *kind = device_kind_of(ops->name);
    bool of_threads = kind && kind->argument == DEVICE_THREADS;
    struct probe p = {.memory_bytes = ops->memory_bytes(dev),
                      .threads = ops->threads(dev),
                      .precisions = precisions_of(dev)};
    if (any || of_threads) {
        snprintf(p.device, sizeof p.device, "%s:%d", ops->name, of_threads ? p.threads : 0);
    } else {
        snprintf(p.device, sizeof p.device, "%s", name);
    }
    snprintf(p.description, sizeof p.description, "%s", ops->describe(dev));
    snprintf(p.why, sizeof p.why, "%s", why.code ? why.message : "");
    dev_close(dev);
    json_t *answer = probe_json(&p);
    probe_release(&p);
    return print(answer, e);
}

/* Says why the data set cannot be opened, and suggests an existing name that is similar. */
static void tell_data(const struct jobspec *spec, const char *roots, const struct err *why,
                      struct checked *out)
{
    char dir[PATH_MAX];
    const char *path = spec->data.path;
    char *nearest = path[0] && dataset_find(roots, path, dir, NULL) == -ERR_NOT_FOUND
                        ? dataset_nearest(roots, path)
                        : NULL;
    char advice[sizeof why->hint];
    snprintf(advice, sizeof advice, nearest ? "did you mean '%s'?" : "%s",
             nearest ? nearest : why->hint);
    jsonx_problem(&out->errors, spec->data.format == CAT_FORMAT_GLYPHS ? "/data" : "/data/path",
                  "%s%s%s", why->message, advice[0] ? "; " : "", advice);
    free(nearest);
}

static void check_data(const struct jobspec *spec, const char *roots, struct checked *out)
{
    struct dataset d;
    struct err why = {0};
    if (dataset_peek(&d, &spec->data, roots, &why) < 0) {
        tell_data(spec, roots, &why, out);
        return;
    }
    out->samples = d.train.samples;
    out->test_samples = d.test.samples;
    if (dataset_check(&d, &spec->data, &spec->network, &why) < 0) {
        jsonx_problem(&out->errors, "/data", "%s", why.message);
    }
    dataset_release(&d);
}

static void check_batching(const struct jobspec *spec, struct checked *out)
{
    struct err why = {0};
    struct assignment *first = calloc(1, sizeof(*first));
    if (!first || assign_first(first, &spec->batching, spec->workers, NULL, 4, &why) < 0) {
        jsonx_problem(&out->errors, "/batching", "%s", first ? why.message : "memory ran out");
    } else {
        out->workers = spec->workers;
        for (int i = 0; i < spec->workers; i++) {
            int most = assign_slice(spec, first->sizes[i], out->samples);
            out->memory_bytes[i] =
                (int64_t)dev_memory_needed(&spec->network, &spec->optimizer, most);
        }
    }
    free(first);
}

int check_spec(const char *spec_file, const char *roots, const char *init, struct err *e)
{
    struct checked out = {0};
    struct jobspec *spec = config_load_spec(spec_file, &out.errors, e);
    if (!spec && out.errors.count == 0) { /* no JSON at all */
        return -ERR_SYNTAX;
    }
    if (spec) {
        if (!strategy_find(spec->strategy.type)) {
            jsonx_problem(&out.errors, "/strategy/type", "this build has no strategy '%s'",
                          catalog_get(spec->strategy.type)->name);
        }
        check_data(spec, roots, &out);
        if (init) {
            start_check_init(spec, init, out.samples, &out.errors);
        }
        check_batching(spec, &out);
        jobspec_release(spec);
        free(spec);
    }
    int rc = print(checked_json(&out), e);
    checked_release(&out);
    return rc;
}
