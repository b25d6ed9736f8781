/* Checkpoints: what was written comes back bit for bit, with the workers' own states. Torn or
 * altered files, and those of another network, are skipped; the disk may be full. */
#include "checkpoint_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/rng.h"
#include "worker/checkpoint/artifact.h"
#include "worker/checkpoint/safetensors.h"

static void flip_byte(const char *path, long from_end)
{
    struct stat st;
    char c;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, &c, 1, st.st_size - from_end), 1);
    c ^= 1;
    assert_int_equal(pwrite(fd, &c, 1, st.st_size - from_end), 1);
    close(fd);
}

static void a_checkpoint_comes_back_bit_for_bit(void **state)
{
    struct place *p = *state;
    struct checkpoint c;
    char path[4096];
    write_at(p, 1234, 3, path);
    assert_non_null(strstr(path, "/checkpoints/step-000000001234.safetensors"));
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), 0);
    assert_memory_equal(c.params, p->params, p->state->n_params * sizeof(float));
    assert_memory_equal(c.optim, p->optim, p->state->n_optim * sizeof(float));
    assert_int_equal(c.state.version, 1234);
    assert_int_equal(c.state.applied_samples, 39488);
    assert_memory_equal(&c.state.cursor, &p->state->cursor, sizeof c.state.cursor);
    assert_int_equal(c.state.n_out, 2);
    assert_memory_equal(c.state.out, p->state->out, 2 * sizeof c.state.out[0]);
    assert_true(c.state.best == 0.25);
    assert_true(c.state.elapsed == 71.5);
    assert_true(json_equal(c.state.staleness, p->state->staleness));
    assert_string_equal(c.path, path);
    checkpoint_release(&c);
}

static void a_job_without_checkpoints_has_none(void **state)
{
    struct place *p = *state;
    struct checkpoint c;
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), 1);
}

static void only_the_newest_ones_are_kept(void **state)
{
    struct place *p = *state;
    struct dirent **names;
    char path[4096], dir[4096];
    int64_t versions[] = {5, 40, 300, 2000, 10000};
    for (int i = 0; i < 5; i++) {
        write_at(p, versions[i], 2, path);
    }
    snprintf(dir, sizeof dir, "%s/checkpoints", p->dir);
    int n = scandir(dir, &names, NULL, alphasort);
    assert_int_equal(n, 4); /* with . and .. */
    assert_string_equal(names[2]->d_name, "step-000000002000.safetensors");
    assert_string_equal(names[3]->d_name, "step-000000010000.safetensors");
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
}

static void an_altered_or_torn_checkpoint_is_passed_over_for_the_one_before(void **state)
{
    struct place *p = *state;
    struct checkpoint c;
    struct stat st;
    char old[4096], altered[4096], torn[4096], progress[4096];
    write_at(p, 10, 9, old);
    write_at(p, 20, 9, altered);
    write_at(p, 30, 9, torn);
    write_at(p, 40, 9, progress);
    flip_byte(altered, 100);
    assert_int_equal(stat(torn, &st), 0);
    assert_int_equal(truncate(torn, st.st_size - 8), 0);
    size_t n = 0;
    char *bytes = proc_read_file(progress, 1 << 20, &n, NULL);
    char *at = memmem(bytes, n, "39488", 5); /* the cursor: as harmful as a wrong weight */
    assert_non_null(at);
    at[0] = '1';
    put_file("/", progress, bytes, n);
    free(bytes);
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), 0);
    assert_int_equal(c.state.version, 10);
    checkpoint_release(&c);
}

/* The message about the file after one of its bytes was changed. */
static int open_altered(const char *dir, const char *bytes, size_t n, size_t at, char change)
{
    struct safetensors s;
    char path[4200], *copy = malloc(n);
    memcpy(copy, bytes, n);
    copy[at] ^= change;
    put_file(dir, "altered", copy, n);
    free(copy);
    snprintf(path, sizeof path, "%s/altered", dir);
    int rc = safetensors_open(&s, path, true, &err_);
    if (rc >= 0) {
        safetensors_close(&s);
    }
    return rc;
}

static void every_altered_byte_of_the_header_and_any_of_the_body_is_noticed(void **state)
{
    struct place *p = *state;
    char path[4096];
    size_t n = 0;
    uint64_t head;
    write_at(p, 10, 9, path);
    char *bytes = proc_read_file(path, 1 << 20, &n, NULL);
    assert_non_null(bytes);
    memcpy(&head, bytes, 8);
    assert_true(8 + head < n);
    for (size_t at = 0; at < 8 + head; at++) {
        for (int bit = 0; bit < 8; bit += 1 + (at > 200)) {
            if (open_altered(p->dir, bytes, n, at, (char)(1 << bit)) >= 0) {
                fail_msg("bit %d of byte %zu of the header", bit, at);
            }
        }
    }
    for (uint64_t i = 0; i < 400; i++) {
        size_t at = 8 + head + (size_t)rng_below(7, 1, i, n - 8 - head);
        char change = (char)(1 + rng_below(7, 2, i, 255));
        if (open_altered(p->dir, bytes, n, at, change) >= 0) {
            fail_msg("byte %zu of the body", at);
        }
    }
    free(bytes);
}

