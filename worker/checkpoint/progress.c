/* See progress.h. */
#include "worker/checkpoint/progress.h"

#include <math.h>
#include <stdio.h>

#include "common/json/jsonx.h"

static json_t *slices_json(const struct run_state *state)
{
    json_t *out = json_array();
    for (int i = 0; i < state->n_out; i++) {
        const struct slice *s = &state->out[i];
        json_array_append_new(out, json_pack("[I,I,I]", (json_int_t)s->epoch, (json_int_t)s->start,
                                             (json_int_t)s->count));
    }
    return out;
}

static json_t *extra_json(const struct run_state *state)
{
    json_t *j = json_object();
    if (state->staleness) {
        json_object_set(j, "staleness", state->staleness);
    }
    if (isfinite(state->best)) {
        json_object_set_new(j, "best", json_real(state->best));
    }
    json_object_set_new(j, "elapsed", json_real(state->elapsed));
    return j;
}

json_t *progress_json(const struct jobspec *spec, const struct run_state *state)
{
    const struct cursor *c = &state->cursor;
    char hash[17];
    network_hash(&spec->network, hash);
    return json_pack(
        "{s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:o, s:s, s:s, s:s, s:o}", "version",
        (json_int_t)state->version, "applied_samples", (json_int_t)state->applied_samples, "cursor",
        "samples", (json_int_t)c->samples, "epochs", (json_int_t)c->epochs, "epoch",
        (json_int_t)c->epoch, "position", (json_int_t)c->position, "out", slices_json(state),
        "network", hash, "optimizer", catalog_get(spec->optimizer.type)->name, "strategy",
        catalog_get(spec->strategy.type)->name, "extra", extra_json(state));
}

static int64_t integer(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static int read_cursor(struct run_state *out, const json_t *j, struct err *e)
{
    const json_t *cursor = json_object_get(j, "cursor");
    struct cursor *c = &out->cursor;
    *c = (struct cursor){integer(cursor, "samples"), integer(cursor, "epochs"),
                         integer(cursor, "epoch"), integer(cursor, "position")};
    bool valid = out->version >= 0 && out->applied_samples >= 0 && c->samples >= 1 &&
                 c->epoch >= 0 && c->position >= 0 && c->position <= c->samples;
    return valid ? 0 : err_set(e, ERR_DATA, "its progress is malformed");
}

static int read_slices(struct run_state *out, const json_t *slices, struct err *e)
{
    size_t n = json_array_size(slices);
    if (n > RUN_SLICES) {
        return err_set(e, ERR_DATA, "its progress is malformed");
    }
    out->n_out = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(slices, i);
        struct slice *one = &out->out[i];
        *one = (struct slice){json_integer_value(json_array_get(s, 0)),
                              json_integer_value(json_array_get(s, 1)),
                              json_integer_value(json_array_get(s, 2))};
        if (one->epoch < 0 || one->start < 0 || one->count < 1 ||
            one->start > out->cursor.samples - one->count) {
            return err_set(e, ERR_DATA, "its slice %zu is of samples that are not there", i);
        }
    }
    return 0;
}

int progress_read(struct run_state *out, struct progress_run *of, const json_t *j, struct err *e)
{
    const json_t *extra = json_object_get(j, "extra");
    int rc;
    snprintf(of->network, sizeof of->network, "%s", jsonx_string_at(j, "network"));
    snprintf(of->optimizer, sizeof of->optimizer, "%s", jsonx_string_at(j, "optimizer"));
    snprintf(of->strategy, sizeof of->strategy, "%s", jsonx_string_at(j, "strategy"));
    out->version = integer(j, "version");
    out->applied_samples = integer(j, "applied_samples");
    if ((rc = read_cursor(out, j, e)) < 0 ||
        (rc = read_slices(out, json_object_get(j, "out"), e)) < 0) {
        return rc;
    }
    const json_t *best = json_object_get(extra, "best");
    out->best = json_is_number(best) ? json_number_value(best) : -INFINITY;
    out->elapsed = json_number_value(json_object_get(extra, "elapsed"));
    json_t *staleness = json_object_get(extra, "staleness");
    out->staleness = json_is_array(staleness) ? json_incref(staleness) : NULL;
    return 0;
}
