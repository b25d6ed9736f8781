/* Checkpoints and artifacts: what is written comes back bit for bit, what is torn or altered is
 * passed over, and a tensor that does not belong is named. */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/rng.h"
#include "worker/checkpoint/artifact.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/safetensors.h"

struct place {
    char *dir;
    struct jobspec *spec;
    struct run_state *state;
    float *params, *optim;
};

static const char *const spec_text =
    "{\"name\": \"t\", \"model\": {\"input\": [4, 4, 1], \"layers\": [{\"type\": \"conv2d\", \"filters\": 2, \"kernel\": 3}, {\"type\": \"relu\"},"
    "{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 3}]}, \"data\": {\"format\": \"npy\", \"path\": \"small\"}, \"optimizer\": {\"type\": \"sgd\","
    "\"learning_rate\": 0.1, \"momentum\": 0.9}, \"strategy\": {\"type\": \"sync\"}, \"batching\": {\"global_batch\": 32, \"policy\": \"equal\"},"
    "\"workers\": 2, \"epochs\": 2, \"seed\": 5}";

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    p->dir = make_folder();
    p->spec = make_spec(spec_text);
    p->state = calloc(1, sizeof *p->state);
    size_t n = p->spec->network.n_params;
    p->params = calloc(n, sizeof(float));
    p->optim = calloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++) {
        p->params[i] = (float)i * 0.1f;
        p->optim[i] = -(float)i / 3.0f;
    }
    *p->state = (struct run_state){.params = p->params,
                                   .optim = p->optim,
                                   .n_params = n,
                                   .n_optim = n,
                                   .version = 1234,
                                   .applied_samples = 39488,
                                   .cursor = {60000, 2, 0, 39488},
                                   .n_out = 2,
                                   .test_accuracy = -1};
    p->state->out[0] = (struct slice){0, 128, 32};
    p->state->out[1] = (struct slice){1, 0, 7};
    p->state->best = 0.25;
    p->state->elapsed = 71.5;
    p->state->staleness = json_pack("[i,i]", 1, 2);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    json_decref(p->state->staleness);
    remove_folder(p->dir);
    drop_spec(p->spec);
    free(p->state);
    free(p->params);
    free(p->optim);
    free(p);
    return 0;
}

static void write_at(struct place *p, int64_t version, int keep, char path[4096])
{
    p->state->version = version;
    OK(checkpoint_write(p->dir, p->spec, p->state, keep, path, 4096, &err_));
}

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

/* What the file says after one of its bytes became another. */
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

/* A limit on the size of files, as a disk that is full sets one. */
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

/* By a keeper that was killed: a child that dies as soon as its file is there. */
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
        "{\"name\": \"t\", \"model\": \"mlp\", \"data\": {\"format\": \"glyphs\"}, \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1},"
        "\"strategy\": {\"type\": \"sync\"}, \"batching\": {\"global_batch\": 32, \"policy\": \"equal\"}, \"workers\": 2, \"epochs\": 2}");
    assert_int_equal(checkpoint_newest(p->dir, other, &c, &err_), 1);
    drop_spec(other);
}

static void an_artifact_has_the_tensors_and_the_figures(void **state)
{
    struct place *p = *state;
    struct safetensors s;
    char path[4200];
    p->state->test_accuracy = 0.9875;
    p->state->test_loss = 0.04;
    OK(artifact_write(p->dir, "model", p->spec, p->state, &err_));
    snprintf(path, sizeof path, "%s/artifacts/model.safetensors", p->dir);
    OK(safetensors_open(&s, path, true, &err_));
    assert_int_equal(s.n, 4); /* no optimizer */
    const struct safetensor *w = safetensors_find(&s, "conv1.weight");
    assert_non_null(w);
    assert_int_equal(w->rank, 4);
    assert_int_equal(w->dim[0], 2);
    assert_int_equal(w->dim[1], 1);
    assert_int_equal(w->dim[2], 3);
    assert_non_null(safetensors_find(&s, "conv1.bias"));
    assert_string_equal(safetensors_meta(&s, "test_accuracy"), "0.9875");
    assert_string_equal(safetensors_meta(&s, "normalize"), "unit");
    assert_string_equal(safetensors_meta(&s, "step"), "1234");
    assert_non_null(strstr(safetensors_meta(&s, "network"), "\"conv2d\""));
    safetensors_close(&s);
}

