/* A user's program as its rank sees it: the description, the block, the process. */
#include "tests/unit/worker/fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "worker/program/child/block.h"
#include "worker/program/child/child.h"
#include "worker/program/child/describe.h"
#include "worker/program/engine_parts.h"

static const char good[] =
    "{\"framework\": \"torch\", \"samples\": 1000, \"global_batch\": 64, \"ahead\": 500, "
    "\"epochs\": null,"
    " \"optimizer\": {\"type\": \"sgd\", \"name\": \"SGD\", \"learning_rate\": 0.1, "
    "\"momentum\": 0.9,"
    "  \"nesterov\": false, \"weight_decay\": 0.01},"
    " \"parameters\": [{\"name\": \"a.weight\", \"shape\": [3, 4], \"decay\": true},"
    "                  {\"name\": \"a.bias\", \"shape\": [3], \"decay\": false}],"
    " \"statistics\": [{\"name\": \"n.mean\", \"shape\": [3], \"mean_of\": -1},"
    "                  {\"name\": \"n.var\", \"shape\": [3], \"mean_of\": 0}]}";

/* The description with its first `from` replaced; the caller frees. */
static char *changed(const char *from, const char *to)
{
    const char *at = strstr(good, from);
    char *out = malloc(sizeof(good) + strlen(to));
    assert_non_null(at);
    snprintf(out, sizeof(good) + strlen(to), "%.*s%s%s", (int)(at - good), good, to,
             at + strlen(from));
    return out;
}

static void refuses(const char *from, const char *to, const char *part)
{
    struct description d;
    char *text = changed(from, to);
    FAILS(description_read(&d, text, strlen(text), &err_), err_.code, part);
    free(text);
}

static void a_description_becomes_a_network_of_tensors(void **state)
{
    struct description d;
    OK(description_read(&d, good, strlen(good), &err_));
    assert_int_equal(d.samples, 1000);
    assert_int_equal(d.ahead, AHEAD_MOST);
    assert_true(d.plain && d.shuffle && !d.sums && d.epochs == 0);
    assert_int_equal(d.net.n_params, 15);
    assert_int_equal(d.net.n_layers, 0);
    assert_string_equal(d.net.tensors[1].name, "a.bias");
    assert_true(d.net.tensors[1].first == 12 && !d.net.tensors[1].decay);
    assert_true(d.net.stats[0].mean == 0 && d.net.stats[1].mean == 1);
    description_release(&d);
}

static void every_mistake_of_a_description_is_named(void **state)
{
    refuses("\"shape\": [3, 4]", "\"shape\": [3, 0]", "dimension 1 of tensor 'a.weight'");
    refuses("\"shape\": [3, 4]", "\"shape\": [4294967296, 4294967296]", "tensor 'a.weight'");
    refuses("\"shape\": [3, 4]", "\"shape\": 12", "no shape");
    refuses("a.bias", "a.weight", "two tensors are named 'a.weight'");
    refuses("\"name\": \"a.bias\"", "\"name\": \"\"", "tensor 1 needs a name");
    refuses("\"mean_of\": 0", "\"mean_of\": 1", "'n.var' cannot be the variance");
    refuses("\"mean_of\": 0", "\"mean_of\": 7", "'mean_of' must be a whole number");
    refuses("\"samples\": 1000", "\"samples\": null", "stream");
    refuses("\"samples\": 1000", "\"samples\": -1", "'samples'");
    refuses("\"global_batch\": 64", "\"global_batch\": 1e3", "'global_batch'");
    refuses("\"framework\"", "framework", "cannot be used");
}

static void differs(const char *from, const char *to, const char *part)
{
    struct description first, mine;
    char *text = changed(from, to);
    OK(description_read(&first, good, strlen(good), &err_));
    OK(description_read(&mine, text, strlen(text), &err_));
    FAILS(description_compare(&mine, &first, 3, &err_), ERR_PEER, part);
    OK(description_compare(&first, &first, 3, &err_));
    description_release(&first);
    description_release(&mine);
    free(text);
}

