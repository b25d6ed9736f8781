/* `evenstep evaluate MODEL`: how good a model's file is on a data set, per class, and which classes
 * it confuses. No service is asked: the worker's program next to this one does the work
 * (`evenstep-worker --evaluate`) and prints JSON, from which this makes a table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "cli/status.h"
#include "cli/table.h"
#include "common/text/terminal.h"
#include "cli/worker.h"
#include "common/json/jsonx.h"
#include "common/opt.h"
#include "common/text/text.h"
#include "job/documents/results/scored.h"

enum { WIDE = 20, CONFUSIONS = 15, ARGUMENTS = 32 };
enum { NAME_COLUMNS = 24, NAME_BYTES = 4 * NAME_COLUMNS + 8, HEAD_COLUMNS = 6 };

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

/* Runs the worker's program. Returns what it printed, with its figures in *s (borrowed from it);
 * NULL: it failed. */
static json_t *ask_worker(const struct opt_values *o, struct scored *s, struct err *e)
{
    static const char *const passed[][2] = {{"data", "--data-set"},  {"data-roots", "--roots"},
                                            {"format", "--format"},  {"part", "--part"},
                                            {"spec", "--spec"},      {"device", "--device"},
                                            {"outputs", "--outputs"}};
    char batch[16];
    const char *argv[ARGUMENTS] = {NULL, "--evaluate", opt_positional(o, 0), "--batch", batch};
    int n = 5;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const char *value = opt_string(o, passed[i][0]);
        if (value) {
            argv[n++] = passed[i][1];
            argv[n++] = value;
        }
    }
    snprintf(batch, sizeof batch, "%ld", opt_int(o, "batch"));
    json_t *answer = worker_answer(argv, e);
    if (answer && scored_read(s, answer, e) < 0) {
        json_decref(answer);
        answer = NULL;
    }
    return answer;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* The class's name, which comes from a file, or its number. */
static const char *name_of(const struct scored *s, int c, char out[NAME_BYTES])
{
    const char *name = json_string_value(json_array_get(s->names, (size_t)c));
    char shown[1024];
    if (name) {
        text_cut(out, NAME_BYTES, text_shown(shown, sizeof shown, name), NAME_COLUMNS);
    } else {
        snprintf(out, NAME_BYTES, "%d", c);
    }
    return out;
}

static void add_count(struct table *t, int64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)n);
    table_cell(t, text);
}

static void add_percent(struct table *t, double share)
{
    char text[32];
    snprintf(text, sizeof text, isnan(share) ? "-" : "%.2f %%", 100 * share);
    table_cell(t, text);
}

static void print_classes(const struct scored *s)
{
    static const struct table_head heads[] = {{"class", TABLE_TEXT},
                                              {"samples", TABLE_RIGHT},
                                              {"right", TABLE_RIGHT},
                                              {"accuracy", TABLE_RIGHT},
                                              {"precision", TABLE_RIGHT}};
    char name[NAME_BYTES];
    struct table t;
    table_init(&t, heads, sizeof heads / sizeof *heads);
    for (int c = 0; c < s->classes; c++) {
        struct scored_class one = scored_class(s, c);
        table_cell(&t, name_of(s, c, name));
        add_count(&t, one.samples);
        add_count(&t, one.right);
        add_percent(&t, one.accuracy);
        add_percent(&t, one.precision);
    }
    printf("\n");
    table_print(&t, "", terminal_width(stdout), stdout);
    table_release(&t);
}

/* The least width of the matrix, with each row's name and each count. */
static int matrix_columns(const struct scored *s)
{
    int64_t most = 0;
    for (int i = 0; i < s->classes * s->classes; i++) {
        most = s->confusion[i] > most ? s->confusion[i] : most;
    }
    int digits = snprintf(NULL, 0, "%lld", (long long)most);
    return HEAD_COLUMNS + s->classes * (2 + (digits > HEAD_COLUMNS ? digits : HEAD_COLUMNS));
}

static void print_matrix(const struct scored *s)
{
    struct table_head heads[TABLE_COLUMNS] = {{"", TABLE_TEXT}};
    char names[TABLE_COLUMNS][NAME_BYTES], head[TABLE_COLUMNS][NAME_BYTES];
    struct table t;
    for (int k = 0; k < s->classes; k++) {
        text_cut(head[k], sizeof head[k], name_of(s, k, names[k]), HEAD_COLUMNS);
        heads[k + 1] = (struct table_head){head[k], TABLE_RIGHT};
    }
    table_init(&t, heads, s->classes + 1);
    for (int c = 0; c < s->classes; c++) {
        table_cell(&t, names[c]);
        for (int k = 0; k < s->classes; k++) {
            int64_t count = s->confusion[c * s->classes + k];
            if (count > 0) {
                add_count(&t, count);
            } else {
                table_cell(&t, "."); /* zeros are dots, so that other counts stand out */
            }
        }
    }
    printf("\nrows: what it is; columns: what was answered\n");
    table_print(&t, "", terminal_width(stdout), stdout);
    table_release(&t);
}

/* If the matrix is too wide, prints the most frequent confusions. */
static void print_most_confused(const struct scored *s)
{
    int n = s->classes;
    char is[NAME_BYTES], as[NAME_BYTES];
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
                terminal_say("", "%8lld x %s, taken for %s", (long long)next, name_of(s, i / n, is),
                             name_of(s, i % n, as));
                shown++;
            }
        }
        last = next;
    }
}

void evaluate_print(const struct scored *s)
{
    int width = terminal_width(stdout);
    char shown[1024];
    terminal_say("", "%s: %lld parameters", text_shown(shown, sizeof shown, s->model),
                 (long long)s->parameters);
    terminal_say("", "%s%s%s, %s: %lld samples, on %s", s->format, *s->path ? " " : "",
                 text_shown(shown, sizeof shown, s->path), s->part, (long long)s->samples,
                 s->device);
    if (s->classes == 0) {
        printf("loss %.6g\n", s->loss);
        return;
    }
    int64_t right = scored_right(s);
    terminal_say("", "accuracy %.2f %% (%lld right), loss %.4f",
                 s->samples > 0 ? 100 * (double)right / (double)s->samples : 0, (long long)right,
                 s->loss);
    print_classes(s);
    if (s->classes <= WIDE && (width == 0 || matrix_columns(s) <= width)) {
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
        return STATUS_USAGE;
    }
    if (rc > 0) {
        return STATUS_DONE;
    }
    if (opt_positionals(o) != 1) {
        fprintf(stderr, "usage: %s\n", usage);
        rc = STATUS_USAGE;
    } else {
        struct scored s = {0};
        json_t *answer =
            worker_check_model(opt_positional(o, 0), &e) < 0 ? NULL : ask_worker(o, &s, &e);
        if (!answer) {
            session_complain(&e, NULL);
            rc = worker_status(&e);
        } else if (opt_flag(o, "json")) {
            session_put(answer);
        } else {
            evaluate_print(&s);
        }
        scored_release(&s);
        json_decref(answer);
    }
    opt_free(o);
    return rc;
}
