/* The plan of an attempt, and the checkpoints it may start from
 * (coordinator/planning/planner.c). */
#include "tests/unit/coordinator/world.h"

#include <limits.h>

#include "coordinator/planning/ask.h"
#include "coordinator/planning/planner.h"
#include "coordinator/planning/profiles.h"

static struct jobspec *parsed(const char *changes)
{
    struct jobspec *spec = calloc(1, sizeof *spec);
    json_t *j = world_spec(changes);
    OK(jobspec_read(spec, j, &err_));
    json_decref(j);
    return spec;
}

static void drop(struct jobspec *spec)
{
    jobspec_release(spec);
    free(spec);
}

static struct placement three_nodes(const double slowdowns[3])
{
    struct placement p = {.nodes = calloc(3, sizeof *p.nodes), .count = 3};
    for (int i = 0; i < 3; i++) {
        p.nodes[i] =
            (struct placed){.slowdown = slowdowns[i], .threads = 1, .speed = 1 / slowdowns[i]};
        snprintf(p.nodes[i].name, sizeof p.nodes[i].name, "n%d", i);
        snprintf(p.nodes[i].host, sizeof p.nodes[i].host, "here");
        snprintf(p.nodes[i].device, sizeof p.nodes[i].device, "cpu:1");
    }
    return p;
}

static void a_plan_has_everything_that_a_rank_starts_from(void **state)
{
    struct world *w = *state;
    struct jobspec *spec = parsed("{'workers': 3, 'strategy': {'type': 'asgd', 'servers': 2}}");
    struct placement p = three_nodes((double[3]){1, 1, 2});
    struct assignment first;
    struct planner_ask ask = {
        w->store, "0123456789abcdef", w->place->dir, "/data/a:/data/b", spec, &p, 3, 5};
    struct plan *made = planner_make(&ask, &first, &err_);
    assert_non_null(made);
    json_t *plan = plan_json(made);
    planner_free(made);
    assert_string_equal(text_at(plan, "/job"), "0123456789abcdef");
    assert_int_equal((int)number_at(plan, "/attempt"), 3);
    assert_int_equal((int)number_at(plan, "/servers"), 2);
    assert_int_equal(json_array_size(at(plan, "/workers")), 3);
    assert_int_equal((int)number_at(plan, "/workers/2/rank"), 2);
    assert_true(number_at(plan, "/workers/2/slowdown") == 2);
    assert_string_equal(text_at(plan, "/data_roots/1"), "/data/b");
    assert_true(json_is_null(at(plan, "/init_path")));
    assert_int_equal((int)number_at(plan, "/first/version"), 5);
    assert_int_equal((int)(number_at(plan, "/first/sizes/0") + number_at(plan, "/first/sizes/1") +
                           number_at(plan, "/first/sizes/2")),
                     64);
    assert_true(fabs(number_at(plan, "/speeds/0") - 1.2) < 1e-9 &&
                fabs(number_at(plan, "/speeds/2") - 0.6) < 1e-9);
    assert_non_null(strstr(text_at(plan, "/job_dir"), "/jobs/0123456789abcdef"));
    assert_int_equal((int)number_at(plan, "/spec/workers"), 3);
    json_decref(plan);
    placement_release(&p);
    drop(spec);
}

/* As a monitor keeps it, for a node with cpu:1. */
static void keep_profile(struct world *w, const char *node, const struct profile *p,
                         double slowdown)
{
    struct measured kept = {.profile = *p, .device = "cpu:1", .slowdown = slowdown};
    json_t *j = measured_json(&kept);
    OK(store_profile_put(w->store, node, "00112233", j, &err_));
    json_decref(j);
}

static void a_profile_of_another_slowdown_or_device_tells_nothing(void **state)
{
    struct world *w = *state;
    struct profile p;
    profile_init(&p);
    for (int i = 0; i < 20; i++) {
        profile_observe(&p, 8 + i % 4 * 8, 0.001 + 0.002 * (8 + i % 4 * 8));
    }
    keep_profile(w, "n0", &p, 2.0);
    struct profile *got = profiles_get(w->store, "n0", "cpu:1", 2.0, "00112233");
    assert_non_null(got);
    assert_true(fabs(got->k - 0.002) < 1e-4);
    free(got);
    assert_null(profiles_get(w->store, "n0", "cpu:1", 1.0, "00112233"));
    assert_null(profiles_get(w->store, "n0", "cpu:2", 2.0, "00112233"));
    assert_null(profiles_get(w->store, "n0", "cpu:1", 2.0, "44556677"));
    assert_null(profiles_get(w->store, "n1", "cpu:1", 2.0, "00112233"));
}