static void init_takes_artifacts_and_checkpoints(void **state)
{
    struct place *p = *state;
    char path[4200];
    float *params = calloc(p->state->n_params, sizeof(float)), none;
    OK(artifact_write(p->dir, "best", p->spec, p->state, &err_));
    snprintf(path, sizeof path, "%s/artifacts/best.safetensors", p->dir);
    OK(artifact_read(path, &p->spec->network, NULL, params, &none, &err_));
    assert_memory_equal(params, p->params, p->state->n_params * sizeof(float));
    memset(params, 0, p->state->n_params * sizeof(float));
    write_at(p, 10, 9, path);
    OK(artifact_read(path, &p->spec->network, NULL, params, &none, &err_));
    assert_memory_equal(params, p->params, p->state->n_params * sizeof(float));
    free(params);
}

static void missing_extra_and_misshapen_tensors_are_named(void **state)
{
    struct place *p = *state;
    const struct network *net = &p->spec->network;
    char path[4200];
    float *params = calloc(p->state->n_params, sizeof(float)), none;
    struct safetensor list[5] = {0};
    json_t *meta = json_object();
    for (int i = 0; i < net->n_tensors; i++) {
        const struct tensor *t = &net->tensors[i];
        snprintf(list[i].name, sizeof list[i].name, "%s", t->name);
        list[i].rank = t->rank;
        memcpy(list[i].dim, t->dim, sizeof t->dim);
        list[i].count = t->count;
        list[i].data = p->params + t->first;
    }
    snprintf(path, sizeof path, "%s/other.safetensors", p->dir);
    OK(safetensors_write(path, list, 3, meta, &err_));
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.bias' is missing");
    list[4] = list[3];
    snprintf(list[4].name, sizeof list[4].name, "dense9.bias");
    OK(safetensors_write(path, list, 5, meta, &err_));
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense9.bias' is not one of the network's");
    snprintf(list[4].name, sizeof list[4].name, "bn1.num_batches_tracked"); /* PyTorch's own */
    OK(safetensors_write(path, list, 5, meta, &err_));
    OK(artifact_read(path, net, NULL, params, &none, &err_));
    int64_t swap = list[2].dim[0];
    list[2].dim[0] = list[2].dim[1];
    list[2].dim[1] = swap;
    OK(safetensors_write(path, list, 4, meta, &err_));
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.weight' has the shape [");
    struct jsonx_problems all = {0}; /* a check names each, reading the first */
    snprintf(list[0].name, sizeof list[0].name, "conv9.weight");
    OK(safetensors_write(path, list, 4, meta, &err_));
    artifact_check(path, net, NULL, "/init", &all);
    assert_int_equal(all.count, 3);
    assert_string_equal(all.items[0].message, "tensor 'conv1.weight' is missing");
    assert_non_null(strstr(all.items[1].message, "tensor 'dense1.weight' has the shape ["));
    assert_string_equal(all.items[2].message, "tensor 'conv9.weight' is not one of the network's");
    assert_string_equal(all.items[2].pointer, "/init");
    jsonx_problems_release(&all);
    json_decref(meta);
    free(params);
}

/* ---- another head on a trained body ---------------------------------------------------------- */

static struct jobspec *with_head(int units, const char *init)
{
    char text[1000];
    snprintf(
        text, sizeof text,
        "{\"model\": {\"input\": [4, 4, 1], \"layers\": [{\"type\": \"conv2d\", \"filters\": 2, \"kernel\": 3}, {\"type\": \"relu\"},"
        "{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": %d}]}, \"data\": {\"format\": \"npy\", \"path\": \"small\"},"
        "\"batching\": {\"global_batch\": 32}, \"init\": %s}",
        units, init);
    return make_spec(text);
}

