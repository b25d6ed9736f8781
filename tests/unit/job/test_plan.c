/* What an attempt's plan says about workers that die (job/documents/coordinator/plan.c). */
#include "tests/unit/job/documents.h"

#include "job/documents/coordinator/plan.h"
#include "job/spec/catalog.h"
#include "job/spec/spec.h"

static struct plan_worker workers[2];
static struct plan plan;

/* An attempt of our networks on one host, with one server or only the keeper. */
static struct jobspec *begin(int strategy)
{
    struct jobspec *spec = calloc(1, sizeof *spec);
    assert_non_null(spec);
    spec->strategy.type = strategy;
    spec->strategy.servers = 1;
    memset(workers, 0, sizeof workers);
    memset(&plan, 0, sizeof plan);
    plan.workers = workers;
    plan.n_workers = 2;
    plan.servers = 1;
    for (int i = 0; i < 2; i++) {
        snprintf(workers[i].device, sizeof workers[i].device, "cpu:1");
    }
    return spec;
}

static void every_strategy_takes_a_worker_back(void **state)
{
    static const int all[] = {CAT_STRATEGY_SYNC, CAT_STRATEGY_LOCAL_SGD, CAT_STRATEGY_HIER_SGD,
                              CAT_STRATEGY_HPSGD, CAT_STRATEGY_ASGD};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct jobspec *spec = begin(all[i]);
        assert_true(plan_takes_back(&plan, spec));
        free(spec);
    }
}

/* The memory of its device is lost, or it would need more memory than another rank has. */
static void elsewhere_it_stays_away(void **state)
{
    struct jobspec *spec = begin(CAT_STRATEGY_LOCAL_SGD);
    (void)state;
    workers[1].agent = true;
    assert_true(plan_takes_back(&plan, spec)); /* also on another host */
    workers[1].agent = false;
    snprintf(workers[1].device, sizeof workers[1].device, "cuda:0");
    assert_false(plan_takes_back(&plan, spec));
    free(spec);
    spec = begin(CAT_STRATEGY_LOCAL_SGD);
    spec->program.given = true;
    assert_true(plan_takes_back(&plan, spec)); /* another rank gives it everything it needs */
    spec->strategy.type = CAT_STRATEGY_SYNC;
    assert_true(plan_takes_back(&plan, spec));
    spec->strategy.type = CAT_STRATEGY_HIER_SGD;
    assert_false(plan_takes_back(&plan, spec)); /* nobody tells what its group has averaged */
    free(spec);
    spec = begin(CAT_STRATEGY_ASGD);
    spec->program.given = true;
    assert_true(plan_takes_back(&plan, spec)); /* the server, and the last checkpoint */
    spec->strategy.servers = plan.servers = 2;
    assert_false(plan_takes_back(&plan, spec));
    free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_takes_a_worker_back),
        cmocka_unit_test(elsewhere_it_stays_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
