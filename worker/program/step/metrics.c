/* What a program logs: see metrics.h. */
#include "worker/program/step/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/program/child/link.h"
#include "worker/program/child/packet.h"

enum { TEXT_BYTES = 1 << 20 };

void metrics_init(struct metrics *m)
{
    memset(m, 0, sizeof(*m));
}

static void drop_oldest(struct metrics *m)
{
    m->n--;
    memmove(m->waiting, m->waiting + 1, (size_t)m->n * sizeof *m->waiting);
}

/* The evaluation that a figure belongs to: the newest, or the next one if the newest `has` it. */
static struct measured *evaluation_of(struct metrics *m, bool accuracy)
{
    struct measured *newest = m->n > 0 ? &m->waiting[m->n - 1] : NULL;
    if (newest && !(accuracy ? newest->has_accuracy : newest->has_loss)) {
        return newest;
    }
    if (m->n == METRICS_WAITING) {
        log_warn("program", "the oldest of many evaluations in one step is dropped", "most=%d",
                 METRICS_WAITING);
        drop_oldest(m);
    }
    m->waiting[m->n] = (struct measured){.accuracy = NAN, .loss = NAN};
    return &m->waiting[m->n++];
}

enum figure { OTHER, ACCURACY, LOSS };

/* What an evaluation takes of a figure with this name (test_accuracy, val_loss, eval/acc). *tests:
 * it is one of a test set. */
static enum figure figure_named(const char *name, bool *tests)
{
    static const char *const sets[] = {"test", "val", "valid", "validation", "eval"};
    size_t n = strcspn(name, "_/");
    const char *what = name[n] ? name + n + 1 : "";
    *tests = false;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (strlen(sets[i]) == n && strncmp(name, sets[i], n) == 0) {
            *tests = i == 0;
            return strcmp(what, "accuracy") == 0 || strcmp(what, "acc") == 0 ? ACCURACY
                   : strcmp(what, "loss") == 0                               ? LOSS
                                                                             : OTHER;
        }
    }
    return OTHER;
}

/* Has this log figures of a test set? Those of a validation set beside them are no evaluation. */
static bool has_tests(json_t *log)
{
    const char *name;
    json_t *value;
    bool tests = false, found = false;
    json_object_foreach(log, name, value) {
        found = found || (figure_named(name, &tests) != OTHER && tests);
    }
    return found;
}

static void tell_once(bool *told, const char *what, const char *name)
{
    char quoted[6 * LOGGED_NAME];
    if (!*told) {
        log_warn("program", what, "name=%s", log_quote(quoted, sizeof(quoted), name));
    }
    *told = true;
}

/* Is it a name that a metric of the job can have? One that is too long would be taken for another
 * if it were cut. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n < LOGGED_NAME;
}

/* A metric of the job: within a step its newest value counts. */
static void take_metric(struct metrics *m, const char *name, double value)
{
    int at = 0;
    while (at < m->n_logged && strcmp(m->logged[at].name, name) != 0) {
        at++;
    }
    if (at == LOGGED_NAMES || !is_name(name)) {
        tell_once(&m->told_dropped,
                  "a metric is not shown: its name has more than 63 bytes, or is one of too many",
                  name);
        return;
    }
    m->n_logged += at == m->n_logged;
    snprintf(m->logged[at].name, LOGGED_NAME, "%s", name);
    m->logged[at].value = value;
}

static void take_number(struct metrics *m, const char *name, double value, bool of_tests)
{
    bool tests;
    enum figure figure = figure_named(name, &tests);
    bool percent = figure == ACCURACY && (value < 0 || value > 1);
    log_info("program", "metric", "name=\"%.60s\" value=%.9g", name, value);
    if (percent) {
        tell_once(&m->told_percent,
                  "an accuracy is no evaluation: it is a fraction of 0 to 1, not a percentage",
                  name);
    }
    if (percent || figure == OTHER || (of_tests && !tests)) {
        take_metric(m, name, value);
        return;
    }
    struct measured *of = evaluation_of(m, figure == ACCURACY);
    if (figure == ACCURACY) {
        of->accuracy = value;
        of->has_accuracy = true;
    } else {
        of->loss = value;
        of->has_loss = true;
    }
}

/* JSON has no number for what is NaN or infinite, so such a figure comes as a text. */
static bool figure_of(const json_t *value, double *out)
{
    static const struct {
        const char *text;
        double value;
    } others[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
    const char *text = json_string_value(value);
    *out = json_number_value(value);
    for (size_t i = 0; text && i < sizeof(others) / sizeof(*others); i++) {
        if (strcmp(text, others[i].text) == 0) {
            *out = others[i].value;
            return true;
        }
    }
    return json_is_number(value);
}

void metrics_take(struct metrics *m, int fd)
{
    size_t n;
    char *text = packet_text(fd, TEXT_BYTES, &n);
    struct err why = {0};
    json_t *j = text ? jsonx_parse(text, n, &why) : NULL, *value;
    const char *name;
    double figure;
    bool of_tests = has_tests(j);
    if (!json_is_object(j)) {
        log_warn("program", "a log is not a JSON object of numbers", "why=\"%s\"", why.message);
    }
    json_object_foreach(j, name, value) {
        if (figure_of(value, &figure)) {
            take_number(m, name, figure, of_tests);
        }
    }
    json_decref(j);
    free(text);
    if (fd >= 0) {
        close(fd);
    }
}

static int64_t as_sums(const struct measured *of, struct dev_result *sum)
{
    sum->loss = of->loss * METRICS_SAMPLES;
    sum->correct = isfinite(of->accuracy) ? (int64_t)llround(of->accuracy * METRICS_SAMPLES)
                                          : -METRICS_SAMPLES;
    return METRICS_SAMPLES;
}

int64_t metrics_take_oldest(struct metrics *m, struct dev_result *sum)
{
    int64_t samples = m->n > 0 ? as_sums(&m->waiting[0], sum) : 0;
    if (samples > 0) {
        drop_oldest(m);
    }
    return samples;
}

int64_t metrics_take_newest(struct metrics *m, struct dev_result *sum)
{
    int64_t samples = m->n > 0 ? as_sums(&m->waiting[m->n - 1], sum) : 0;
    m->n = 0;
    return samples;
}

int metrics_take_logged(struct metrics *m, const struct logged_value **out)
{
    int n = m->n_logged;
    *out = m->logged;
    m->n_logged = 0;
    return n;
}
