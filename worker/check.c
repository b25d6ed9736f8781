/* Checks that need data sets or strategies, which the coordinator (built without them) leaves to
 * this program: see check.h. Mistakes in a job are its answer, not its failure.
 */
#include "worker/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/assign.h"
#include "job/device_kind.h"
#include "kernels/device.h"
#include "worker/config.h"
#include "worker/data/dataset.h"
#include "worker/exchange/strategy.h"
#include "worker/start.h"

static const double digest_seconds = 1.5; /* the coordinator waits for 5 in all */

static int print(json_t *j, struct err *e)
{
    char *text = jsonx_dump(j, false, NULL);
    json_decref(j);
    if (!text || puts(text) < 0 || fflush(stdout) != 0) {
        free(text);
        return err_set(e, ERR_IO, "cannot print the answer");
    }
    free(text);
    return 0;
}

int check_datasets(const char *roots, const char *cache, struct err *e)
{
    json_t *list = dataset_list(roots, cache, digest_seconds, e);
    return list ? print(list, e) : -ERR_MEMORY;
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
    char own[64];
    if (!dev) {
        return any ? -(int)e->code : print(json_pack("{s:s}", "error", why.message), e);
    }
    const struct device_kind *kind = device_kind_of(dev->ops->name);
    bool of_threads = kind && kind->argument == DEVICE_THREADS;
    snprintf(own, sizeof(own), "%s:%d", dev->ops->name, of_threads ? dev->ops->threads(dev) : 0);
    json_t *out =
        json_pack("{s:s, s:s, s:I, s:i, s:o, s:s?}", "device", any || of_threads ? own : name,
                  "description", dev->ops->describe(dev), "memory_bytes",
                  (json_int_t)dev->ops->memory_bytes(dev), "threads", dev->ops->threads(dev),
                  "precisions", precisions_of(dev), "why", why.code ? why.message : NULL);
    dev_close(dev);
    return print(out, e);
}

/* Samples of the training part, or 0 with a problem. */
static int64_t check_data(const struct jobspec *spec, const char *roots, json_t *out,
                          struct jsonx_problems *problems)
{
    struct dataset d;
    struct err why = {0};
    if (dataset_peek(&d, &spec->data, roots, &why) < 0) {
        jsonx_problem(problems, spec->data.format == CAT_FORMAT_GLYPHS ? "/data" : "/data/path",
                      "%s", why.message);
        return 0;
    }
    int64_t samples = d.train.samples;
    json_object_set_new(out, "samples", json_integer((json_int_t)samples));
    json_object_set_new(out, "test_samples", json_integer((json_int_t)d.test.samples));
    if (dataset_check(&d, &spec->data, &spec->network, &why) < 0) {
        jsonx_problem(problems, "/data", "%s", why.message);
    }
    dataset_release(&d);
    return samples;
}

static void check_batching(const struct jobspec *spec, json_t *out, struct jsonx_problems *problems)
{
    struct err why = {0};
    struct assignment *first = calloc(1, sizeof(*first));
    json_t *memory = json_array();
    if (!first || assign_first(first, &spec->batching, spec->workers, NULL, 4, &why) < 0) {
        jsonx_problem(problems, "/batching", "%s", first ? why.message : "memory ran out");
    } else {
        for (int i = 0; i < spec->workers; i++) {
            json_array_append_new(memory, json_integer((json_int_t)dev_memory_needed(
                                              &spec->network, &spec->optimizer, first->sizes[i])));
        }
    }
    free(first);
    json_object_set_new(out, "memory_bytes", memory);
}

int check_spec(const char *spec_file, const char *roots, const char *init, struct err *e)
{
    struct jsonx_problems problems = {0};
    json_t *out = json_pack("{s:n, s:i, s:i}", "errors", "samples", 0, "test_samples", 0);
    struct jobspec *spec = config_load_spec(spec_file, &problems, e);
    if (!spec && problems.count == 0) { /* no JSON at all */
        json_decref(out);
        return -ERR_SYNTAX;
    }
    if (spec) {
        const struct strategy_ops *ops = strategy_find(spec->strategy.type);
        if (!ops) {
            jsonx_problem(&problems, "/strategy/type", "this build has no strategy '%s'",
                          catalog_get(spec->strategy.type)->name);
        }
        int64_t samples = check_data(spec, roots, out, &problems);
        if (init) {
            start_check_init(spec, init, samples, &problems);
        }
        check_batching(spec, out, &problems);
        jobspec_release(spec);
        free(spec);
    }
    json_object_set_new(out, "errors", jsonx_problems_json(&problems));
    jsonx_problems_release(&problems);
    return print(out, e);
}
