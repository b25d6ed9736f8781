/* What finished jobs keep on disk (coordinator/files/retention.c): which jobs lose files first,
 * which files stay, and what is never removed. */
#include "tests/unit/coordinator/world.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/machine/disk.h"
#include "coordinator/files/datasets.h"
#include "coordinator/files/retention.h"

enum { KB = 1024, HISTORY = 64 * KB, CHECKPOINT = 128 * KB, ARTIFACT = 32 * KB, DATA = 900 * KB };

static void put_file(struct world *w, const char *id, const char *name, size_t bytes)
{
    char path[512], *content = calloc(1, bytes);
    snprintf(path, sizeof path, "%s/jobs/%s/%s", w->place->dir, id, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    OK(proc_mkdirs(path, 0755, &err_));
    *slash = '/';
    memset(content, 'x', bytes);
    OK(proc_write_file(path, content, bytes, 0644, &err_));
    free(content);
}

static bool there(struct world *w, const char *id, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/jobs/%s/%s", w->place->dir, id, name);
    return access(path, F_OK) == 0;
}

static void put_files(struct world *w, const char *id)
{
    put_file(w, id, "history/rows-0.bin", HISTORY);
    put_file(w, id, "checkpoints/step-1.safetensors", CHECKPOINT);
    put_file(w, id, "artifacts/model.safetensors", ARTIFACT);
    put_file(w, id, "logs/rank-0.log", KB);
}

/* A job that succeeded; each one finishes a millisecond after the previous one. */
static void ended_job(struct world *w, char id[STORE_ID])
{
    static int made;
    char finished[32];
    submit(w, "{}", id);
    OK(store_job_transition(w->store, id, JOB_QUEUED, JOB_LAUNCHING, NULL, &err_));
    OK(store_job_transition(w->store, id, JOB_LAUNCHING, JOB_RUNNING, NULL, &err_));
    OK(store_job_transition(w->store, id, JOB_RUNNING, JOB_SUCCEEDED, NULL, &err_));
    OK(store_job_set(w->store, id, "finished", clock_format(finished, 1767323045000 + made++),
                     &err_));
    put_files(w, id);
}

static struct retention *with(struct world *w, int keep_jobs, int64_t max_disk)
{
    struct retention_config c = {.store_url = w->place->url,
                                 .data_dir = w->place->dir,
                                 .keep_jobs = keep_jobs,
                                 .max_disk = max_disk};
    struct retention *r = retention_new(&c, &err_);
    assert_non_null(r);
    return r;
}

static int turn(struct retention *r)
{
    struct err e = {0};
    int n = retention_turn(r, &e);
    if (n < 0) {
        fail_msg("%s", e.message);
    }
    return n;
}

static void assert_pruned(struct world *w, const char *id, bool pruned)
{
    json_t *job = job_of(w, id);
    assert_true(json_is_null(at(job, "/pruned")) == !pruned);
    assert_true(there(w, id, "history") == !pruned && there(w, id, "checkpoints") == !pruned);
    assert_true(there(w, id, "artifacts/model.safetensors") && there(w, id, "logs/rank-0.log"));
    int64_t least = KB + ARTIFACT + (pruned ? 0 : HISTORY + CHECKPOINT),
            bytes = (int64_t)number_at(job, "/disk_bytes");
    assert_in_range(bytes, least, least + 64 * KB); /* folders take some too */
    json_decref(job);
}

static void nothing_goes_unless_asked_for(void **state)
{
    struct world *w = *state;
    char id[STORE_ID];
    ended_job(w, id);
    struct retention *r = with(w, 0, 0);
    assert_int_equal(turn(r), 0);
    assert_pruned(w, id, false);
    retention_free(r);
}

static void what_could_go_is_proposed_with_its_bytes_artifacts_included(void **state)
{
    struct world *w = *state;
    char id[2][STORE_ID];
    ended_job(w, id[0]);
    ended_job(w, id[1]);
    put_file(w, "../datasets/digits", "x.npy", DATA); /* uploaded, no job's */
    struct retention *r = with(w, 0, 1000 * (ARTIFACT + HISTORY + CHECKPOINT));
    assert_int_equal(turn(r), 0);
    json_t *disk = retention_disk(r);
    assert_int_equal(json_array_size(at(disk, "/jobs")), 2);
    assert_string_equal(text_at(disk, "/jobs/0/id"), id[0]);
    assert_in_range(number_at(disk, "/jobs/0/disk_bytes"), ARTIFACT + HISTORY + CHECKPOINT,
                    ARTIFACT + HISTORY + CHECKPOINT + 65 * KB);
    assert_in_range(number_at(disk, "/jobs/0/can_go_bytes"), HISTORY + CHECKPOINT,
                    HISTORY + CHECKPOINT + 64 * KB);
    assert_in_range(number_at(disk, "/can_go_bytes"), 2 * (HISTORY + CHECKPOINT),
                    2 * (HISTORY + CHECKPOINT + 64 * KB));
    assert_in_range(number_at(disk, "/used_bytes"), 2 * (ARTIFACT + HISTORY + CHECKPOINT),
                    2 * (ARTIFACT + HISTORY + CHECKPOINT + 65 * KB));
    assert_in_range(number_at(disk, "/data_bytes"), DATA, DATA + 64 * KB);
    assert_true(number_at(disk, "/max_disk_bytes") > 0 && number_at(disk, "/free_bytes") > 0);
    assert_true(json_is_false(at(disk, "/full")));
    json_t *again = retention_disk(r);
    assert_true(json_equal(at(again, "/jobs"), at(disk, "/jobs")));
    json_decref(again);
    json_decref(disk);
    retention_free(r);
}

/* The measured free space was that of the previous turn. A turn over many jobs takes long, so a
 * full disk was reported late. */
static void what_is_free_is_told_as_it_is_now(void **state)
{
    enum { BIG = 64 << 20, BETWEEN = 16 << 20 /* BETWEEN: what other programs write meanwhile */ };
    struct world *w = *state;
    char path[300];
    struct retention *r = with(w, 0, 0);
    assert_int_equal(turn(r), 0);
    snprintf(path, sizeof path, "%s/big", w->place->dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    int64_t before = disk_free(w->place->dir);
    assert_int_equal(posix_fallocate(fd, 0, BIG), 0);
    json_t *disk = retention_disk(r);
    int64_t told = (int64_t)number_at(disk, "/free_bytes"), now = disk_free(w->place->dir);
    assert_true(before - now > BIG - BETWEEN && llabs(told - now) < BETWEEN);
    json_decref(disk);
    close(fd);
    unlink(path);
    retention_free(r);
}

static void the_jobs_that_finished_last_keep_their_history(void **state)
{
    struct world *w = *state;
    char id[5][STORE_ID];
    for (int i = 0; i < 4; i++) {
        ended_job(w, id[i]);
    }
    struct retention *r = with(w, 2, 0);
    assert_int_equal(turn(r), 2);
    for (int i = 0; i < 4; i++) {
        assert_pruned(w, id[i], i < 2);
    }
    assert_int_equal(turn(r), 0);
    ended_job(w, id[4]);
    assert_int_equal(turn(r), 1);
    assert_pruned(w, id[2], true);
    assert_pruned(w, id[4], false);
    retention_free(r);
}

static void beyond_the_disk_the_oldest_go_until_the_rest_fits(void **state)
{
    struct world *w = *state;
    char id[4][STORE_ID];
    for (int i = 0; i < 4; i++) {
        ended_job(w, id[i]);
    }
    struct retention *r = with(w, 0, 4 * (ARTIFACT + 32 * KB) + 2 * (HISTORY + CHECKPOINT));
    assert_int_equal(turn(r), 2);
    for (int i = 0; i < 4; i++) {
        assert_pruned(w, id[i], i < 2);
    }
    retention_free(r);
    r = with(w, 0, 1); /* impossible: removes all histories, but no artifact */
    assert_int_equal(turn(r), 2);
    assert_int_equal(turn(r), 0);
    for (int i = 0; i < 4; i++) {
        assert_pruned(w, id[i], true);
    }
    retention_free(r);
}

static void a_job_that_has_not_ended_is_never_touched_but_counts(void **state)
{
    char running[STORE_ID], ended[STORE_ID];
    struct world *w = world_running(state, 1, "{}", running);
    put_files(w, running);
    ended_job(w, ended);
    struct retention *r = with(w, 1, HISTORY + CHECKPOINT + 2 * ARTIFACT + 96 * KB);
    assert_int_equal(turn(r), 1);
    assert_pruned(w, ended, true);
    assert_true(there(w, running, "history/rows-0.bin") &&
                there(w, running, "checkpoints/step-1.safetensors"));
    json_t *job = job_of(w, running);
    assert_true(json_is_null(at(job, "/pruned")) &&
                number_at(job, "/disk_bytes") >= HISTORY + CHECKPOINT + ARTIFACT);
    json_decref(job);
    retention_free(r);
}

/* Makes the folder of the data sets look as it does some seconds after its last change. */
static void settle(const struct world *w)
{
    char path[512];
    const struct timespec past[] = {{1767323045, 0}, {1767323045, 0}};
    snprintf(path, sizeof path, "%s/datasets", w->place->dir);
    assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
}

static void data_sets_are_counted_when_one_comes_or_goes_and_not_at_every_turn(void **state)
{
    struct world *w = *state;
    struct datasets_known known = {0};
    const char *dir = w->place->dir;
    char path[512];
    assert_int_equal(datasets_bytes_again(dir, &known), 0);
    put_file(w, "../datasets/digits", "x.npy", DATA);
    assert_int_equal(datasets_bytes_again(dir, &known), datasets_bytes(dir));
    put_file(w, "../datasets/digits", "y.npy", DATA);
    assert_int_equal(datasets_bytes_again(dir, &known), datasets_bytes(dir)); /* a moment later */
    settle(w);
    int64_t one = datasets_bytes_again(dir, &known);
    put_file(w, "../datasets/digits", "z.npy", DATA); /* existing data sets never get new files */
    assert_int_equal(datasets_bytes_again(dir, &known), one);
    put_file(w, "../datasets/letters", "x.npy", DATA);
    assert_int_equal(datasets_bytes_again(dir, &known), datasets_bytes(dir));
    assert_true(known.bytes > one + DATA);
    snprintf(path, sizeof path, "%s/datasets/letters", dir);
    OK(proc_remove_tree(path, &err_));
    assert_int_equal(datasets_bytes_again(dir, &known), datasets_bytes(dir));
    assert_true(known.bytes < one + 2 * DATA);
}

static void a_job_from_which_a_waiting_one_begins_is_passed_over(void **state)
{
    struct world *w = *state;
    char first[STORE_ID], second[STORE_ID], waits[STORE_ID], changes[200];
    ended_job(w, first);
    ended_job(w, second);
    snprintf(changes, sizeof changes, "{'init': {'path': 'jobs/%s/checkpoints', 'continue': true}}",
             first);
    submit(w, changes, waits);
    struct retention *r = with(w, 0, 1);
    assert_int_equal(turn(r), 1);
    assert_pruned(w, first, false);
    assert_pruned(w, second, true);
    OK(store_job_request(w->store, waits, "cancel", &err_));
    OK(store_job_transition(w->store, waits, JOB_CANCELLING, JOB_CANCELLED, NULL, &err_));
    assert_int_equal(turn(r), 1);
    assert_pruned(w, first, true);
    retention_free(r);
}

static void what_was_begun_is_finished_by_the_next_process(void **state)
{
    struct world *w = *state;
    char id[STORE_ID];
    ended_job(w, id);
    OK(store_job_set(w->store, id, "pruned", "2026-01-02T03:04:05.678Z", &err_));
    struct retention *r = with(w, 0, 0);
    turn(r);
    assert_pruned(w, id, true);
    retention_free(r);
}

static void a_job_that_was_deleted_is_forgotten(void **state)
{
    struct world *w = *state;
    char id[2][STORE_ID];
    ended_job(w, id[0]);
    ended_job(w, id[1]);
    struct retention *r = with(w, 1, 0);
    assert_int_equal(turn(r), 1);
    OK(store_job_delete(w->store, id[1], NULL, &err_));
    assert_int_equal(turn(r), 0);
    redis_private_stop(w->place->dir);
    struct err e = {0};
    assert_int_equal(retention_turn(r, &e), -ERR_UNAVAILABLE);
    OK(redis_private_start(w->place->dir, w->place->url, &w->place->pid, &err_));
    assert_int_equal(turn(r), 0);
    retention_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(nothing_goes_unless_asked_for),
        IN_A_WORLD(what_could_go_is_proposed_with_its_bytes_artifacts_included),
        IN_A_WORLD(what_is_free_is_told_as_it_is_now),
        IN_A_WORLD(the_jobs_that_finished_last_keep_their_history),
        IN_A_WORLD(beyond_the_disk_the_oldest_go_until_the_rest_fits),
        IN_A_WORLD(a_job_that_has_not_ended_is_never_touched_but_counts),
        IN_A_WORLD(data_sets_are_counted_when_one_comes_or_goes_and_not_at_every_turn),
        IN_A_WORLD(a_job_from_which_a_waiting_one_begins_is_passed_over),
        IN_A_WORLD(what_was_begun_is_finished_by_the_next_process),
        IN_A_WORLD(a_job_that_was_deleted_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
