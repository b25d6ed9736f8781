/* The catalogue: every name is found again, its JSON has everything that validation knows, and it
 * contains every strategy, layer and batching policy of the design. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "job/row.h"
#include "job/spec/spec.h"

static void every_entry_is_found_by_kind_and_name(void **state)
{
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *e = catalog_get(id);
        assert_int_equal(e->id, id);
        assert_ptr_equal(catalog_find(e->kind, e->name),
                         e); /* so no name appears twice in a kind */
        assert_true(strlen(e->help) > 5);
    }
    assert_null(catalog_get(-1));
    assert_null(catalog_get(CAT_COUNT));
    assert_null(catalog_find(CATALOG_STRATEGY, "Sync"));
    assert_null(catalog_find(CATALOG_STRATEGY, "dense")); /* the name of another kind */
    assert_null(catalog_find(CATALOG_STRATEGY, NULL));
    assert_null(catalog_find(CATALOG_STRATEGY, ""));
}

static void the_strategies_and_policies_of_the_design_are_offered(void **state)
{
    static const char *const strategies[] = {"sync",      "asgd",     "softsync", "ssp",
                                             "dc-asgd",   "dc-asgdk", "ddc-asgd", "dbs-sgd",
                                             "local-sgd", "hier-sgd", "hpsgd"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        if (!catalog_find(CATALOG_STRATEGY, strategies[i])) {
            fail_msg("no strategy '%s'", strategies[i]);
        }
    }
    assert_non_null(catalog_find(CATALOG_BATCHING, "equal"));
    assert_non_null(catalog_find(CATALOG_BATCHING, "static"));
    assert_non_null(catalog_find(CATALOG_BATCHING, "dynamic"));
    assert_non_null(catalog_find(CATALOG_DEVICE, "cpu"));
    assert_non_null(catalog_find(CATALOG_DEVICE, "cuda"));
}

static void names_of_a_kind_are_listed_in_the_order_of_the_file(void **state)
{
    int sum = 0;
    for (int k = 0; k < CATALOG_KINDS; k++) {
        int n = -1, last = -1;
        const char *const *names = catalog_names(k, &n);
        assert_true(n > 0);
        assert_null(names[n]);
        assert_ptr_equal(names, catalog_names(k, NULL));
        for (int i = 0; i < n; i++) {
            const struct catalog_entry *e = catalog_find(k, names[i]);
            assert_true(e->id > last);
            last = e->id;
        }
        sum += n;
        assert_true(catalog_kind_name(k)[0] != 0);
    }
    assert_int_equal(sum, CAT_COUNT);
}

static const struct catalog_param *param_find(const struct catalog_entry *e, const char *name)
{
    for (const struct catalog_param *p = e->params; p->name; p++) {
        if (strcmp(p->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

static void parameters_are_sound(void **state)
{
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *e = catalog_get(id);
        for (const struct catalog_param *p = e->params; p->name; p++) {
            bool ranged = p->kind == PARAM_INT || p->kind == PARAM_REAL;
            if (param_find(e, p->name) != p) {
                fail_msg("%s has '%s' twice", e->name, p->name);
            }
            if (ranged && !(p->min <= p->max)) {
                fail_msg("%s.%s has an empty range", e->name, p->name);
            }
            if (ranged && !p->required && (p->fallback < p->min || p->fallback > p->max)) {
                fail_msg("the default of %s.%s is out of its range", e->name, p->name);
            }
            if (p->kind == PARAM_ENUM && !strstr(p->choices, p->fallback_text)) {
                fail_msg("the default of %s.%s is none of its choices", e->name, p->name);
            }
            assert_true(p->help && p->help[0]);
        }
    }
}

static void server_strategies_share_their_parameters(void **state)
{
    static const char *const servers[] = {"asgd",     "softsync", "ssp",    "dc-asgd",
                                          "dc-asgdk", "ddc-asgd", "dbs-sgd"};
    static const char *const all[] = {"weighting", "scale", "servers"};
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        const struct catalog_entry *e = catalog_find(CATALOG_STRATEGY, servers[i]);
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            if (!param_find(e, all[k])) {
                fail_msg("%s lacks '%s'", servers[i], all[k]);
            }
        }
    }
    assert_null(param_find(catalog_find(CATALOG_STRATEGY, "sync"), "servers"));
}

static const json_t *by_name(const json_t *list, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) {
        if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0) {
            return item;
        }
    }
    fail_msg("no '%s' in the JSON", name);
    return NULL;
}

