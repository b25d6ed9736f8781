/* `evenstep evaluate MODEL`: how good a model's file is on a data set, per class, and what is taken
 * for what. No service is asked: the worker's program beside this one does the work
 * (`evenstep-worker --evaluate`), prints JSON, and this makes a table of it. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "common/clock.h"
#include "common/jsonx.h"
#include "common/opt.h"
#include "common/path.h"
#include "common/proc.h"
#include "job/documents/scored.h"

enum { ANSWER_BYTES = 64 << 20, WIDE = 20, CONFUSIONS = 15, ARGUMENTS = 32 };

const struct opt evaluate_options[] = {
    {"data", "FOLDER", OPT_STRING, NULL, 0, 0,
     "a folder, a data set beneath the data roots, or glyphs (default: what the model was trained "
     "on)"},
    {"data-roots", "ROOTS", OPT_STRING, NULL, 0, 0,
     "folders of data sets, separated by colons (default: EVENSTEP_DATA)"},
    {"format", "NAME", OPT_STRING, NULL, 0, 0,
     "format of --data (default: found out from its files)"},
    {"part", "NAME", OPT_STRING, "test", 0, 0, "test or train"},
    {"spec", "FILE", OPT_STRING, NULL, 0, 0,
     "job spec with 'model' and 'data', for files that do not say them"},
    {"device", "NAME", OPT_STRING, "auto", 0, 0,
#include "job/node/device_forms.def"
     "or auto"},
    {"batch", "N", OPT_INT, "100", 1, 65536, "samples at a time"},
    {"outputs", "FILE", OPT_STRING, NULL, 0, 0,
     "writes the network's outputs, one row per sample, as .npy"},
    {"json", NULL, OPT_FLAG, NULL, 0, 0, "prints JSON"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    {0},
};

/* ---- asking ---------------------------------------------------------------------------------- */

int worker_path(char *out, struct err *e)
{
    char here[PATH_MAX];
    path_program_dir(here);
    if (!here[0] || snprintf(out, PATH_MAX, "%s/evenstep-worker", here) >= PATH_MAX) {
        return err_set(e, ERR_INTERNAL, "cannot find this program's own folder");
    }
    return access(out, X_OK) == 0 ? 0 : err_errno(e, ERR_NOT_FOUND, "cannot run '%.300s'", out);
}

/* What the program printed, and in *s what it says (borrowed from that); NULL if it failed. */
static json_t *ask(const char *const *argv, const char *dir, struct scored *s, struct err *e)
{
    char out[PATH_MAX], said[PATH_MAX];
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(said, sizeof said, "%s/err", dir);
    struct proc_spec spec = {
        .argv = argv, .stdout_path = out, .stderr_path = said, .die_with_parent = true};
    int code = 0;
    *s = (struct scored){0};
    pid_t pid = proc_start(&spec, e);
    if (pid < 0) {
        return NULL;
    }
    while (!proc_poll(pid, &code)) {
        clock_sleep(0.01);
    }
    json_t *answer = jsonx_load(out, ANSWER_BYTES, NULL);
    if (answer && scored_read(s, answer, e) == 0 && code == 0) {
        return answer;
    }
    if (e->message[0] == 0) {
        char *text = proc_read_file(said, 1 << 20, NULL, NULL);
        err_set(e, ERR_DATA, "%s",
                text && *text ? text : "evenstep-worker ended without an answer");
        free(text);
    }
    scored_release(s);
    json_decref(answer);
    return NULL;
}

static json_t *ask_worker(const struct opt_values *o, struct scored *s, struct err *e)
{
    static const char *const passed[][2] = {{"data", "--data-set"},  {"data-roots", "--roots"},
                                            {"format", "--format"},  {"part", "--part"},
                                            {"spec", "--spec"},      {"device", "--device"},
                                            {"outputs", "--outputs"}};
    char worker[PATH_MAX], dir[] = "/tmp/evenstep-evaluate-XXXXXX", batch[16];
    const char *argv[ARGUMENTS] = {worker, "--evaluate", opt_positional(o, 0), "--batch", batch};
    int n = 5;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const char *value = opt_string(o, passed[i][0]);
        if (value) {
            argv[n++] = passed[i][1];
            argv[n++] = value;
        }
    }
    snprintf(batch, sizeof batch, "%ld", opt_int(o, "batch"));
    if (worker_path(worker, e) < 0) {
        return NULL;
    }
    if (!mkdtemp(dir)) {
        err_errno(e, ERR_IO, "cannot make a folder in /tmp");
        return NULL;
    }
    json_t *answer = ask(argv, dir, s, e);
    proc_remove_tree(dir, NULL);
    return answer;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* The class's name, or its number. */
