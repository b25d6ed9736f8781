/* See evaluation.h. */
#include "job/documents/ranks/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, FIRST_ROOM = 16 };
static const double longest = 1e12;

void evaluation_write(json_t *j, const struct evaluation *ev)
{
    json_object_set_new(j, "step", json_integer((json_int_t)ev->step));
    json_object_set_new(j, "epoch", json_real(ev->epoch));
    json_object_set_new(j, "time", json_real(ev->time));
    json_object_set_new(j, "loss", document_real(ev->loss));
    json_object_set_new(j, "accuracy", document_real(ev->accuracy));
    json_object_set_new(j, "samples", json_integer((json_int_t)ev->samples));
    json_object_set_new(j, "final", json_boolean(ev->final));
}

void evaluation_parse(const struct document *d, struct evaluation *out)
{
    out->step = document_integer(d, "step", 0, INT64_MAX);
    out->epoch = document_number(d, "epoch", 0, longest);
    out->time = document_number(d, "time", -longest, longest);
    out->loss = document_maybe(d, "loss");
    out->accuracy = document_maybe(d, "accuracy");
    out->samples = document_integer(d, "samples", 0, INT64_MAX);
    out->final = document_flag(d, "final");
}

/* ---- the kept ones --------------------------------------------------------------------------- */

json_t *evaluation_json(const struct kept_evaluation *one)
{
    json_t *j = json_object();
    evaluation_write(j, &one->ev);
    json_object_set_new(j, "samples", json_integer((json_int_t)one->trained));
    json_object_set_new(j, "test_samples", json_integer((json_int_t)one->ev.samples));
    return j;
}

json_t *evaluations_json(const struct evaluations *all)
{
    json_t *list = json_array();
    for (int i = 0; i < all->count; i++) {
        json_array_append_new(list, evaluation_json(&all->items[i]));
    }
    return json_pack("{s:o}", "evaluations", list);
}

int evaluations_read(struct evaluations *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    struct document d = document_plain(j, &problems);
    memset(out, 0, sizeof *out);
    size_t n = json_array_size(document_list(&d, "evaluations", 0, MOST));
    for (size_t i = 0; i < n; i++) {
        struct document one = document_element(&d, "evaluations", i);
        struct evaluation ev = {0};
        evaluation_parse(&one, &ev);
        int64_t trained = ev.samples;
        ev.samples = document_integer(&one, "test_samples", 0, INT64_MAX);
        evaluations_add(out, &ev, trained);
    }
    return document_close(&d, "the document of evaluations", e);
}

void evaluations_drop(struct evaluations *all, int64_t step)
{
    int kept = 0;
    for (int i = 0; i < all->count; i++) {
        if (all->items[i].ev.step <= step) {
            all->items[kept++] = all->items[i];
        }
    }
    all->count = kept;
}

const struct kept_evaluation *evaluations_add(struct evaluations *all, const struct evaluation *ev,
                                              int64_t trained)
{
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : FIRST_ROOM;
        struct kept_evaluation *more = realloc(all->items, (size_t)all->room * sizeof *more);
        BUG_ON(!more);
        all->items = more;
    }
    all->items[all->count] = (struct kept_evaluation){*ev, trained};
    return &all->items[all->count++];
}

const struct evaluation *evaluations_last(const struct evaluations *all)
{
    return all->count ? &all->items[all->count - 1].ev : NULL;
}

double evaluations_best(const struct evaluations *all)
{
    double best = NAN;
    for (int i = 0; i < all->count; i++) {
        best = fmax(best, all->items[i].ev.accuracy); /* fmax() ignores NaN */
    }
    return best;
}

void evaluations_release(struct evaluations *all)
{
    free(all->items);
    memset(all, 0, sizeof *all);
}