static void a_checkpoint_that_was_cut_at_any_byte_is_passed_over_for_the_one_before(void **state)
{
    struct place *p = *state;
    char old[4096], path[4096];
    size_t n = 0;
    write_at(p, 10, 9, old);
    write_at(p, 20, 9, path);
    char *bytes = proc_read_file(path, 1 << 20, &n, NULL);
    for (size_t at = 0; at <= n; at += at < 40 || n - at < 40 ? 1 : 17) {
        struct checkpoint c;
        put_file("/", path, bytes, at);
        assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), 0);
        assert_int_equal(c.state.version, at < n ? 10 : 20);
        checkpoint_release(&c);
    }
    put_file("/", path, bytes, n);
    FILE *f = fopen(path, "ab"); /* nor may it be longer */
    assert_non_null(f);
    fputs("more", f);
    fclose(f);
    struct checkpoint c;
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), 0);
    assert_int_equal(c.state.version, 10);
    checkpoint_release(&c);
    free(bytes);
}

/* Limits the size of files, like a full disk. */
static void when_the_disk_is_full_the_old_checkpoint_stays_and_the_error_says_why(void **state)
{
    struct place *p = *state;
    struct rlimit before, little = {0};
    struct checkpoint c;
    char path[4096];
    write_at(p, 10, 1, path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 1000; room += 333) { /* in the header, in the body */
        little.rlim_cur = room;
        little.rlim_max = before.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
        p->state->version = 20;
        int rc = checkpoint_write(p->dir, p->spec, p->state, 1, path, sizeof path, &err_);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(rc, -ERR_IO);
        assert_non_null(strstr(err_.message, "step-000000000020.safetensors': File too large"));
        assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), 0);
        assert_int_equal(c.state.version, 10);
        checkpoint_release(&c);
    }
    write_at(p, 30, 1, path); /* room again: and nothing half written is left */
    char dir[4200];
    struct dirent **names;
    snprintf(dir, sizeof dir, "%s/checkpoints", p->dir);
    int n = scandir(dir, &names, NULL, alphasort);
    assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
}

/* As a killed keeper leaves it: a child dies as soon as its file exists. */
static void leave_half_written(struct place *p, const char *folder)
{
    char path[4096];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit little = {600, 600};
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &little); /* the signal kills it in the middle of the write */
        p->state->version = 99;
        int rc = strcmp(folder, "checkpoints") == 0
                     ? checkpoint_write(p->dir, p->spec, p->state, 9, path, sizeof path, &err_)
                     : artifact_write(p->dir, "model", p->spec, p->state, &err_);
        _exit(rc == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static int files_in(struct place *p, const char *folder, bool hidden)
{
    char dir[4200];
    struct dirent **names;
    snprintf(dir, sizeof dir, "%s/%s", p->dir, folder);
    int n = scandir(dir, &names, NULL, alphasort), count = 0;
    for (int i = 0; i < n; i++) {
        count += strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0 &&
                 (names[i]->d_name[0] == '.') == hidden;
        free(names[i]);
    }
    free(names);
    return count;
}

static void
a_file_that_was_left_half_written_is_never_looked_at_and_goes_with_the_next(void **state)
{
    struct place *p = *state;
    struct checkpoint c;
    char path[4096];
    write_at(p, 10, 9, path);
    leave_half_written(p, "checkpoints");
    leave_half_written(p, "artifacts");
    assert_int_equal(files_in(p, "checkpoints", true), 1);
    assert_int_equal(files_in(p, "checkpoints", false), 1);
    assert_int_equal(files_in(p, "artifacts", true), 1);
    assert_int_equal(files_in(p, "artifacts", false), 0); /* listed nowhere */
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), 0);
    assert_int_equal(c.state.version, 10);
    checkpoint_release(&c);
    write_at(p, 20, 9, path);
    assert_int_equal(artifact_write(p->dir, "model", p->spec, p->state, &err_), 0);
    assert_int_equal(files_in(p, "checkpoints", true) + files_in(p, "artifacts", true), 0);
    assert_int_equal(files_in(p, "checkpoints", false), 2);
    assert_int_equal(files_in(p, "artifacts", false), 1);
}

/* ---- workers' own states --------------------------------------------------------------------- */

static const char first_state[] = "the first worker's", third_state[] = "the third's";

