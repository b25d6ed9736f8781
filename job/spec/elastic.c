/* The key `elastic` of a job spec: the bounds between which the number of nodes may change while
 * the job runs. `workers` is then the upper bound and `min_workers` the lower one; both may be left
 * out, but must not differ from the bounds. The rest of the spec must be possible with each number
 * of nodes in between, so each is checked here. */
#include "job/spec/parts.h"

const struct catalog_param spec_elastic_params[] = {
    {"min", PARAM_INT, 1, 1, 1, SPEC_WORKERS, NULL, NULL,
     "fewest nodes to start with, and to keep when others need nodes"},
    {"max", PARAM_INT, 1, 1, 1, SPEC_WORKERS, NULL, NULL, "nodes that it grows to"},
    {.name = NULL},
};

/* `key` is a name for `bound`: the same number, or left out. */
static bool takes_bound(struct fields *f, const char *key, const char *bound, int value)
{
    const json_t *given = json_object_get(f->given, key);
    if (json_is_integer(given) && json_integer_value(given) != value) {
        fields_problem(f, key, "'%s' %lld is not %d: with 'elastic' it is its '%s', or left out",
                       key, (long long)json_integer_value(given), value, bound);
        return false;
    }
    json_object_set_new(f->full, key, json_integer(value));
    return true;
}

void spec_read_elastic(struct jobspec *spec, struct fields *f)
{
    struct fields in;
    if (fields_get(f, "elastic") == NULL) {
        return;
    }
    spec_open(&in, f, "elastic", true);
    bool good = in.given != NULL && fields_params(&in, spec_elastic_params);
    fields_close(&in);
    int min = (int)fields_int(in.full, "min"), max = (int)fields_int(in.full, "max");
    if (!good) {
        return;
    }
    if (min > max) {
        fields_problem(&in, "min", "'min' %d is more than 'max' %d", min, max);
    } else if (takes_bound(f, "workers", "max", max) && takes_bound(f, "min_workers", "min", min)) {
        spec->workers = max;
        spec->min_workers = min;
        spec->elastic = (struct elastic_spec){.min = min, .max = max};
    }
}

/* Is this number of workers impossible? Then it reports the first reason. */
static bool refuses(struct jobspec *spec, int workers, struct fields *f)
{
    struct jsonx_problems problems = {0};
    int most = spec->workers;
    spec->workers = workers;
    spec_check_strategy(spec, &problems);
    spec_check_batching(spec, &problems);
    spec->workers = most;
    bool found = problems.count > 0;
    if (found) {
        char first[JSONX_FIRST];
        fields_problem(f, "elastic", "not possible with %d of up to %d nodes: %s", workers, most,
                       jsonx_problems_first(&problems, first));
    }
    jsonx_problems_release(&problems);
    return found;
}

void spec_check_elastic(struct jobspec *spec, struct fields *f)
{
    const struct batching_spec *b = &spec->batching;
    if (spec->elastic.max == 0) {
        return;
    }
    if (spec->cluster) {
        fields_problem(f, "elastic", "a virtual cluster has its nodes: 'elastic' is for real ones");
    } else if (b->n_sizes > 0 || b->n_weights > 0) {
        fields_problem(f, "elastic",
                       "minibatches that are given for each worker hold for one number of them: "
                       "'%s' and 'elastic' exclude each other",
                       b->n_sizes > 0 ? "sizes" : "weights");
    } else {
        for (int n = spec->elastic.max - 1; n >= spec->elastic.min && !refuses(spec, n, f); n--) {
        }
    }
}

int jobspec_least_workers(const struct jobspec *spec)
{
    return spec->elastic.max > 0 ? spec->elastic.min : spec->workers;
}

json_t *jobspec_resized(const json_t *json, int workers)
{
    json_t *j = json_deep_copy(json);
    if (j) {
        json_object_set_new(j, "workers", json_integer(workers));
        json_object_del(j, "elastic");
    }
    return j;
}