static void programs_that_differ_are_told_by_rank_and_tensor(void **state)
{
    differs("a.bias", "b.bias", "tensor 1 is 'b.bias' in rank 3 and 'a.bias' in rank 0");
    differs("\"shape\": [3], \"decay\"", "\"shape\": [5], \"decay\"",
            "'a.bias' has 5 floats in rank 3");
    differs("\"samples\": 1000", "\"samples\": 999", "999 training samples and rank 0 1000");
    differs("\"samples\": 1000", "\"samples\": 1000, \"drop_last\": true", "training samples");
    differs("\"global_batch\": 64", "\"global_batch\": 32", "batch of 32");
    differs("0.1", "0.2", "optimizer");
}

/* Dimensions beyond our tensors' rank are folded into the last dimension. */
static void a_shape_of_any_rank_keeps_all_its_floats(void **state)
{
    struct description d;
    char *text = changed("[3, 4]", "[2, 3, 4, 5, 6]");
    OK(description_read(&d, text, strlen(text), &err_));
    const struct tensor *t = &d.net.tensors[0];
    assert_true(t->count == 720 && t->rank == NET_RANK && t->dim[NET_RANK - 1] == 30);
    assert_int_equal(d.net.tensors[1].first, 720);
    description_release(&d);
    free(text);
    text = changed("[3, 4]", "[]");
    OK(description_read(&d, text, strlen(text), &err_));
    t = &d.net.tensors[0];
    assert_true(t->count == 1 && t->rank == 1 && t->dim[0] == 1);
    description_release(&d);
    free(text);
}

/* Puts `text` into a spec of this strategy and batch. */
static int apply(const char *text, const char *strategy, int batch, struct jobspec *spec)
{
    struct description d;
    const struct catalog_entry *entry = catalog_find(CATALOG_STRATEGY, strategy);
    OK(description_read(&d, text, strlen(text), &err_));
    *spec = (struct jobspec){.workers = 2,
                             .epochs = 3,
                             .strategy.type = entry->id,
                             .batching = {.global_batch = batch, .min_batch = 1}};
    err_clear(&err_);
    int rc = description_apply(&d, spec, strategy_find(entry->id), &err_);
    description_release(&d);
    return rc;
}

static void what_a_program_brings_becomes_part_of_the_spec(void **state)
{
    struct jobspec spec;
    OK(apply(good, "asgd", 0, &spec));
    assert_true(spec.batching.global_batch == 64 && spec.epochs == 3);
    assert_true(spec.network.n_params == 15 && spec.data.shuffle);
    assert_true(spec.optimizer.learning_rate == 0.1 && spec.optimizer.momentum == 0.9);
    assert_true(spec.optimizer.epochs == 3);
    network_release(&spec.network);
    char *text = changed("\"epochs\": null", "\"epochs\": 5");
    OK(apply(text, "hpsgd", 64, &spec)); /* it has no momentum, so differences are sent */
    assert_true(spec.epochs == 5 && spec.optimizer.epochs == 5);
    assert_true(spec.optimizer.learning_rate == 1 && spec.optimizer.momentum == 0 &&
                spec.optimizer.weight_decay == 0);
    network_release(&spec.network);
    free(text);
}

static void what_the_spec_or_the_strategy_cannot_take_is_refused(void **state)
{
    struct jobspec spec;
    FAILS(apply(good, "sync", 32, &spec), ERR_INVALID, "a global batch of 32");
    FAILS(apply(good, "dc-asgdk", 64, &spec), ERR_INVALID, "a momentum of its own");
    char *text = changed("\"type\": \"sgd\"", "\"type\": \"other\"");
    FAILS(apply(text, "dc-asgd", 64, &spec), ERR_INVALID, "compensates gradients");
    free(text);
    text = changed("\"global_batch\": 64", "\"global_batch\": 1");
    FAILS(apply(text, "sync", 0, &spec), ERR_INVALID, "2 workers");
    free(text);
}

static struct network three_tensors(size_t a, size_t b, size_t c)
{
    static struct tensor tensors[3];
    size_t counts[] = {a, b, c}, first = 0;
    for (int i = 0; i < 3; i++) {
        tensors[i] = (struct tensor){.first = first, .count = counts[i]};
        first += counts[i];
    }
    return (struct network){
        .tensors = tensors, .n_tensors = 3, .n_params = first, .n_stat_floats = 5};
}

