/* See logged.h. */
#include "job/documents/ranks/logged.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double longest = 1e12;

void logged_write(json_t *j, const struct logged *l)
{
    json_t *names = json_array(), *steps = json_array(), *epochs = json_array(),
           *times = json_array(), *values = json_array();
    for (int i = 0; i < l->count; i++) {
        const struct logged_point *p = &l->points[i];
        json_array_append_new(names, jsonx_text(p->name));
        json_array_append_new(steps, json_integer((json_int_t)p->step));
        json_array_append_new(epochs, json_real(p->epoch));
        json_array_append_new(times, json_real(p->time));
        json_array_append_new(values, document_real(p->value));
    }
    json_object_set_new(j, "names", names);
    json_object_set_new(j, "steps", steps);
    json_object_set_new(j, "epochs", epochs);
    json_object_set_new(j, "times", times);
    json_object_set_new(j, "values", values);
}

/* A number of the list `key`, within these bounds. */
static double number_of(const struct document *d, const char *key, const json_t *list, size_t i,
                        double least)
{
    const json_t *v = json_array_get(list, i);
    double x = json_number_value(v);
    if (!json_is_number(v) || x < least || x > longest) {
        document_problem(d, key, "must hold numbers, %g to %g", least, longest);
        return 0;
    }
    return x;
}

static void parse_point(const struct document *d, const json_t *lists[5], size_t i,
                        struct logged_point *out)
{
    const json_t *value = json_array_get(lists[4], i);
    const char *name = json_string_value(json_array_get(lists[0], i));
    if (!name || !name[0] || strlen(name) >= LOGGED_NAME) {
        document_problem(d, "names", "must hold texts of 1 to %d bytes", LOGGED_NAME - 1);
        return;
    }
    snprintf(out->name, sizeof out->name, "%s", name);
    out->step = (int64_t)number_of(d, "steps", lists[1], i, 0);
    out->epoch = number_of(d, "epochs", lists[2], i, 0);
    out->time = number_of(d, "times", lists[3], i, -longest);
    out->value = json_is_number(value) ? json_number_value(value) : NAN;
    if (!json_is_number(value) && !json_is_null(value)) {
        document_problem(d, "values", "must hold numbers, or null");
    }
}

void logged_parse(const struct document *d, struct logged *out)
{
    static const char *const keys[] = {"names", "steps", "epochs", "times", "values"};
    const json_t *lists[5];
    memset(out, 0, sizeof *out);
    lists[0] = document_list(d, keys[0], 1, LOGGED_MOST);
    size_t n = json_array_size(lists[0]);
    bool all = lists[0] != NULL;
    for (int i = 1; i < 5 && lists[0]; i++) {
        lists[i] = document_list(d, keys[i], n, n);
        all = all && lists[i];
    }
    if (!all) {
        return;
    }
    out->points = calloc(n, sizeof *out->points);
    BUG_ON(!out->points);
    out->count = (int)n;
    for (size_t i = 0; i < n; i++) {
        parse_point(d, lists, i, &out->points[i]);
    }
}

void logged_release(struct logged *l)
{
    free(l->points);
    memset(l, 0, sizeof *l);
}
