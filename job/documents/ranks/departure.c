/* See departure.h. */
#include "job/documents/ranks/departure.h"

#include <string.h>

json_t *departure_json(const struct departure *d)
{
    return json_pack("{s:i, s:I, s:i, s:I, s:o}", "who", d->who, "step", (json_int_t)d->step,
                     "others", d->others, "pushes", (json_int_t)d->pushes, "staleness",
                     staleness_dump(&d->staleness));
}

void departure_parse(const struct document *d, struct departure *out)
{
    memset(out, 0, sizeof *out);
    staleness_init(&out->staleness);
    out->who = (int)document_integer(d, "who", 0, INT16_MAX);
    out->step = document_integer(d, "step", 0, INT64_MAX);
    out->others = (int)document_integer(d, "others", 0, INT16_MAX);
    out->pushes = document_integer(d, "pushes", 0, INT64_MAX);
    json_t *staleness = document_object(d, "staleness", true);
    if (staleness && staleness_read(&out->staleness, staleness) < 0) {
        document_problem(d, "staleness", "is malformed");
    }
    json_decref(staleness);
}

void departure_release(struct departure *d)
{
    staleness_release(&d->staleness);
    memset(d, 0, sizeof *d);
}