static void the_block_is_sealed_and_its_parts_do_not_overlap(void **state)
{
    struct network net = three_tensors(1000, 100, 10);
    struct block b;
    OK(block_init(&b, &net, 4096, 3, 64, false, &err_));
    assert_int_equal(fcntl(b.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    assert_true(ftruncate(b.fd, 10) < 0);
    uint8_t *ends[] = {(uint8_t *)(b.params + 1110), (uint8_t *)(b.grads + 1110),
                       (uint8_t *)(b.stats + 5), (uint8_t *)(b.wire + b.n_buckets),
                       (uint8_t *)(b.indices + 3 * 64)};
    uint8_t *begins[] = {(uint8_t *)b.grads, (uint8_t *)b.stats, (uint8_t *)b.wire,
                         (uint8_t *)b.indices, b.at + b.bytes};
    for (int i = 0; i < 5; i++) {
        assert_true(ends[i] <= begins[i]);
    }
    block_release(&b);
    assert_int_equal(b.fd, -1);
}

static void buckets_begin_with_the_last_tensors_and_hold_every_float_once(void **state)
{
    const size_t least[] = {1, 400, 4096, 1 << 20}; /* bytes */
    const int buckets[] = {3, 3, 2, 1};             /* the middle tensor has 400 bytes */
    struct network net = three_tensors(1000, 100, 2000);
    for (size_t k = 0; k < sizeof(least) / sizeof(least[0]); k++) {
        struct block b;
        size_t end = net.n_params;
        OK(block_init(&b, &net, least[k], 2, 8, false, &err_));
        for (int i = 0; i < b.n_buckets; i++) {
            assert_int_equal(b.buckets[i].first + b.buckets[i].count, end);
            assert_true(b.wire[i].first == (int64_t)b.buckets[i].first);
            end = b.buckets[i].first;
        }
        assert_int_equal(end, 0);
        assert_int_equal(b.n_buckets, buckets[k]);
        assert_true(b.buckets[b.n_buckets - 1].work_done == 1);
        block_release(&b);
    }
}

static struct child_ask ask_of(struct program_spec *p, const char *script)
{
    static json_t *command;
    json_decref(command);
    command = json_pack("[s, s, s]", "/bin/sh", "-c", script);
    *p = (struct program_spec){.given = true, .command = command};
    return (struct child_ask){.program = p,
                              .socket = "none",
                              .job = "j",
                              .output = "/tmp",
                              .library = "none",
                              .workers = 1,
                              .threads = 1};
}

static void await_end(struct child *c)
{
    for (double until = clock_now() + 60; !child_ended(c);) {
        assert_true(clock_now() < until);
        usleep(1000);
    }
}

/* What the program of a node with this device sees, if this process sees `seen`. */
static void sees(const char *device, const char *seen, const char *want)
{
    struct program_spec p;
    struct child_ask ask = ask_of(&p, "echo gpus ${CUDA_VISIBLE_DEVICES-any}");
    struct child c;
    char text[400];
    ask.device = device;
    if (seen) {
        setenv("CUDA_VISIBLE_DEVICES", seen, 1);
    } else {
        unsetenv("CUDA_VISIBLE_DEVICES");
    }
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    child_epitaph(&c, text, sizeof(text));
    child_stop(&c, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    const char *line = strstr(text, "gpus ");
    assert_non_null(line);
    assert_string_equal(line, want);
}

static void a_program_sees_the_gpu_of_its_node_alone(void **state)
{
    sees("cuda:1", NULL, "gpus 1");
    sees("cuda:1", "5,7,8", "gpus 7");
    sees("cuda:0", "GPU-4f1c", "gpus GPU-4f1c");
    sees("cuda:2", "3", "gpus 2"); /* the node was offered by another count */
    sees("cpu:2", NULL, "gpus any");
    sees("cpu:2", "3", "gpus 3");
}

/* By it the rank estimates whether the program has begun, and lets it make its step without asking.
 * A rank that was late for one step once looked too early in the next fifty. */
static void a_late_look_at_a_step_that_was_made_makes_no_step_short(void **state)
{
    assert_true(first_usual(1, 0.02, true) == 1);
    assert_true(first_usual(1, 0.02, false) == 0.5);
    assert_true(first_usual(1, 0.75, false) == 0.75);
    assert_true(first_usual(1, 2, true) == 1.1);
    assert_true(first_usual(1, 2, false) == 1.1);
}

static void our_folders_come_before_those_of_the_job(void **state)
{
    struct program_spec p;
    struct child_ask ask = ask_of(&p, "echo paths $PYTHONPATH $LD_LIBRARY_PATH");
    struct child c;
    char text[400];
    json_t *env = json_pack("{s:s}", "PYTHONPATH", "its:own");
    p.env = env;
    ask.python_path = "/ours";
    ask.library_folder = "/lib-of-ours";
    setenv("PYTHONPATH", "/the-agents", 1);
    unsetenv("LD_LIBRARY_PATH");
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    assert_non_null(strstr(child_epitaph(&c, text, sizeof(text)), "paths /ours:its:own /lib-of-"));
    child_stop(&c, 1);
    unsetenv("PYTHONPATH");
    json_decref(env);
}

static void how_a_program_ended_is_said_with_its_last_lines(void **state)
{
    struct program_spec p;
    struct child_ask ask = ask_of(&p, "echo one; echo two >&2; exit 5");
    struct child c;
    char text[400];
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    assert_string_equal(child_epitaph(&c, text, sizeof(text)),
                        "ended with exit code 5; its last lines: one | two");
    child_stop(&c, 1);
    ask = ask_of(&p, "printf 'Traceback (most recent call last):\\nKeyError: 1\\n'; exit 1");
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    assert_string_equal(child_epitaph(&c, text, sizeof(text)),
                        "ended with exit code 1: KeyError: 1");
    child_stop(&c, 1);
    ask = ask_of(&p, "kill -9 $$");
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    assert_non_null(strstr(child_epitaph(&c, text, sizeof(text)), "signal 9 (Killed)"));
    assert_string_equal(c.end.signal, "SIGKILL");
    child_stop(&c, 1);
    ask = ask_of(&p, "printf 'Fatal Python error: Aborted\nExtension modules: a\n'; kill -6 $$");
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    assert_string_equal(child_epitaph(&c, text, sizeof(text)),
                        "was ended by signal 6 (Aborted): Fatal Python error: Aborted");
    assert_string_equal(c.end.exception, "Fatal Python error: Aborted");
    assert_true(c.end.exit_code < 0 && strcmp(c.end.signal, "SIGABRT") == 0);
    child_stop(&c, 1);
}

/* The lines in the log of 20,000, plus the lines that it reports as left out, are all lines. */
static void of_a_flood_of_output_the_log_has_a_part_and_how_many_are_missing(void **state)
{
    struct program_spec p;
    struct child_ask ask = ask_of(&p, "seq 20000");
    struct child c;
    char line[1000], text[400];
    int there = 0, missing = 0, was = dup(STDERR_FILENO);
    FILE *log = tmpfile();
    assert_non_null(log);
    dup2(fileno(log), STDERR_FILENO);
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    child_epitaph(&c, text, sizeof(text));
    child_stop(&c, 1);
    dup2(was, STDERR_FILENO);
    close(was);
    rewind(log);
    while (fgets(line, sizeof(line), log)) {
        const char *left = strstr(line, "evenstep: ");
        missing += left ? (int)strtol(left + strlen("evenstep: "), NULL, 10) : 0;
        there += !left && strstr(line, "msg=\"says\"");
    }
    fclose(log);
    assert_int_equal(there + missing, 20000);
    assert_true(there >= CHILD_LINES_MOST && missing > 0);
    assert_non_null(strstr(text, "19999 | 20000"));
}

static void an_exit_and_a_fault_are_the_programs_own_doing_and_a_kill_is_not(void **state)
{
    static const struct {
        const char *script;
        bool itself;
    } cases[] = {{"exit 0", true},         {"exit 2", true},   {"kill -SEGV $$", true},
                 {"kill -ABRT $$", true},  {"exit 139", true}, {"kill -KILL $$", false},
                 {"kill -TERM $$", false}, {"exit 137", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct program_spec p;
        struct child_ask ask = ask_of(&p, cases[i].script);
        struct child c;
        OK(child_start(&c, &ask, &err_));
        await_end(&c);
        if (child_ended_itself(&c) != cases[i].itself) {
            fail_msg("%s", cases[i].script);
        }
        child_stop(&c, 1);
    }
}

/* How a program ended that printed `count` lines of `bytes` bytes each. */
static void prints(int count, int bytes, char *text, size_t room)
{
    struct program_spec p;
    char script[200];
    snprintf(script, sizeof script, "for i in $(seq %d); do printf '%%0%dd\\n' $i; done", count,
             bytes);
    struct child_ask ask = ask_of(&p, script);
    struct child c;
    OK(child_start(&c, &ask, &err_));
    await_end(&c);
    child_last_lines(&c, text, room);
    child_stop(&c, 1);
}

static void only_the_last_lines_that_fit_are_told(void **state)
{
    char text[100];
    prints(3, 1, text, sizeof text);
    assert_string_equal(text, "its last lines: 1 | 2 | 3");
    prints(CHILD_LINES + 2, 2, text, sizeof text); /* so many are kept */
    assert_string_equal(text, "its last lines: 03 | 04 | 05 | 06 | 07 | 08 | 09 | 10");
    prints(4, 27, text, sizeof text); /* a line and what stands before it have half of the room */
    assert_string_equal(text,
                        "its last lines: 000000000000000000000000003 | "
                        "000000000000000000000000004");
    prints(4, 28, text, sizeof text);
    assert_string_equal(text, "its last lines: 0000000000000000000000000004");
    prints(2, 120, text, sizeof text); /* the last one always, as far as it goes */
    assert_int_equal(strlen(text), sizeof text - 1);
    prints(0, 1, text, sizeof text);
    assert_string_equal(text, "");
}

static pid_t await_pid(struct child *c)
{
    long pid = 0;
    while (pid == 0) {
        usleep(1000);
        pthread_mutex_lock(&c->lock);
        pid = c->n_lines > 0 ? strtol(c->lines[0], NULL, 10) : 0;
        pthread_mutex_unlock(&c->lock);
    }
    return (pid_t)pid;
}

static void await_gone(pid_t pid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (double until = clock_now() + 60; clock_now() < until; usleep(1000)) {
        FILE *f = fopen(path, "r");
        char *got = f ? fgets(line, sizeof(line), f) : NULL;
        if (f) {
            fclose(f);
        }
        if (!got || strstr(line, ") Z ")) { /* gone, or a zombie that somebody else has to reap */
            return;
        }
    }
    fail_msg("the program's child is still there: %s", line);
}

static void what_a_program_left_behind_ends_with_its_rank(void **state)
{
    struct program_spec p;
    struct child_ask ask = ask_of(&p, "sleep 1000 & echo $!");
    struct child c;
    OK(child_start(&c, &ask, &err_));
    pid_t left = await_pid(&c);
    await_end(&c);
    assert_int_equal(kill(left, 0), 0);
    child_stop(&c, 1);
    await_gone(left);
}

static void what_a_program_started_ends_with_it(void **state)
{
    struct program_spec p;
    struct child_ask ask = ask_of(&p, "sleep 1000 & echo $!; wait");
    struct child c;
    OK(child_start(&c, &ask, &err_));
    pid_t grandchild = await_pid(&c);
    assert_int_equal(kill(grandchild, 0), 0);
    child_stop(&c, 0.1);
    await_gone(grandchild);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_becomes_a_network_of_tensors),
        cmocka_unit_test(every_mistake_of_a_description_is_named),
        cmocka_unit_test(programs_that_differ_are_told_by_rank_and_tensor),
        cmocka_unit_test(a_shape_of_any_rank_keeps_all_its_floats),
        cmocka_unit_test(what_a_program_brings_becomes_part_of_the_spec),
        cmocka_unit_test(what_the_spec_or_the_strategy_cannot_take_is_refused),
        cmocka_unit_test(the_block_is_sealed_and_its_parts_do_not_overlap),
        cmocka_unit_test(buckets_begin_with_the_last_tensors_and_hold_every_float_once),
        cmocka_unit_test(a_late_look_at_a_step_that_was_made_makes_no_step_short),
        cmocka_unit_test(our_folders_come_before_those_of_the_job),
        cmocka_unit_test(how_a_program_ended_is_said_with_its_last_lines),
        cmocka_unit_test(of_a_flood_of_output_the_log_has_a_part_and_how_many_are_missing),
        cmocka_unit_test(an_exit_and_a_fault_are_the_programs_own_doing_and_a_kill_is_not),
        cmocka_unit_test(only_the_last_lines_that_fit_are_told),
        cmocka_unit_test(a_program_sees_the_gpu_of_its_node_alone),
        cmocka_unit_test(what_a_program_started_ends_with_it),
        cmocka_unit_test(what_a_program_left_behind_ends_with_its_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
