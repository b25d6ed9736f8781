/* What the catalogue's further lines say of a strategy, beyond its parameters: how replicas go
 * together, what a sample is worth, which column of its rows is a chart, and after how many steps
 * it exchanges. Dry runs and the page know a strategy by these, not by its name.
 */
#include <math.h>

#include "job/strategies/strategies.h"

/* Figures that several strategies have. */
#define DISTANCE                                  \
    "strategy_value", "Distance of the replicas", \
        "of a node’s parameters from the average of all, just before it", "Distance", NAN
#define COMPENSATION                                                                          \
    "strategy_value", "Compensation",                                                         \
        "length of an update, divided by that of its plain gradient; 1: nothing was changed", \
        "Length", 1

static const struct strategy_traits traits[CAT_COUNT] = {
#define ENTRY(kind, ident, name, help, params)
#define REPLICAS(ident, how) [CAT_STRATEGY_##ident].replicas = REPLICAS_##how,
#define WORTH(ident, share, when) \
    [CAT_STRATEGY_##ident].worth = share, [CAT_STRATEGY_##ident].shown = SHOWN_##when,
#define FIGURE(ident, ...) [CAT_STRATEGY_##ident].figure = {__VA_ARGS__},
#define EXCHANGES_EVERY(ident, param) [CAT_STRATEGY_##ident].exchanges_every = #param,
#include "job/spec/catalog.def"
#undef ENTRY
};

const struct strategy_traits *strategy_traits(int type)
{
    return &traits[type];
}

static json_t *figure_json(const struct strategy_figure *f)
{
    json_t *level = isnan(f->level) ? json_null() : json_real(f->level);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "series", f->series, "title", f->title,
                     "subtitle", f->subtitle, "head", f->head, "level", level);
}

void strategy_traits_json(int type, json_t *entry)
{
    static const char *const replicas[] = {[REPLICAS_OTHER] = "other",
                                           [REPLICAS_ALIKE] = "alike",
                                           [REPLICAS_AVERAGED] = "averaged",
                                           [REPLICAS_BEHIND] = "behind"};
    const struct strategy_traits *t = strategy_traits(type);
    json_object_set_new(entry, "replicas", json_string(replicas[t->replicas]));
    if (t->figure.series) {
        json_object_set_new(entry, "figure", figure_json(&t->figure));
    }
    if (t->exchanges_every) {
        json_object_set_new(entry, "exchanges_every", json_string(t->exchanges_every));
    }
}
