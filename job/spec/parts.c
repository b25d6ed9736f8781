/* The sections optimizer and batching of a job spec: see parts.h.
 *
 * Parameters that the catalogue lists are read by its rows, into `full`; from there they are copied
 * into the struct by name, so a strategy that lacks a parameter leaves the struct's zero. `full`
 * must parse again to the same spec (the coordinator and the workers read the stored one), so a
 * default is written the way a user would write it. */
#include "job/spec/parts.h"

#include <stdio.h>
#include <string.h>

void spec_open(struct fields *section, struct fields *f, const char *key, bool required)
{
    char at[FIELDS_POINTER];
    const json_t *given = required ? fields_need(f, key) : fields_get(f, key);
    json_t *full = json_object();
    json_object_set_new(f->full, key, full);
    fields_open(section, given, full, jsonx_join(at, sizeof at, f->pointer, key), f->problems);
}

bool spec_is(const json_t *full, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(full, key));
    return value != NULL && strcmp(value, text) == 0;
}

int spec_read_numbers(struct fields *f, const char *key, bool whole, double min, double max,
                      double *out, int most)
{
    char pointer[FIELDS_POINTER], at[FIELDS_POINTER], shown[48];
    const json_t *v = fields_get(f, key);
    size_t n = json_array_size(v);
    bool good = true;
    if (v == NULL) {
        return 0;
    }
    if (!json_is_array(v) || n == 0 || n > (size_t)most) {
        fields_problem(f, key, "'%s' must be an array of 1 to %d numbers, not %s", key, most,
                       fields_show(shown, v));
        return -1;
    }
    jsonx_join(pointer, sizeof pointer, f->pointer, key);
    for (size_t i = 0; i < n; i++) {
        good = fields_number(f, jsonx_join_index(at, sizeof at, pointer, i), json_array_get(v, i),
                             whole, min, max, &out[i]) &&
               good;
    }
    if (!good) {
        return -1;
    }
    json_object_set_new(f->full, key, json_deep_copy(v));
    return (int)n;
}

/* ---- optimizer ------------------------------------------------------------------------------- */

static void read_schedule(struct optimizer_spec *o, struct fields *f)
{
    struct fields in;
    o->schedule = CAT_SCHEDULE_CONSTANT;
    spec_open(&in, f, "schedule", false);
    const struct catalog_entry *schedule = fields_entry(&in, "type", CATALOG_SCHEDULE, "constant");
    if (schedule == NULL) {
        return;
    }
    o->schedule = schedule->id;
    fields_params(&in, schedule->params);
    if (schedule->id == CAT_SCHEDULE_STEP) {
        int n = spec_read_numbers(&in, "at_epochs", false, 0, 1e6, o->at_epochs, SPEC_EPOCHS_AT);
        if (n == 0) {
            fields_problem(&in, "at_epochs",
                           "'at_epochs' is missing: the epochs at which the rate changes");
        }
        for (int i = 1; i < n; i++) {
            if (o->at_epochs[i] <= o->at_epochs[i - 1]) {
                fields_problem(&in, "at_epochs", "'at_epochs' must rise: %g follows %g",
                               o->at_epochs[i], o->at_epochs[i - 1]);
                break;
            }
        }
        o->n_at_epochs = n > 0 ? n : 0;
    }
    fields_close(&in);
    o->factor = fields_real(in.full, "factor");
    o->warmup_epochs = fields_real(in.full, "warmup_epochs");
    o->floor = fields_real(in.full, "floor");
}

void spec_read_optimizer(struct optimizer_spec *o, struct fields *f)
{
    struct fields in;
    spec_open(&in, f, "optimizer", false);
    const struct catalog_entry *optimizer = fields_entry(&in, "type", CATALOG_OPTIMIZER, "sgd");
    if (optimizer == NULL) {
        return;
    }
    o->type = optimizer->id;
    fields_params(&in, optimizer->params);
    read_schedule(o, &in);
    fields_close(&in);
    o->learning_rate = fields_real(in.full, "learning_rate");
    o->momentum = fields_real(in.full, "momentum");
    o->weight_decay = fields_real(in.full, "weight_decay");
    o->clip_norm = fields_real(in.full, "clip_norm");
    o->beta1 = fields_real(in.full, "beta1");
    o->beta2 = fields_real(in.full, "beta2");
    o->eps = fields_real(in.full, "eps");
    o->nesterov = json_is_true(json_object_get(in.full, "nesterov"));
    if (o->nesterov && o->momentum == 0) {
        fields_problem(&in, "nesterov", "'nesterov' needs a momentum above 0");
    }
}

/* ---- batching -------------------------------------------------------------------------------- */

const struct catalog_param spec_batching_params[] = {
    {"global_batch", PARAM_INT, 1, 0, 1, 1 << 24, NULL, NULL,
     "samples of one step, all workers together; of a program: what its loader asks for, if it is "
     "left "
     "out"},
    {"min_batch", PARAM_INT, 0, 1, 1, 1 << 24, NULL, NULL, "least minibatch of a worker"},
    {"max_batch", PARAM_INT, 0, 0, 0, 1 << 24, NULL, NULL,
     "largest minibatch of a worker; 0: no limit but memory"},
    {.name = NULL},
};

