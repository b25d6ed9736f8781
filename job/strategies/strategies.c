/* The section `strategy` of a job spec, and what each strategy asks of the other sections.
 *
 * Parameters are read by the rows of the catalogue's line, into `full` and into `values`; those
 * that several files ask for are copied into the struct by name, so a strategy that lacks one
 * leaves the struct's zero. A strategy with a parameter `servers` has a parameter server. */
#include "job/strategies/strategies.h"

#include <string.h>

static void read_values(struct strategy_spec *s, const struct catalog_param *params,
                        const json_t *full)
{
    for (int i = 0; params[i].name != NULL; i++) {
        const json_t *value = json_object_get(full, params[i].name);
        BUG_ON(i == STRATEGY_PARAMS);
        s->values[i] = json_is_true(value) ? 1 : json_number_value(value);
    }
}

void spec_read_strategy(struct strategy_spec *s, struct fields *f)
{
    struct fields in;
    spec_open(&in, f, "strategy", false);
    const struct catalog_entry *strategy = fields_entry(&in, "type", CATALOG_STRATEGY, "sync");
    if (strategy == NULL) {
        return;
    }
    const json_t *full = in.full;
    s->type = strategy->id;
    fields_params(&in, strategy->params);
    fields_close(&in);
    read_values(s, strategy->params, full);
    s->weighting = spec_is(full, "weighting", "plain") ? WEIGHT_PLAIN : WEIGHT_SAMPLE;
    s->scale = spec_is(full, "scale", "per_update") ? SCALE_PER_UPDATE : SCALE_GLOBAL;
    s->rate = spec_is(full, "rate", "n")     ? RATE_N
              : spec_is(full, "rate", "tau") ? RATE_TAU
                                             : RATE_FIXED;
    s->pull = spec_is(full, "pull", "blocking") ? PULL_BLOCKING : PULL_FREE;
    s->n = (int)fields_int(full, "n");
    s->c = (int)fields_int(full, "c");
    s->group_size = (int)fields_int(full, "group_size");
    s->servers =
        fields_has_param(strategy->params, "servers") ? (int)fields_int(full, "servers") : 1;
}

/* ---- what kind of strategy it is ------------------------------------------------------------- */

bool jobspec_outlives_worker(const struct jobspec *spec)
{
    enum strategy_replicas replicas = strategy_traits(spec->strategy.type)->replicas;
    bool ours = strcmp(spec->allreduce, "mpi") != 0, alike = ours && replicas == REPLICAS_ALIKE,
         averages = ours && (replicas == REPLICAS_AVERAGED || replicas == REPLICAS_BEHIND),
         by_server = jobspec_uses_server(spec) && spec->strategy.servers <= 1;
    return (alike || averages || by_server) &&
           !(spec->program.given && jobspec_programs_meet(spec));
}

static bool has_param(const struct jobspec *spec, const char *name)
{
    const struct catalog_entry *entry = catalog_get(spec->strategy.type);
    return entry != NULL && fields_has_param(entry->params, name);
}

bool jobspec_uses_server(const struct jobspec *spec)
{
    return has_param(spec, "servers");
}

bool jobspec_has_groups(const struct jobspec *spec)
{
    return has_param(spec, "group_size");
}

/* ---- checks ---------------------------------------------------------------------------------- */

static strategy_check_fn *const checks[CAT_COUNT] = {
#define ENTRY(kind, ident, name, help, params)
#define CHECK(ident, function) [CAT_STRATEGY_##ident] = function,
#include "job/spec/catalog.def"
#undef ENTRY
};

/* Checks what every parameter server requires. */
static void check_server(const struct jobspec *spec, struct jsonx_problems *problems)
{
    const char *name = catalog_get(spec->strategy.type)->name;
    if (spec->optimizer.type != CAT_OPTIMIZER_SGD) {
        jsonx_problem(problems, "/optimizer/type", "the server of '%s' offers 'sgd' only", name);
    }
    if (spec->optimizer.nesterov) {
        jsonx_problem(problems, "/optimizer/nesterov", "the server of '%s' has plain momentum only",
                      name);
    }
}

void spec_check_strategy(const struct jobspec *spec, struct jsonx_problems *problems)
{
    strategy_check_fn *own = checks[spec->strategy.type];
    if (jobspec_uses_server(spec)) {
        check_server(spec, problems);
    }
    if (own != NULL) {
        own(spec, problems);
    }
}
