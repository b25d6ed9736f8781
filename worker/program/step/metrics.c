/* What a program logs: see metrics.h. */
#include "worker/program/step/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/program/child/link.h"
#include "worker/program/child/packet.h"

enum { TEXT_BYTES = 1 << 20 };

static void forget(struct metrics *m)
{
    *m = (struct metrics){.accuracy = NAN, .loss = NAN};
}

void metrics_init(struct metrics *m)
{
    forget(m);
}

static void take_number(struct metrics *m, const char *name, double value)
{
    log_info("program", "metric", "name=\"%.60s\" value=%.9g", name, value);
    if (strcmp(name, "test_accuracy") == 0) {
        m->accuracy = value;
        m->measured = true;
    } else if (strcmp(name, "test_loss") == 0) {
        m->loss = value;
        m->measured = true;
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
    if (!json_is_object(j)) {
        log_warn("program", "a log is not a JSON object of numbers", "why=\"%s\"", why.message);
    }
    json_object_foreach(j, name, value) {
        if (figure_of(value, &figure)) {
            take_number(m, name, figure);
        }
    }
    json_decref(j);
    free(text);
    if (fd >= 0) {
        close(fd);
    }
}

int64_t metrics_take_result(struct metrics *m, struct dev_result *sum)
{
    if (!m->measured) {
        return 0;
    }
    sum->loss = m->loss * METRICS_SAMPLES;
    sum->correct =
        isfinite(m->accuracy) ? (int64_t)llround(m->accuracy * METRICS_SAMPLES) : -METRICS_SAMPLES;
    forget(m);
    return METRICS_SAMPLES;
}
