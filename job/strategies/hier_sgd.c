/* What `hier-sgd` requires of a job spec: groups of one size, and k2 a multiple of k1. */
#include "job/strategies/strategies.h"

static void check_group_size(const struct jobspec *spec, int size, struct jsonx_problems *problems)
{
    const json_t *groups = json_object_get(spec->cluster, "groups");
    size_t i;
    json_t *group;
    if (spec->workers % size != 0) {
        jsonx_problem(problems, "/strategy/group_size", "groups of %d do not divide %d workers",
                      size, spec->workers);
    }
    json_array_foreach((json_t *)groups, i, group) {
        if (json_array_size(group) != (size_t)size) {
            jsonx_problem(problems, "/strategy/group_size",
                          "'group_size' is %d, but group %zu of the cluster has %zu nodes", size, i,
                          json_array_size(group));
            return;
        }
    }
}

void hier_sgd_check(const struct jobspec *spec, struct jsonx_problems *problems)
{
    const struct strategy_spec *s = &spec->strategy;
    int k1 = (int)strategy_param(s, "k1"), k2 = (int)strategy_param(s, "k2");
    if (k1 > 0 && k2 % k1 != 0) {
        jsonx_problem(problems, "/strategy/k2",
                      "'k2' must be a multiple of 'k1', and %d is not a multiple of %d", k2, k1);
    }
    if (s->group_size > 0) {
        check_group_size(spec, s->group_size, problems);
    }
}