void spec_read_batching(struct batching_spec *b, bool of_program, struct fields *f)
{
    double numbers[SPEC_WORKERS]; /* 8 KB */
    static const enum batching_policy policies[] = {BATCH_EQUAL, BATCH_STATIC, BATCH_DYNAMIC};
    struct fields in;
    spec_open(&in, f, "batching", !of_program);
    if (in.given == NULL && !of_program) {
        return;
    }
    const struct catalog_entry *policy = fields_entry(&in, "policy", CATALOG_BATCHING, "dynamic");
    b->policy = policy != NULL ? policies[policy->id - CAT_BATCHING_EQUAL] : BATCH_DYNAMIC;
    bool of_loader = of_program && json_object_get(in.given, spec_batching_params[0].name) == NULL;
    fields_params(&in, spec_batching_params + of_loader);
    b->global_batch = (int)fields_int(in.full, "global_batch");
    b->min_batch = (int)fields_int(in.full, "min_batch");
    b->max_batch = (int)fields_int(in.full, "max_batch");
    int n = spec_read_numbers(&in, "sizes", true, 0, 1 << 24, numbers, SPEC_WORKERS);
    for (int i = 0; i < n; i++) {
        b->sizes[i] = (int)numbers[i];
    }
    b->n_sizes = n;
    b->n_weights = spec_read_numbers(&in, "weights", false, 0, 1e9, b->weights, SPEC_WORKERS);
    fields_close(&in);
    if (policy != NULL && policy->id != CAT_BATCHING_STATIC && (n != 0 || b->n_weights != 0)) {
        fields_problem(&in, n != 0 ? "sizes" : "weights",
                       "'%s' belongs to the policy 'static', not '%s'",
                       n != 0 ? "sizes" : "weights", policy->name);
    }
}

/* Checks `sizes` and `weights`, one for each worker. The global batch may not be known yet. */
static void check_numbers(const struct jobspec *spec, struct jsonx_problems *problems)
{
    const struct batching_spec *b = &spec->batching;
    int64_t W = spec->workers, B = b->global_batch, sum = 0;
    double weights = 0;
    for (int i = 0; i < b->n_sizes; i++) {
        sum += b->sizes[i];
    }
    for (int i = 0; i < b->n_weights; i++) {
        weights += b->weights[i];
    }
    if (b->n_sizes > 0 && b->n_weights > 0) {
        jsonx_problem(problems, "/batching", "'sizes' and 'weights' exclude each other");
    } else if (b->n_sizes > 0 && B == 0 && b->n_sizes != W) {
        jsonx_problem(problems, "/batching/sizes", "'sizes' must be %lld numbers; these are %d",
                      (long long)W, b->n_sizes);
    } else if (b->n_sizes > 0 && B > 0 && (b->n_sizes != W || sum != B)) {
        jsonx_problem(
            problems, "/batching/sizes",
            "'sizes' must be %lld numbers that sum to the global batch of %lld; these are %d and "
            "sum to %lld",
            (long long)W, (long long)B, b->n_sizes, (long long)sum);
    } else if (b->n_weights > 0 && (b->n_weights != W || !(weights > 0))) {
        jsonx_problem(problems, "/batching/weights",
                      "'weights' must be %lld numbers that are not all 0; these are %d",
                      (long long)W, b->n_weights);
    } else if (b->policy == BATCH_STATIC && b->n_sizes == 0 && b->n_weights == 0) {
        jsonx_problem(problems, "/batching", "the policy 'static' needs 'sizes' or 'weights'");
    }
}

void spec_check_batching(const struct jobspec *spec, struct jsonx_problems *problems)
{
    const struct batching_spec *b = &spec->batching;
    int64_t W = spec->workers, B = b->global_batch;
    if (B == 0 && spec->program.given) { /* worker/program checks again when the loader has reported
                                            it */
        check_numbers(spec, problems);
        return;
    }
    if (B < W * b->min_batch) {
        jsonx_problem(
            problems, "/batching/global_batch",
            "a global batch of %lld is less than %lld worker%s times the least minibatch of %d",
            (long long)B, (long long)W, W == 1 ? "" : "s", b->min_batch);
    }
    if (b->max_batch > 0 && b->max_batch < b->min_batch) {
        jsonx_problem(problems, "/batching/max_batch", "'max_batch' %d is less than 'min_batch' %d",
                      b->max_batch, b->min_batch);
    } else if (b->max_batch > 0 && B > W * b->max_batch) {
        jsonx_problem(problems, "/batching/max_batch",
                      "a global batch of %lld is more than %lld worker%s times the largest "
                      "minibatch of %d",
                      (long long)B, (long long)W, W == 1 ? "" : "s", b->max_batch);
    }
    check_numbers(spec, problems);
}
