/* What a program logs: see metrics.h. */
#include "worker/program/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/program/link.h"

enum { TEXT_BYTES = 1 << 20 };

static void forget(struct metrics *m)
{
    m->measured = false;
    m->accuracy = m->loss = NAN;
}

void metrics_init(struct metrics *m)
{
    forget(m);
}

static double known(double value)
{
    return isfinite(value) ? value : 0;
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

void metrics_take(struct metrics *m, int fd)
{
    size_t n;
    char *text = link_read_text(fd, TEXT_BYTES, &n);
    struct err why = {0};
    json_t *j = text ? jsonx_parse(text, n, &why) : NULL, *value;
    const char *name;
    if (!json_is_object(j)) {
        log_warn("program", "a log is no JSON object of numbers", "why=\"%s\"", why.message);
    }
    json_object_foreach(j, name, value) {
        if (json_is_number(value)) {
            take_number(m, name, json_number_value(value));
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
    sum->loss = known(m->loss) * METRICS_SAMPLES;
    sum->correct = (int64_t)llround(known(m->accuracy) * METRICS_SAMPLES);
    forget(m);
    return METRICS_SAMPLES;
}