static void another_head_is_taken_when_it_is_asked_for(void **state)
{
    struct place *p = *state;
    char path[4200];
    float none;
    OK(artifact_write(p->dir, "model", p->spec, p->state, &err_));
    snprintf(path, sizeof path, "%s/artifacts/model.safetensors", p->dir);
    struct jobspec *spec = with_head(5, "{\"path\": \"x\", \"allow\": [\"dense1.*\"]}");
    const struct network *net = &spec->network;
    float *params = malloc(net->n_params * sizeof(float));
    for (size_t i = 0; i < net->n_params; i++) {
        params[i] = -7;
    }
    assert_int_equal(artifact_read(path, net, &spec->init_how, params, &none, &err_),
                     2); /* weight and bias */
    size_t body = net->tensors[2].first;
    assert_memory_equal(params, p->params, body * sizeof(float));
    for (size_t i = body; i < net->n_params; i++) {
        assert_true(params[i] == -7);
    }
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.weight' has the shape [3, 8], the network needs [5, 8]");
    assert_non_null(strstr(err_.hint, "\"allow\": [\"dense1.weight\"]"));
    drop_spec(spec);
    spec = with_head(5, "{\"path\": \"x\", \"allow\": [\"dense1.weight\"]}");
    FAILS(artifact_read(path, &spec->network, &spec->init_how, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.bias' has the shape");
    drop_spec(spec);
    spec = with_head(5, "{\"path\": \"x\", \"allow\": [\"dense1.*\", \"fc.*\"]}");
    FAILS(artifact_read(path, &spec->network, &spec->init_how, params, &none, &err_), ERR_INVALID,
          "'allow' names 'fc.*', but neither");
    drop_spec(spec);
    spec = with_head(3, "{\"path\": \"x\", \"allow\": [\"dense1.*\"]}");
    assert_int_equal(artifact_read(path, &spec->network, &spec->init_how, params, &none, &err_),
                     0); /* it fits after all */
    assert_memory_equal(params, p->params, p->state->n_params * sizeof(float));
    drop_spec(spec);
    free(params);
}

static void tensors_that_are_left_over_or_missing_can_be_allowed_too(void **state)
{
    struct place *p = *state;
    const struct network *net = &p->spec->network;
    struct jobspec *spec = with_head(3, "{\"path\": \"x\", \"allow\": [\"*.bias\", \"old.*\"]}");
    struct safetensor list[3] = {0};
    float *params = calloc(p->state->n_params, sizeof(float)), none;
    char path[4200];
    json_t *meta = json_object();
    snprintf(path, sizeof path, "%s/other.safetensors", p->dir);
    for (int i = 0; i < 3; i++) {
        const struct tensor *t = &net->tensors[i == 1 ? 2 : 0];
        snprintf(list[i].name, sizeof list[i].name, "%s", i == 2 ? "old.weight" : t->name);
        list[i].rank = t->rank;
        memcpy(list[i].dim, t->dim, sizeof t->dim);
        list[i].count = t->count;
        list[i].data = p->params + t->first;
    }
    OK(safetensors_write(path, list, 3, meta, &err_));
    assert_int_equal(artifact_read(path, net, &spec->init_how, params, &none, &err_),
                     3); /* two biases and what was left over */
    assert_memory_equal(params + net->tensors[2].first, p->params + net->tensors[2].first,
                        net->tensors[2].count * sizeof(float));
    json_decref(meta);
    free(params);
    drop_spec(spec);
}

static void headers_that_lie_are_refused(void **state)
{
    struct place *p = *state;
    struct safetensors s;
    char path[4200];
    static const char *const heads[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", /* beyond the file */
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",  /* not the shape's size
                                                                              */
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905,4],\"data_offsets\":[0,4]}}", /* overflows
                                                                                                 */
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
        "{\"a\":{\"dtype\":\"F32\"}}",
        "[]",
        "{",
        "{\"a\":1}",
    };
    snprintf(path, sizeof path, "%s/lie", p->dir);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char bytes[256] = {0};
        uint64_t n = strlen(heads[i]);
        memcpy(bytes, &n, 8);
        memcpy(bytes + 8, heads[i], n);
        put_file(p->dir, "lie", bytes, 8 + n + 8);
        err_clear(&err_);
        if (safetensors_open(&s, path, false, &err_) >= 0) {
            fail_msg("taken: %s", heads[i]);
        }
    }
    put_file(p->dir, "lie", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    FAILS(safetensors_open(&s, path, false, &err_), ERR_DATA, "its header should have");
    put_file(p->dir, "lie", "", 0);
    FAILS(safetensors_open(&s, path, false, &err_), ERR_DATA, "it has only 0 bytes");
}

int main(void)
{
#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
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
        TEST_(an_artifact_has_the_tensors_and_the_figures),
        TEST_(init_takes_artifacts_and_checkpoints),
        TEST_(missing_extra_and_misshapen_tensors_are_named),
        TEST_(another_head_is_taken_when_it_is_asked_for),
        TEST_(tensors_that_are_left_over_or_missing_can_be_allowed_too),
        TEST_(headers_that_lie_are_refused),
    };
    return cmocka_run_group_tests_name("checkpoints", tests, NULL, NULL);
}
