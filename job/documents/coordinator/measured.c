/* See measured.h. */
#include "job/documents/coordinator/measured.h"

#include <string.h>

static const double slowest = 1e6;

json_t *measured_json(const struct measured *m)
{
    json_t *j = profile_json(&m->profile);
    json_object_set_new(j, "slowdown", json_real(m->slowdown));
    json_object_set_new(j, "device", json_string(m->device));
    if (m->exchange.workers > 0) {
        json_object_set_new(j, "exchange",
                            json_pack("{s:s, s:i, s:f}", "strategy", m->exchange.strategy,
                                      "workers", m->exchange.workers, "seconds",
                                      m->exchange.seconds));
    }
    if (m->tuning) {
        json_object_set(j, "tuning", m->tuning);
    }
    json_object_set_new(j, "format", json_integer(MEASURED_FORMAT));
    return j;
}

static void read_exchange(struct exchanged *x, const struct document *d)
{
    if (document_has(d, "exchange")) {
        struct document in = document_within(d, "exchange");
        document_text(&in, "strategy", x->strategy, sizeof x->strategy);
        x->workers = (int)document_integer(&in, "workers", 0, SPEC_WORKERS);
        x->seconds = document_number(&in, "seconds", 0, slowest);
    }
}

int measured_read(struct measured *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    struct document d = document_plain(j, &problems);
    memset(out, 0, sizeof *out);
    if (document_has(&d, "format")) {
        d = document_open(j, MEASURED_FORMAT, NULL, &problems);
    }
    document_text(&d, "device", out->device, sizeof out->device);
    out->slowdown = document_number(&d, "slowdown", 0, slowest);
    out->tuning = document_object(&d, "tuning", false);
    read_exchange(&out->exchange, &d);
    if (d.j && profile_read(&out->profile, j) < 0) {
        document_problem(&d, NULL, "has a malformed profile");
        profile_init(&out->profile);
    }
    return document_close(&d, "the profile of a node", e);
}

void measured_release(struct measured *m)
{
    json_decref(m->tuning);
    memset(m, 0, sizeof *m);
}