static const char *name_of(const struct scored *s, int c, char out[32])
{
    const char *name = json_string_value(json_array_get(s->names, (size_t)c));
    if (name) {
        snprintf(out, 32, "%.24s", name);
    } else {
        snprintf(out, 32, "%d", c);
    }
    return out;
}

static void print_percent(double share, int width)
{
    if (isnan(share)) {
        printf(" %*s", width, "-");
    } else {
        printf(" %*.2f %%", width - 2, 100 * share);
    }
}

static void print_classes(const struct scored *s)
{
    char name[32];
    printf("\n%-24s %8s %8s %10s %10s\n", "class", "samples", "right", "accuracy", "precision");
    for (int c = 0; c < s->classes; c++) {
        struct scored_class one = scored_class(s, c);
        printf("%-24s %8lld %8lld", name_of(s, c, name), (long long)one.samples,
               (long long)one.right);
        print_percent(one.accuracy, 10);
        print_percent(one.precision, 10);
        printf("\n");
    }
}

static void print_matrix(const struct scored *s)
{
    char name[32];
    printf("\nrows: what it is; columns: what was answered\n%-24s", "");
    for (int k = 0; k < s->classes; k++) {
        printf(" %6.6s", name_of(s, k, name));
    }
    for (int c = 0; c < s->classes; c++) {
        printf("\n%-24s", name_of(s, c, name));
        for (int k = 0; k < s->classes; k++) {
            int64_t count = s->confusion[c * s->classes + k];
            if (count > 0) {
                printf(" %6lld", (long long)count);
            } else {
                printf(" %6s", "."); /* so that what is there stands out */
            }
        }
    }
    printf("\n");
}

/* Of a matrix that is too wide, what is taken for what most often. */
static void print_most_confused(const struct scored *s)
{
    int n = s->classes;
    char is[32], as[32];
    int64_t last = INT64_MAX;
    printf("\nmost often confused\n");
    for (int shown = 0; shown < CONFUSIONS;) {
        int64_t next = 0; /* the largest count below the last one */
        for (int i = 0; i < n * n; i++) {
            int64_t v = i / n == i % n ? 0 : s->confusion[i];
            next = v < last && v > next ? v : next;
        }
        if (next == 0) {
            return;
        }
        for (int i = 0; i < n * n && shown < CONFUSIONS; i++) {
            if (i / n != i % n && s->confusion[i] == next) {
                printf("%8lld x %s, taken for %s\n", (long long)next, name_of(s, i / n, is),
                       name_of(s, i % n, as));
                shown++;
            }
        }
        last = next;
    }
}

static void print_answer(const struct scored *s)
{
    printf("%s: %lld parameters\n", s->model, (long long)s->parameters);
    printf("%s%s%s, %s: %lld samples, on %s\n", s->format, *s->path ? " " : "", s->path, s->part,
           (long long)s->samples, s->device);
    if (s->classes == 0) {
        printf("loss %.6g\n", s->loss);
        return;
    }
    int64_t right = scored_right(s);
    printf("accuracy %.2f %% (%lld right), loss %.4f\n",
           s->samples > 0 ? 100 * (double)right / (double)s->samples : 0, (long long)right,
           s->loss);
    print_classes(s);
    if (s->classes <= WIDE) {
        print_matrix(s);
    } else {
        print_most_confused(s);
    }
}

/* Every option can also come from the environment, under EVENSTEP_ and its name; but EVENSTEP_DATA
 * has the data roots. */
static int parse(const char *usage, int argc, char **argv, struct opt_values **o, struct err *e)
{
    const char *roots = getenv("EVENSTEP_DATA");
    char *kept = roots ? strdup(roots) : NULL;
    unsetenv("EVENSTEP_DATA");
    int rc = opt_begin(evaluate_options, usage, argc, argv, o, e);
    if (kept) {
        setenv("EVENSTEP_DATA", kept, 1);
    }
    free(kept);
    return rc;
}

int command_evaluate(int argc, char **argv)
{
    static const char usage[] = "evenstep evaluate MODEL [--data FOLDER]";
    struct err e = {0};
    struct opt_values *o;
    int rc = parse(usage, argc, argv, &o, &e);
    if (rc < 0) {
        session_complain(&e, NULL);
        return 2;
    }
    if (rc > 0) {
        return 0;
    }
    if (opt_positionals(o) != 1) {
        fprintf(stderr, "usage: %s\n", usage);
        rc = 2;
    } else {
        struct scored s = {0};
        json_t *answer = ask_worker(o, &s, &e);
        if (!answer) {
            session_complain(&e, NULL);
            rc = 1;
        } else if (opt_flag(o, "json")) {
            char *printed = jsonx_dump(answer, true, NULL);
            printf("%s\n", printed ? printed : "");
            free(printed);
        } else {
            print_answer(&s);
        }
        scored_release(&s);
        json_decref(answer);
    }
    opt_free(o);
    return rc;
}
