/* See beat.h. */
#include "job/documents/ranks/beat.h"

#include <string.h>

#include "common/json/jsonx.h"
#include "job/seal.h"

static const double longest = 1e9; /* seconds */

json_t *beat_json(const struct beat *b)
{
    json_t *j = document_new(BEAT_FORMAT, &b->from);
    json_t *more = json_pack(
        "{s:s, s:s, s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:i, s:o, s:I}", "node", b->node, "phase",
        phase_name(b->phase), "progress_age", b->progress_age, "work_age", b->work_age, "comm_age",
        b->comm_age, "step", (json_int_t)b->step, "epoch", b->epoch, "samples",
        (json_int_t)b->samples, "updates", (json_int_t)b->updates, "batch", b->batch, "staleness",
        staleness_dump(&b->staleness), "rows_dropped", (json_int_t)b->rows_dropped);
    json_object_set_new(j, "number", json_integer((json_int_t)b->number));
    json_object_update(j, more);
    json_decref(more);
    if (b->busy_fraction > 0) {
        json_object_set_new(j, "busy_fraction", json_real(b->busy_fraction));
    }
    if (b->receives > 0) {
        json_object_set_new(j, "receiving",
                            json_pack("{s:I, s:I}", "bytes", (json_int_t)b->received, "of_bytes",
                                      (json_int_t)b->receives));
    }
    if (b->quota_seconds > 0) {
        json_object_set_new(
            j, "quota",
            json_pack("{s:i, s:f}", "batch", b->quota_batch, "step_seconds", b->quota_seconds));
    }
    if (b->door[0]) {
        json_object_set_new(j, "door", json_string(b->door));
    }
    return j;
}

/* Reads what only some ranks have, and what the store adds. */
static void read_rest(const struct document *d, struct beat *b)
{
    if (document_has(d, "busy_fraction")) {
        b->busy_fraction = document_number(d, "busy_fraction", 0, longest);
    }
    if (document_has(d, "receiving")) {
        struct document r = document_within(d, "receiving");
        b->received = document_integer(&r, "bytes", 0, INT64_MAX);
        b->receives = document_integer(&r, "of_bytes", 0, INT64_MAX);
    }
    if (document_has(d, "quota")) {
        struct document q = document_within(d, "quota");
        b->quota_batch = (int)document_integer(&q, "batch", 1, INT32_MAX);
        b->quota_seconds = document_number(&q, "step_seconds", 0, longest);
    }
    if (document_has(d, "door")) {
        document_text(d, "door", b->door, sizeof b->door);
    }
    if (document_has(d, "at")) {
        b->at = document_integer(d, "at", 0, INT64_MAX);
    }
    if (document_has(d, "age")) {
        b->age = document_number(d, "age", -longest, longest);
    }
}

int beat_read(struct beat *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, BEAT_FORMAT, &out->from, &problems);
    out->number = document_integer(&d, "number", 1, INT64_MAX);
    document_text(&d, "node", out->node, sizeof out->node);
    int phase = document_choice(&d, "phase", phase_names, PHASES);
    out->phase = phase >= 0 ? (enum phase)phase : PHASE_LOAD;
    out->progress_age = document_number(&d, "progress_age", -longest, longest);
    out->work_age = document_number(&d, "work_age", -longest, longest);
    out->comm_age = document_number(&d, "comm_age", -longest, longest);
    out->step = document_integer(&d, "step", 0, INT64_MAX);
    out->epoch = document_number(&d, "epoch", 0, longest);
    out->samples = document_integer(&d, "samples", 0, INT64_MAX);
    out->updates = document_integer(&d, "updates", 0, INT64_MAX);
    out->batch = (int)document_integer(&d, "batch", 0, INT32_MAX);
    json_t *staleness = document_object(&d, "staleness", true);
    if (staleness && staleness_read(&out->staleness, staleness) < 0) {
        document_problem(&d, "staleness", "is malformed");
    }
    json_decref(staleness);
    out->rows_dropped = document_integer(&d, "rows_dropped", 0, INT64_MAX);
    read_rest(&d, out);
    return document_close(&d, "the heartbeat", e);
}

int beat_open(struct beat *out, const json_t *claimed, const struct sign_key *key, struct err *e)
{
    json_t *j = sign_open(key, SEAL_BEAT, jsonx_string_at(claimed, SEAL_FIELD), e);
    memset(out, 0, sizeof *out);
    if (!j) {
        return -(int)e->code;
    }
    json_object_set(j, "at", json_object_get(claimed, "at"));
    json_object_set(j, "age", json_object_get(claimed, "age"));
    int rc = beat_read(out, j, e);
    json_decref(j);
    return rc;
}

int64_t beat_came(const json_t *claimed)
{
    return json_integer_value(json_object_get(claimed, "at"));
}

void beat_release(struct beat *b)
{
    staleness_release(&b->staleness);
    memset(b, 0, sizeof *b);
}