static void write_with_states(struct place *p, int64_t version, int keep, char path[4096])
{
    const struct own_state own[] = {{(uint8_t *)first_state, sizeof first_state},
                                    {0},
                                    {(uint8_t *)third_state, sizeof third_state}};
    p->state->own = own;
    p->state->n_own = 3;
    write_at(p, version, keep, path);
    p->state->own = NULL;
    p->state->n_own = 0;
}

/* Paths of the states in the folder, in the order of their names. */
static int list_states(struct place *p, char paths[8][4096])
{
    struct dirent **names;
    char dir[4000];
    snprintf(dir, sizeof dir, "%s/checkpoints", p->dir);
    int n = scandir(dir, &names, NULL, alphasort), found = 0;
    for (int i = 0; i < n; i++) {
        if (strstr(names[i]->d_name, ".state") && found < 8) {
            snprintf(paths[found++], 4096, "%.3000s/%.255s", dir, names[i]->d_name);
        }
        free(names[i]);
    }
    free(names);
    return found;
}

static void workers_states_come_back_with_their_checkpoint(void **state)
{
    struct place *p = *state;
    struct checkpoint c;
    char path[4096];
    write_with_states(p, 7, 2, path);
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), CHECKPOINT_FOUND);
    assert_int_equal(c.state.n_own, 3);
    assert_int_equal(c.own[0].n, sizeof first_state);
    assert_memory_equal(c.own[0].bytes, first_state, sizeof first_state);
    assert_int_equal(c.own[1].n, 0);
    assert_memory_equal(c.own[2].bytes, third_state, sizeof third_state);
    checkpoint_release(&c);
}

static void a_checkpoint_whose_states_are_not_all_there_is_passed_over(void **state)
{
    struct place *p = *state;
    struct checkpoint c;
    char path[4096], paths[8][4096];
    write_with_states(p, 7, 2, path);
    write_with_states(p, 8, 2, path);
    assert_int_equal(list_states(p, paths), 4);
    flip_byte(paths[3], 3);
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), CHECKPOINT_FOUND);
    assert_int_equal(c.state.version, 7);
    checkpoint_release(&c);
    assert_int_equal(unlink(paths[0]), 0);
    assert_int_equal(checkpoint_newest(p->dir, p->spec, &c, &err_), CHECKPOINT_NONE);
}

static void states_go_with_their_checkpoint(void **state)
{
    struct place *p = *state;
    char path[4096], paths[8][4096], orphan[4096];
    for (int i = 1; i <= 4; i++) {
        write_with_states(p, i, 2, path);
    }
    assert_int_equal(list_states(p, paths), 4);
    assert_non_null(strstr(paths[0], "/step-000000000003.rank-0."));
    /* of a keeper that was killed: a step that was never written, and a file half written */
    snprintf(orphan, sizeof orphan, "%.3000s/checkpoints/step-000000000009.rank-0.0123.state",
             p->dir);
    OK(proc_write_file(orphan, "x", 1, 0600, &err_));
    snprintf(orphan, sizeof orphan, "%.3000s/checkpoints/step-000000000004.rank-0.0123.state.tmp7",
             p->dir);
    OK(proc_write_file(orphan, "x", 1, 0600, &err_));
    write_with_states(p, 4, 2, path);
    assert_int_equal(list_states(p, paths), 4);
}

static void a_checkpoint_of_another_network_is_not_used(void **state)
{
    struct place *p = *state;
    struct checkpoint c;
    char path[4096];
    write_at(p, 10, 9, path);
    struct jobspec *other = make_spec(
        "{\"name\": \"t\", \"model\": \"mlp\", \"data\": {\"format\": \"glyphs\"}, "
        "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1},"
        "\"strategy\": {\"type\": \"sync\"}, \"batching\": {\"global_batch\": 32, "
        "\"policy\": \"equal\"}, \"workers\": 2, \"epochs\": 2}");
    assert_int_equal(checkpoint_newest(p->dir, other, &c, &err_), 1);
    drop_spec(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_(a_checkpoint_comes_back_bit_for_bit),
        TEST_(a_job_without_checkpoints_has_none),
        TEST_(only_the_newest_ones_are_kept),
        TEST_(an_altered_or_torn_checkpoint_is_passed_over_for_the_one_before),
        TEST_(every_altered_byte_of_the_header_and_any_of_the_body_is_noticed),
        TEST_(a_checkpoint_that_was_cut_at_any_byte_is_passed_over_for_the_one_before),
        TEST_(when_the_disk_is_full_the_old_checkpoint_stays_and_the_error_says_why),
        TEST_(a_file_that_was_left_half_written_is_never_looked_at_and_goes_with_the_next),
        TEST_(workers_states_come_back_with_their_checkpoint),
        TEST_(a_checkpoint_whose_states_are_not_all_there_is_passed_over),
        TEST_(states_go_with_their_checkpoint),
        TEST_(a_checkpoint_of_another_network_is_not_used),
    };
    return cmocka_run_group_tests_name("checkpoints", tests, NULL, NULL);
}