static void the_json_lists_every_entry_with_every_parameter(void **state)
{
    json_t *all = catalog_json();
    assert_int_equal(json_object_size(all), CATALOG_KINDS);
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *e = catalog_get(id);
        const json_t *j = by_name(json_object_get(all, catalog_kind_name(e->kind)), e->name);
        assert_string_equal(json_string_value(json_object_get(j, "help")), e->help);
        for (const struct catalog_param *p = e->params; p->name; p++) {
            const json_t *q = by_name(json_object_get(j, "parameters"), p->name);
            assert_int_equal(json_is_true(json_object_get(q, "required")), p->required != 0);
            assert_true(json_is_string(json_object_get(q, "type")));
            assert_true(p->required || p->kind == PARAM_INTS || p->kind == PARAM_NAMES ||
                        json_object_get(q, "default"));
        }
    }
    json_decref(all);
}

static void the_json_has_types_ranges_choices_and_defaults(void **state)
{
    json_t *all = catalog_json();
    const json_t *asgd =
        json_object_get(by_name(json_object_get(all, "strategy"), "asgd"), "parameters");
    const json_t *p = by_name(asgd, "weighting");
    assert_string_equal(json_string_value(json_object_get(p, "type")), "enum");
    assert_string_equal(json_string_value(json_object_get(p, "default")), "sample");
    const json_t *choices = json_object_get(p, "choices");
    assert_int_equal(json_array_size(choices), 2);
    assert_string_equal(json_string_value(json_array_get(choices, 1)), "plain");
    p = by_name(asgd, "servers");
    /* whole numbers are printed as such */
    assert_true(json_is_integer(json_object_get(p, "default")));
    assert_int_equal(json_integer_value(json_object_get(p, "min")), 1);
    const json_t *dense = by_name(json_object_get(all, "layer"), "dense");
    p = by_name(json_object_get(dense, "parameters"), "units");
    assert_true(json_is_true(json_object_get(p, "required")));
    assert_null(json_object_get(p, "default"));
    p = by_name(json_object_get(dense, "parameters"), "bias");
    assert_string_equal(json_string_value(json_object_get(p, "type")), "boolean");
    assert_true(json_is_true(json_object_get(p, "default")));
    json_decref(all);
}

static const json_t *strategy_of(const json_t *all, const char *name)
{
    return by_name(json_object_get(all, "strategy"), name);
}

/* The page knows strategies only by these. */
static void the_json_says_how_strategies_exchange_and_what_their_figure_is(void **state)
{
    json_t *all = catalog_json();
    const json_t *local = strategy_of(all, "local-sgd"), *asgd = strategy_of(all, "asgd"),
                 *figure = json_object_get(local, "figure");
    assert_string_equal(jsonx_string_at(strategy_of(all, "sync"), "replicas"), "alike");
    assert_string_equal(jsonx_string_at(local, "replicas"), "averaged");
    assert_string_equal(jsonx_string_at(asgd, "replicas"), "other");
    assert_string_equal(jsonx_string_at(local, "exchanges_every"), "k");
    assert_null(json_object_get(asgd, "exchanges_every"));
    assert_null(json_object_get(asgd, "figure"));
    assert_string_equal(jsonx_string_at(figure, "title"), "Distance of the replicas");
    assert_true(json_is_null(json_object_get(figure, "level")));
    figure = json_object_get(strategy_of(all, "dc-asgd"), "figure");
    assert_true(json_real_value(json_object_get(figure, "level")) == 1);
    assert_null(json_object_get(by_name(json_object_get(all, "layer"), "dense"), "replicas"));
    json_decref(all);
}

static bool is_series(const char *name)
{
    for (int i = 0; i < ROW_COLUMNS; i++) {
        if (strcmp(row_columns[i].name, name) == 0) {
            return row_columns[i].series == ROW_NODE;
        }
    }
    return false;
}

static void what_the_catalogue_says_of_a_strategy_is_there(void **state)
{
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *e = catalog_get(id);
        const struct strategy_traits *t = strategy_traits(id);
        if (t->figure.series && !is_series(t->figure.series)) {
            fail_msg("%s: rows have no series '%s' of a node", e->name, t->figure.series);
        }
        if (t->exchanges_every && !param_find(e, t->exchanges_every)) {
            fail_msg("%s has no parameter '%s'", e->name, t->exchanges_every);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_is_found_by_kind_and_name),
        cmocka_unit_test(the_strategies_and_policies_of_the_design_are_offered),
        cmocka_unit_test(names_of_a_kind_are_listed_in_the_order_of_the_file),
        cmocka_unit_test(parameters_are_sound),
        cmocka_unit_test(server_strategies_share_their_parameters),
        cmocka_unit_test(the_json_lists_every_entry_with_every_parameter),
        cmocka_unit_test(the_json_has_types_ranges_choices_and_defaults),
        cmocka_unit_test(the_json_says_how_strategies_exchange_and_what_their_figure_is),
        cmocka_unit_test(what_the_catalogue_says_of_a_strategy_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