static void a_memory_limit_is_known_of_a_node_that_was_never_measured(void **state)
{
    struct world *w = *state;
    struct profile p = {.max_batch = 12};
    keep_profile(w, "n2", &p, 1.0);
    struct profile *got = profiles_get(w->store, "n2", "cpu:1", 1.0, "00112233");
    assert_non_null(got);
    assert_true(got->count == 0 && got->max_batch == 12);
    free(got);
}

static void a_batch_too_small_for_its_workers_is_refused(void **state)
{
    struct world *w = *state;
    struct jobspec *spec =
        parsed("{'workers': 2, 'batching': {'global_batch': 2, 'policy': 'equal'}}");
    struct placement p = three_nodes((double[3]){1, 1, 1});
    struct assignment first;
    struct planner_ask ask = {w->store, "0123456789abcdef", w->place->dir, "/data", spec, &p, 1, 1};
    err_clear(&err_);
    assert_null(planner_make(&ask, &first, &err_));
    assert_int_equal(err_.code, ERR_INVALID);
    assert_non_null(strstr(err_.message, "cannot go on with 3 of its 2 workers"));
    placement_release(&p);
    drop(spec);
}

static void what_a_job_starts_from_lies_beneath_a_root_or_among_the_artifacts(void **state)
{
    struct world *w = *state;
    char root[200], secret[220], dir[300], path[PATH_MAX], file[400], real[PATH_MAX];
    snprintf(root, sizeof root, "%s/data", w->place->dir);
    snprintf(secret, sizeof secret, "%s/secret", w->place->dir);
    snprintf(dir, sizeof dir, "%s/models", root);
    OK(proc_mkdirs(dir, 0755, &err_));
    OK(proc_write_file(secret, "x", 1, 0600, &err_));
    snprintf(file, sizeof file, "%s/models/a.safetensors", root);
    OK(proc_write_file(file, "x", 1, 0644, &err_));
    assert_non_null(realpath(file, real));
    OK(planner_find_init("models/a.safetensors", root, w->place->dir, path, &err_));
    assert_string_equal(path, real);
    char roots[500];
    snprintf(roots, sizeof roots, "%s/none::%s:", w->place->dir, root);
    OK(planner_find_init("models/a.safetensors", roots, w->place->dir, path, &err_));
    assert_string_equal(path, real);
    snprintf(dir, sizeof dir, "%s/jobs/0123456789abcdef/artifacts", w->place->dir);
    OK(proc_mkdirs(dir, 0755, &err_));
    snprintf(file, sizeof file, "%s/model.safetensors", dir);
    OK(proc_write_file(file, "x", 1, 0644, &err_));
    assert_non_null(realpath(file, real));
    OK(planner_find_init("0123456789abcdef/model.safetensors", root, w->place->dir, path, &err_));
    assert_string_equal(path, real);
    snprintf(file, sizeof file, "%s/link", root);
    assert_int_equal(symlink(secret, file), 0);
    const char *out[] = {"link",
                         "../secret",
                         "models/../../secret",
                         "/etc/passwd",
                         "0123456789abcdef/../../../secret",
                         "missing",
                         NULL};
    for (int i = 0; out[i]; i++) {
        err_clear(&err_);
        if (planner_find_init(out[i], root, w->place->dir, path, &err_) >= 0 ||
            !strstr(err_.message, out[i])) {
            fail_msg("%s was found: %s", out[i], err_.message);
        }
    }
}

/* The program may allocate only this much, and the coordinator waits no longer for it. */
static void a_question_to_a_program_has_limits(void **state)
{
    struct world *w = *state;
    const char *const tells[] = {"sh", "-c", "echo [$(ulimit -d)]", NULL}, *const sleeps[] = {
                                                                               "sleep", "1000",
                                                                               NULL};
    const struct ask_limits small = {.seconds = 60, .memory_bytes = 64 << 20},
                            soon = {.seconds = 0.1};
    json_t *j = ask_program(tells, w->place->dir, &small, &err_);
    assert_int_equal(number_at(j, "/0"), 64 << 10); /* KiB */
    json_decref(j);
    assert_null(ask_program(sleeps, w->place->dir, &soon, &err_));
    assert_int_equal(err_.code, ERR_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_question_to_a_program_has_limits),
        IN_A_WORLD(a_plan_has_everything_that_a_rank_starts_from),
        IN_A_WORLD(a_profile_of_another_slowdown_or_device_tells_nothing),
        IN_A_WORLD(a_memory_limit_is_known_of_a_node_that_was_never_measured),
        IN_A_WORLD(a_batch_too_small_for_its_workers_is_refused),
        IN_A_WORLD(what_a_job_starts_from_lies_beneath_a_root_or_among_the_artifacts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
