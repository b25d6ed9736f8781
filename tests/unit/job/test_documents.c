/* The coordinator's documents: plan, control, launch record, bookmark, what it keeps about a node;
 * and the common parts of all documents (job/documents). */
#include "tests/unit/job/documents.h"

#include "job/documents/coordinator/bookmark.h"
#include "job/documents/coordinator/control.h"
#include "job/documents/coordinator/launched.h"
#include "job/documents/coordinator/measured.h"
#include "job/documents/coordinator/plan.h"

/* ---- what all have in common ----------------------------------------------------------------- */

static struct control some_control(void)
{
    return (struct control){.from = from_coordinator,
                            .version = 7,
                            .workers = 2,
                            .sizes = {44, 0},
                            .pause = true,
                            .n_lost = 1,
                            .lost = {1},
                            .n_silent = 1,
                            .silent = {1},
                            .seats = {0, 2}};
}

static int read_control(const json_t *j, struct err *e)
{
    struct control c;
    return control_read(&c, j, e);
}

static void a_document_says_who_wrote_it_and_of_which_attempt(void **state)
{
    struct control c = some_control(), got;
    struct err e = {0};
    json_t *j = sent(control_json(&c));
    (void)state;
    assert_read(control_read(&got, j, &e), &e);
    assert_sender(&got.from, &from_coordinator);
    struct sender other = from_coordinator;
    other.attempt = 3;
    assert_false(sender_is(&got.from, &other));
    other.attempt = 2;
    snprintf(other.job, sizeof other.job, "fedcba9876543210");
    assert_false(sender_is(&got.from, &other));
    json_decref(j);
}

static void what_is_wrong_with_an_envelope_is_said(void **state)
{
    static const struct wrong wrongs[] = {
        {"format", NULL,
         "the control document is not valid: /format: is missing: another version of this program "
         "wrote it"},
        {"format", "2",
         "the control document is not valid: /format: is 2, and "
         "this version of the program reads 1"},
        {"job", NULL, "the control document is not valid: /job: is missing"},
        {"job", "''", "the control document is not valid: /job: must be a text of 1 to 16 bytes"},
        {"job", "'0123456789abcdef0'",
         "the control document is not valid: /job: must be a text of 1 to 16 bytes"},
        {"attempt", "-1",
         "the control document is not valid: /attempt: must be a whole number, 0 to 1073741824"},
        {"attempt", "1.5",
         "the control document is not valid: /attempt: must be a whole number, 0 to 1073741824"},
        {"rank", NULL, "the control document is not valid: /rank: is missing"},
        {"rank", "65536",
         "the control document is not valid: /rank: must be a whole number, 0 to 65535"},
    };
    struct control c = some_control();
    struct err e = {0};
    json_t *array = json_array();
    (void)state;
    EACH_SAYS(control_json(&c), wrongs, read_control);
    assert_int_equal(read_control(array, &e), -ERR_DATA);
    assert_string_equal(e.message, "the control document is not valid: must be an object");
    assert_int_equal(read_control(NULL, &e), -ERR_DATA);
    json_decref(array);
}

static void everything_that_is_wrong_is_said_at_once(void **state)
{
    struct control c = some_control();
    struct err e = {0};
    json_t *j = control_json(&c);
    (void)state;
    json_object_del(j, "version");
    json_object_set_new(j, "stop", json_integer(1));
    assert_int_equal(read_control(j, &e), -ERR_DATA);
    assert_string_equal(
        e.message,
        "the control document is not valid: /version: is missing; /stop: must be true or false");
    json_decref(j);
}

static void a_key_that_a_newer_version_adds_is_left_alone(void **state)
{
    struct control c = some_control();
    struct err e = {0};
    json_t *j = control_json(&c);
    (void)state;
    json_object_set_new(j, "later", json_true());
    assert_read(read_control(j, &e), &e);
    json_decref(j);
}

/* ---- control --------------------------------------------------------------------------------- */

