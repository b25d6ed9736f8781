/* A job's folder of rows (store/history.h) as another version, a full disk or a stray hand may have
 * left it: meta.json, then the rows of rank 0, the steps, the evaluations, the norms and the logged
 * metrics (fuzz.h: parts). It is read as the API reads it, and gone on with as a coordinator that
 * starts again does. Of meta.json is checked what both rely on: saved and loaded again it is the
 * same. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <sys/stat.h>

#include "store/history.h"
#include "store/history/meta.h"

static const char *const tracks[] = {"rows-0", "rows-1", "rows-2", "steps"};

static void put_files(const uint8_t *data, size_t size)
{
    static const char *const files[] = {"meta.json",       "rows-0.bin", "steps.bin",
                                        "evaluations.bin", "norms.bin",  "logged.bin"};
    static const char *const ends[] = {"bin", "v1", "v2", "v3"};
    char path[256];
    snprintf(path, sizeof path, "%s/history", fuzz_folder());
    mkdir(path, 0700);
    for (size_t t = 0; t < sizeof tracks / sizeof *tracks; t++) {
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            snprintf(path, sizeof path, "%s/history/%s.%s", fuzz_folder(), tracks[t], ends[i]);
            unlink(path);
        }
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t n;
        const uint8_t *part = fuzz_part(&data, &size, &n);
        snprintf(path, sizeof path, "history/%s", files[i]);
        fuzz_file(path, part, n);
    }
}

/* The spans that do not count, taken out of meta.json and put in again. */
static void check_dead(json_t *meta)
{
    for (size_t t = 0; t < sizeof tracks / sizeof *tracks; t++) {
        struct spans once = {0}, twice = {0};
        struct err e = {0};
        int rc = history_meta_dead(meta, tracks[t], &once, &e);
        fuzz_error(rc, &e);
        if (rc == 0) {
            BUG_ON(history_meta_set_dead(meta, tracks[t], &once, &e) < 0);
            BUG_ON(history_meta_dead(meta, tracks[t], &twice, &e) < 0 || once.n != twice.n);
            for (int i = 0; i < once.n; i++) {
                BUG_ON(once.items[i].a != twice.items[i].a || once.items[i].b != twice.items[i].b);
            }
        }
        spans_release(&once);
        spans_release(&twice);
    }
}

static void check_meta(void)
{
    struct err e = {0};
    char dir[128];
    snprintf(dir, sizeof dir, "%s/history", fuzz_folder());
    json_t *meta = history_meta_load(dir, &e);
    fuzz_error(meta ? 0 : -1, &e);
    if (meta) {
        BUG_ON(history_meta_save(dir, meta, &e) < 0);
        json_t *again = history_meta_load(dir, &e);
        BUG_ON(!json_equal(meta, again));
        json_decref(again);
        check_dead(meta);
    }
    json_decref(meta);
}

static void read_all(void)
{
    static const char *const axes[] = {"step", "samples", "time"};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        struct err e = {0};
        json_t *j = history_series(
            fuzz_folder(), &(struct series_ask){"all", axes[i], i ? 1 : NAN, NAN, 20, 0}, &e);
        fuzz_error(j ? 0 : -1, &e);
        json_decref(j);
    }
    struct err e = {0};
    json_t *last = history_last(fuzz_folder(), 10, &e);
    fuzz_error(last ? 0 : -1, &e);
    json_decref(last);
    json_t *norms = history_norms_read(fuzz_folder(), 20, &e);
    fuzz_error(norms ? 0 : -1, &e);
    json_decref(norms);
    json_t *logged =
        history_logged_read(fuzz_folder(), &(struct logged_ask){LOGGED_STEP, NAN, NAN, 20}, &e);
    fuzz_error(logged ? 0 : -1, &e);
    json_decref(logged);
}

static void log_some(struct history *h)
{
    struct logged_point p = {.name = "bleu", .step = 1 << 20, .value = 1};
    struct err e = {0};
    fuzz_error(history_logged(h, &(struct logged){1, &p}, &e), &e);
    json_decref(history_logged_newest(h));
}

static void go_on(void)
{
    static const char *const nodes[] = {"a", "b", "c"};
    struct err e = {0};
    struct history *h = history_open(fuzz_folder(), 3, nodes, &e);
    fuzz_error(h ? 0 : -1, &e);
    if (!h) {
        return;
    }
    struct row row = row_blank();
    row.step = row.local_step = 1 << 20;
    row.attempt = 3;
    int rc = history_append(h, &row, 1, &e);
    fuzz_error(rc, &e);
    if (rc >= 0) {
        fuzz_error(history_supersede(h, 1 << 10, &e), &e);
    }
    log_some(h);
    BUG_ON(history_missing(h) < 0);
    history_close(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    put_files(data, size);
    read_all();
    check_meta();
    go_on();
    read_all();
    return 0;
}