static void control_is_read_as_it_was_written(void **state)
{
    struct control c = some_control(), got;
    struct err e = {0};
    json_t *j = sent(control_json(&c));
    (void)state;
    assert_read(control_read(&got, j, &e), &e);
    assert_memory_equal(got.sizes, c.sizes, sizeof c.sizes);
    assert_true(got.version == 7 && got.workers == 2);
    assert_true(got.pause && !got.stop && !got.checkpoint);
    assert_same(control_json(&got), j);
    c.version = INT32_MAX; /* the largest value */
    c.doors = json_pack("[s, s]", "10.0.0.3:41234", "");
    j = sent(control_json(&c));
    json_t *doors = control_doors(j);
    assert_true(json_equal(doors, c.doors));
    json_decref(doors);
    json_decref(c.doors);
    assert_read(control_read(&got, j, &e), &e);
    assert_int_equal(got.version, INT32_MAX);
    json_decref(j);
}

static void what_is_wrong_with_control_is_said(void **state)
{
    static const struct wrong wrongs[] = {
        {"version", "'7'",
         "the control document is not valid: /version: must be a whole number, 0 to 2147483647"},
        {"sizes", "{}",
         "the control document is not valid: /sizes: must be an array of 0 to 1024 elements"},
        {"sizes/1", "-4",
         "the control document is not valid: /sizes: must hold whole numbers of 0 and more"},
        {"sizes/1", "'x'",
         "the control document is not valid: /sizes: must hold whole numbers of 0 and more"},
        {"pause", "0", "the control document is not valid: /pause: must be true or false"},
        {"checkpoint", NULL, "the control document is not valid: /checkpoint: is missing"},
        {"silent/0", "-1",
         "the control document is not valid: /silent: must hold whole numbers of 0 and more"},
        {"doors", "{}",
         "the control document is not valid: /doors: must be an array of 0 to 1025 elements"},
        {"doors", "[4]",
         "the control document is not valid: /doors: must be texts of at most 63 bytes"},
    };
    struct control c = some_control();
    (void)state;
    EACH_SAYS(control_json(&c), wrongs, read_control);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static struct plan *some_plan(void)
{
    struct plan *p = calloc(1, sizeof *p);
    p->from = from_coordinator;
    p->spec = json_pack("{s:s}", "name", "test");
    p->workers = calloc(2, sizeof *p->workers);
    p->n_workers = 2;
    p->servers = 1;
    p->workers[0] = (struct plan_worker){
        .node = "n1", .host = "here", .device = "cpu:2", .slowdown = 1, .threads = 2};
    p->workers[1] = (struct plan_worker){.node = "n2",
                                         .host = "there",
                                         .device = "cuda:0",
                                         .slowdown = 2.5,
                                         .threads = 1,
                                         .agent = true,
                                         .address = "10.0.0.2",
                                         .tuning = json_pack("{s:i}", "choice", 3)};
    snprintf(p->job_dir, sizeof p->job_dir, "/data/jobs/0123456789abcdef");
    snprintf(p->roots, sizeof p->roots, "/data/a:/data/b");
    snprintf(p->init_path, sizeof p->init_path, "/data/a/model.safetensors");
    p->first_version = 5;
    p->first_sizes[0] = 48;
    p->first_sizes[1] = 16;
    p->speeds[0] = 1.5;
    p->speeds[1] = 0.5;
    return p;
}

static void drop_plan(struct plan *p)
{
    plan_release(p);
    free(p);
}

static json_t *some_plan_json(void)
{
    struct plan *p = some_plan();
    json_t *j = plan_json(p);
    drop_plan(p);
    return j;
}

static int read_plan(const json_t *j, struct err *e)
{
    struct plan p;
    int rc = plan_read(&p, j, e);
    plan_release(&p);
    return rc;
}

static void a_plan_is_read_as_it_was_written(void **state)
{
    struct plan *p = some_plan(), got;
    struct err e = {0};
    json_t *j = sent(plan_json(p));
    (void)state;
    assert_read(plan_read(&got, j, &e), &e);
    assert_sender(&got.from, &from_coordinator);
    assert_int_equal(got.n_workers, 2);
    assert_string_equal(got.workers[1].host, "there");
    assert_string_equal(got.workers[1].address, "10.0.0.2");
    assert_true(got.workers[1].agent && !got.workers[0].agent && !got.workers[0].tuning);
    assert_string_equal(got.roots, p->roots);
    assert_string_equal(got.init_path, p->init_path);
    assert_memory_equal(got.first_sizes, p->first_sizes, sizeof p->first_sizes);
    assert_memory_equal(got.speeds, p->speeds, sizeof p->speeds);
    assert_same(plan_json(&got), j);
    plan_release(&got);
    drop_plan(p);
}

/* In lockstep the devices matter too: a step in a GPU's memory cannot be undone. */
static void a_plan_tells_whether_a_lost_worker_ends_it(void **state)
{
    struct plan *p = some_plan();
    struct jobspec spec = {.strategy = {.type = CAT_STRATEGY_SYNC, .servers = 1}};
    (void)state;
    assert_false(plan_outlives_worker(p, &spec));
    snprintf(p->workers[1].device, sizeof p->workers[1].device, "cpu:4");
    assert_true(plan_outlives_worker(p, &spec));
    spec.strategy.type = CAT_STRATEGY_LOCAL_SGD;
    assert_true(plan_outlives_worker(p, &spec));
    spec.strategy.type = CAT_STRATEGY_HIER_SGD;
    assert_true(plan_outlives_worker(p, &spec));
    spec.program.given = true;
    assert_true(plan_outlives_worker(p, &spec));
    spec.strategy.type = CAT_STRATEGY_HPSGD;
    assert_true(plan_outlives_worker(p, &spec));
    assert_false(plan_takes_back(p, &spec)); /* a program under local-sgd can be restarted */
    spec.program.given = false;
    snprintf(spec.allreduce, sizeof spec.allreduce, "mpi");
    assert_false(plan_outlives_worker(p, &spec));
    spec.strategy.type = CAT_STRATEGY_SYNC;
    assert_false(plan_outlives_worker(p, &spec));
    spec.strategy.type = CAT_STRATEGY_ASGD;
    assert_true(plan_outlives_worker(p, &spec));
    snprintf(p->workers[0].device, sizeof p->workers[0].device, "cuda:0");
    assert_true(plan_outlives_worker(p, &spec));
    spec.program.given = true;
    assert_true(plan_outlives_worker(p, &spec));
    spec.strategy.servers = 2;
    assert_false(plan_outlives_worker(p, &spec));
    spec.strategy.servers = 1;
    spec.program.given = false;
    p->n_workers = 1;
    assert_false(plan_outlives_worker(p, &spec));
    p->n_workers = 2;
    drop_plan(p);
}

static void a_virtual_plan_has_no_workers(void **state)
{
    struct plan p = {.from = from_coordinator, .spec = json_object(), .job_dir = "/data/jobs/x"};
    struct plan got;
    struct err e = {0};
    json_t *j = sent(plan_json(&p));
    (void)state;
    assert_read(plan_read(&got, j, &e), &e);
    assert_true(got.n_workers == 0 && got.servers == 0 && !got.init_path[0] && !got.roots[0]);
    assert_same(plan_json(&got), j);
    plan_release(&got);
    plan_release(&p);
}

static void what_is_wrong_with_a_plan_is_said(void **state)
{
    static const struct wrong wrongs[] = {
        {"spec", "[]", "the plan is not valid: /spec: must be an object"},
        {"workers", "3", "the plan is not valid: /workers: must be an array of 0 to 1024 elements"},
        {"workers/0", "'n1'", "the plan is not valid: /workers/0: must be an object"},
        {"workers/1/node", NULL, "the plan is not valid: /workers/1/node: is missing"},
        {"workers/1/device", "7",
         "the plan is not valid: /workers/1/device: must be a text of 1 to 63 bytes"},
        {"workers/0/slowdown", "0.5",
         "the plan is not valid: /workers/0/slowdown: must be a number, 1 to 1e+06"},
        {"workers/0/threads", "'two'",
         "the plan is not valid: /workers/0/threads: must be a whole number, 0 to 2147483647"},
        {"workers/1/agent", "1", "the plan is not valid: /workers/1/agent: must be true or false"},
        {"workers/1/tuning", "[]", "the plan is not valid: /workers/1/tuning: must be an object"},
        {"servers", "0", "the plan is not valid: /servers: must be a whole number, 1 to 1024"},
        {"job_dir", "''", "the plan is not valid: /job_dir: must be a text of 1 to 4095 bytes"},
        {"data_roots", "'/data'",
         "the plan is not valid: /data_roots: must be an array of 0 to 4096 elements"},
        {"data_roots/0", "5",
         "the plan is not valid: /data_roots: must be folders of 4095 bytes in all"},
        {"init_path", "5", "the plan is not valid: /init_path: must be a text of 1 to 4095 bytes"},
        {"first", "[]", "the plan is not valid: /first: must be an object"},
        {"first/sizes", "[64]",
         "the plan is not valid: /first/sizes: are 1 minibatches for 2 workers"},
        {"first/version", NULL, "the plan is not valid: /first/version: is missing"},
        {"speeds", "[1]", "the plan is not valid: /speeds: are 1 for 2 workers"},
    };
    (void)state;
    EACH_SAYS(some_plan_json(), wrongs, read_plan);
}

/* ---- the record of a launch ------------------------------------------------------------------ */

static int read_launched(const json_t *j, struct err *e)
{
    struct launched l;
    return launched_read(&l, j, e);
}

static void a_launch_is_read_as_it_was_recorded(void **state)
{
    static const struct wrong wrongs[] = {
        {"pid", "-1",
         "the record of a launch is not valid: /pid: must be a whole number, 0 to 2147483647"},
        {"start_ticks", NULL, "the record of a launch is not valid: /start_ticks: is missing"},
        {"launcher", "'a name that is too long'",
         "the record of a launch is not valid: /launcher: must be a text of 1 to 15 bytes"},
    };
    struct launched l = {
        .from = from_coordinator, .pid = 4711, .start_ticks = 123456789012, .launcher = "mpirun"};
    struct launched got;
    struct err e = {0};
    json_t *j = sent(launched_json(&l));
    (void)state;
    assert_read(launched_read(&got, j, &e), &e);
    assert_sender(&got.from, &from_coordinator);
    assert_true(got.pid == 4711 && got.start_ticks == 123456789012);
    assert_same(launched_json(&got), json_incref(j));
    EACH_SAYS(j, wrongs, read_launched);
}

/* ---- the bookmark ---------------------------------------------------------------------------- */

static int read_bookmark(const json_t *j, struct err *e)
{
    struct bookmark b;
    int rc = bookmark_read(&b, 2, j, e);
    bookmark_release(&b);
    return rc;
}

static void a_bookmark_is_read_as_it_was_written(void **state)
{
    static const struct wrong wrongs[] = {
        {"facts", NULL, "the monitor's bookmark is not valid: /facts: is missing"},
        {"rows", "[]", "the monitor's bookmark is not valid: /rows: must be an object"},
        {"rows/1", "17",
         "the monitor's bookmark is not valid: /rows/1: must be a text of 1 to 31 bytes"},
        {"gate_open", "1",
         "the monitor's bookmark is not valid: /gate_open: must be true or false"},
        {"log_offset", "-1",
         "the monitor's bookmark is not valid: /log_offset: must be a whole number, 0 to "
         "9223372036854775807"},
        {"outcome", "[]", "the monitor's bookmark is not valid: /outcome: must be an object"},
        {"outcome/outcome", "'lost'",
         "the monitor's bookmark is not valid: /outcome/outcome: 'lost' is unknown"},
        {"left", "{}",
         "the monitor's bookmark is not valid: /left: must be an array of 0 to 4096 elements"},
        {"left/0/step", NULL, "the monitor's bookmark is not valid: /left/0/step: is missing"},
        {"program/tensors", "0",
         "the monitor's bookmark is not valid: /program/tensors: must be a whole number, 1 to "
         "2147483647"},
    };
    struct bookmark b, got;
    struct err e = {0};
    (void)state;
    bookmark_init(&b, 2);
    b.from = from_coordinator;
    snprintf(b.facts, sizeof b.facts, "17-1");
    snprintf(b.rows[1], sizeof b.rows[1], "18-0");
    b.steps[1] = 120;
    b.gone[0] = 2;
    b.gate_open = true;
    b.log_offset = 4096;
    b.has_ended = true;
    b.ended = (struct ended){.outcome = OUTCOME_FAILED,
                             .code = ERR_DATA,
                             .message = "too short",
                             .rank = 1,
                             .node = "n2"};
    b.program = (struct joined){"", "SGD", 10, 2, 100, 20, 3};
    b.left = calloc(1, sizeof *b.left);
    b.left[b.n_left++] = (struct departure){.who = 1, .step = 412, .others = 3, .pushes = 2};
    staleness_add(&b.left->staleness, 2, 32);
    json_t *j = sent(bookmark_json(&b));
    assert_read(bookmark_read(&got, 2, j, &e), &e);
    assert_sender(&got.from, &from_coordinator);
    assert_string_equal(got.rows[0], "0-0");
    assert_string_equal(got.rows[1], "18-0");
    assert_true(got.steps[0] == -1 && got.steps[1] == 120);
    assert_true(got.gone[0] == 2 && got.gone[1] == 0);
    assert_string_equal(got.ended.message, "too short");
    assert_int_equal(got.program.global_batch, 20);
    assert_true(got.n_left == 1 && got.left[0].who == 1 && got.left[0].staleness.samples == 32);
    assert_same(bookmark_json(&got), json_incref(j));
    bookmark_release(&got);
    bookmark_release(&b);
    EACH_SAYS(j, wrongs, read_bookmark);
}

static void a_bookmark_of_fewer_ranks_leaves_the_others_at_their_beginning(void **state)
{
    struct bookmark b, got;
    struct err e = {0};
    (void)state;
    bookmark_init(&b, 1);
    b.from = from_coordinator;
    snprintf(b.rows[0], sizeof b.rows[0], "18-0");
    json_t *j = sent(bookmark_json(&b));
    assert_read(bookmark_read(&got, 3, j, &e), &e);
    assert_string_equal(got.rows[0], "18-0");
    assert_string_equal(got.rows[2], "0-0");
    assert_false(got.has_ended);
    bookmark_release(&got);
    bookmark_release(&b);
    json_decref(j);
}

/* ---- what is kept of a node ------------------------------------------------------------------ */

static int read_measured(const json_t *j, struct err *e)
{
    struct measured m;
    int rc = measured_read(&m, j, e);
    measured_release(&m);
    return rc;
}

static void what_is_kept_of_a_node_is_read_as_it_was_written(void **state)
{
    static const struct wrong wrongs[] = {
        {"format", "9",
         "the profile of a node is not valid: /format: is 9, and this version of the program "
         "reads 1"},
        {"device", NULL, "the profile of a node is not valid: /device: is missing"},
        {"slowdown", "'2'",
         "the profile of a node is not valid: /slowdown: must be a number, 0 to 1e+06"},
        {"a", "'x'", "the profile of a node is not valid: has a malformed profile"},
        {"tuning", "1", "the profile of a node is not valid: /tuning: must be an object"},
        {"exchange", "1", "the profile of a node is not valid: /exchange: must be an object"},
    };
    struct measured m = {.device = "cpu:2",
                         .slowdown = 2,
                         .exchange = {"asgd", 3, 0.25},
                         .tuning = json_pack("{s:i}", "c", 1)};
    struct measured got;
    struct err e = {0};
    (void)state;
    for (int i = 0; i < 20; i++) {
        profile_observe(&m.profile, 8 + i % 4 * 8, 0.001 + 0.002 * (8 + i % 4 * 8));
    }
    json_t *j = sent(measured_json(&m));
    assert_read(measured_read(&got, j, &e), &e);
    assert_true(got.profile.count == 20 && got.slowdown == 2);
    assert_string_equal(got.device, "cpu:2");
    assert_string_equal(got.exchange.strategy, "asgd");
    assert_true(got.exchange.workers == 3 && got.exchange.seconds == 0.25);
    measured_release(&got);
    json_object_del(j, "format"); /* an earlier version kept it */
    assert_read(read_measured(j, &e), &e);
    json_decref(j);
    EACH_SAYS(measured_json(&m), wrongs, read_measured);
    measured_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_says_who_wrote_it_and_of_which_attempt),
        cmocka_unit_test(what_is_wrong_with_an_envelope_is_said),
        cmocka_unit_test(everything_that_is_wrong_is_said_at_once),
        cmocka_unit_test(a_key_that_a_newer_version_adds_is_left_alone),
        cmocka_unit_test(control_is_read_as_it_was_written),
        cmocka_unit_test(what_is_wrong_with_control_is_said),
        cmocka_unit_test(a_plan_is_read_as_it_was_written),
        cmocka_unit_test(a_plan_tells_whether_a_lost_worker_ends_it),
        cmocka_unit_test(a_virtual_plan_has_no_workers),
        cmocka_unit_test(what_is_wrong_with_a_plan_is_said),
        cmocka_unit_test(a_launch_is_read_as_it_was_recorded),
        cmocka_unit_test(a_bookmark_is_read_as_it_was_written),
        cmocka_unit_test(a_bookmark_of_fewer_ranks_leaves_the_others_at_their_beginning),
        cmocka_unit_test(what_is_kept_of_a_node_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests_name("documents", tests, NULL, NULL);
}
