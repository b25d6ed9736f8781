/* Reads JSON objects against rows of struct catalog_param: the one place where kinds, ranges,
 * defaults and unknown keys are checked, for the job spec and for layers alike. It never stops at
 * the first mistake. After a mistake `full` lacks the key, so cross-checks between keys may only be
 * made when both were read without a report.
 */
#include "job/spec/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text.h"

const char *fields_show(char out[48], const json_t *v)
{
    char *text = v != NULL ? jsonx_dump(v, false, NULL) : NULL;
    if (text == NULL) {
        snprintf(out, 48, "nothing");
    } else if (strlen(text) < 40) {
        snprintf(out, 48, "%s", text);
    } else {
        size_t n = 36;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
            n--; /* does not cut a character in two */
        }
        snprintf(out, 48, "%.*s...", (int)n, text);
    }
    free(text);
    return out;
}

void fields_problem(struct fields *f, const char *key, const char *fmt, ...)
{
    char pointer[FIELDS_POINTER], message[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    jsonx_problem(f->problems, jsonx_join(pointer, sizeof pointer, f->pointer, key), "%s", message);
}

void fields_open(struct fields *f, const json_t *given, json_t *full, const char *pointer,
                 struct jsonx_problems *problems)
{
    *f = (struct fields){.full = full, .problems = problems};
    snprintf(f->pointer, sizeof f->pointer, "%s", pointer);
    if (given != NULL && !json_is_object(given)) {
        char shown[48];
        jsonx_problem(problems, pointer, "this must be an object, not %s",
                      fields_show(shown, given));
        return;
    }
    f->given = given;
}

void fields_close(struct fields *f)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)f->given, key, value) {
        bool known = false;
        for (int i = 0; i < f->n_known && !known; i++) {
            known = strcmp(f->known[i], key) == 0;
        }
        if (known) {
            continue;
        }
        const char *near = jsonx_nearest(key, f->known, f->n_known),
                   *place = f->place != NULL ? f->place(key) : NULL;
        if (place != NULL) {
            fields_problem(f, key, "the key '%.60s' belongs into '%s'", key, place);
        } else if (near != NULL) {
            fields_problem(f, key, "the key '%.60s' is not known here; did you mean '%s'?", key,
                           near);
        } else {
            fields_problem(f, key, "the key '%.60s' is not known here", key);
        }
    }
}

const json_t *fields_get(struct fields *f, const char *key)
{
    BUG_ON(f->n_known == FIELDS_KNOWN);
    f->known[f->n_known++] = key;
    const json_t *v = json_object_get(f->given, key);
    return json_is_null(v) ? NULL : v;
}

const json_t *fields_need(struct fields *f, const char *key)
{
    const json_t *v = fields_get(f, key);
    if (v == NULL) {
        fields_problem(f, key, "'%s' is needed", key);
    }
    return v;
}

bool fields_number(struct fields *f, const char *pointer, const json_t *v, bool whole, double min,
                   double max, double *out)
{
    char shown[48];
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(x >= min && x <= max) || (whole && x != floor(x))) {
        jsonx_problem(f->problems, pointer,
                      whole ? "this must be a %s from %.0f to %.0f, not %s"
                            : "this must be a %s from %.15g to %.15g, not %s",
                      whole ? "whole number" : "number", min, max, fields_show(shown, v));
        return false;
    }
    *out = x;
    return true;
}

static json_t *number(double x, bool whole)
{
    return whole ? json_integer((json_int_t)x) : json_real(x);
}

static bool read_number(struct fields *f, const struct catalog_param *p, const json_t *v)
{
    char pointer[FIELDS_POINTER];
    double x = p->fallback;
    bool whole = p->kind == PARAM_INT;
    if (v != NULL && !fields_number(f, jsonx_join(pointer, sizeof pointer, f->pointer, p->name), v,
                                    whole, p->min, p->max, &x)) {
        return false;
    }
    json_object_set_new(f->full, p->name, number(x, whole));
    return true;
}

static bool read_bool(struct fields *f, const struct catalog_param *p, const json_t *v)
{
    char shown[48];
    if (v != NULL && !json_is_boolean(v)) {
        fields_problem(f, p->name, "'%s' must be true or false, not %s", p->name,
                       fields_show(shown, v));
        return false;
    }
    json_object_set_new(f->full, p->name,
                        json_boolean(v != NULL ? json_is_true(v) : p->fallback != 0));
    return true;
}

static bool is_choice(const char *choices, const char *name)
{
    size_t n = strlen(name);
    for (const char *c = choices; n > 0 && c != NULL;
         c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL) {
        if (strncmp(c, name, n) == 0 && (c[n] == '|' || c[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool read_enum(struct fields *f, const struct catalog_param *p, const json_t *v)
{
    char shown[48];
    const char *text = v != NULL ? json_string_value(v) : p->fallback_text;
    if (text == NULL || !is_choice(p->choices, text)) {
        fields_problem(f, p->name, "'%s' must be one of %s, not %s", p->name, p->choices,
                       fields_show(shown, v));
        return false;
    }
    json_object_set_new(f->full, p->name, json_string(text));
    return true;
}

/* "auto", or a whole number. */
static bool read_auto(struct fields *f, const struct catalog_param *p, const json_t *v)
{
    const char *text = v != NULL ? json_string_value(v) : p->fallback_text;
    if (text == NULL) {
        struct catalog_param number = *p;
        number.kind = PARAM_INT;
        return read_number(f, &number, v);
    }
    if (strcmp(text, p->fallback_text) != 0) {
        fields_problem(f, p->name, "'%s' must be a whole number or \"%s\", not \"%.40s\"", p->name,
                       p->fallback_text, text);
        return false;
    }
    json_object_set_new(f->full, p->name, json_string(text));
    return true;
}

/* Reads a number, or one number per axis; `full` always has two. */
static bool read_ints(struct fields *f, const struct catalog_param *p, const json_t *v)
{
    char pointer[FIELDS_POINTER], at[FIELDS_POINTER], shown[48];
    jsonx_join(pointer, sizeof pointer, f->pointer, p->name);
    double x[2] = {0, 0};
    bool good = true;
    if (v == NULL) {
        return true;
    }
    if (json_is_array(v) && json_array_size(v) == 2) {
        for (size_t i = 0; i < 2; i++) {
            good = fields_number(f, jsonx_join_index(at, sizeof at, pointer, i),
                                 json_array_get(v, i), true, p->min, p->max, &x[i]) &&
                   good;
        }
    } else if (json_is_array(v)) {
        fields_problem(f, p->name,
                       "'%s' must be a number or an array of two (height, width), not %s", p->name,
                       fields_show(shown, v));
        good = false;
    } else {
        good = fields_number(f, pointer, v, true, p->min, p->max, &x[0]);
        x[1] = x[0];
    }
    if (good) {
        json_object_set_new(f->full, p->name, json_pack("[i,i]", (int)x[0], (int)x[1]));
    }
    return good;
}

static bool read_names(struct fields *f, const struct catalog_param *p, const json_t *v)
{
    char shown[48];
    bool good = v == NULL || json_is_array(v);
    for (size_t i = 0; good && i < json_array_size(v); i++) {
        good = json_is_string(json_array_get(v, i));
    }
    if (!good) {
        fields_problem(f, p->name, "'%s' must be an array of names, not %s", p->name,
                       fields_show(shown, v));
    } else if (v != NULL) {
        json_object_set_new(f->full, p->name, json_deep_copy(v));
    }
    return good;
}

bool fields_param(struct fields *f, const struct catalog_param *p)
{
    const json_t *v = p->required ? fields_need(f, p->name) : fields_get(f, p->name);
    if (v == NULL && p->required) {
        return false;
    }
    switch (p->kind) {
    case PARAM_INT:
    case PARAM_REAL:
        return read_number(f, p, v);
    case PARAM_BOOL:
        return read_bool(f, p, v);
    case PARAM_ENUM:
        return read_enum(f, p, v);
    case PARAM_INTS:
        return read_ints(f, p, v);
    case PARAM_NAMES:
        return read_names(f, p, v);
    case PARAM_AUTO:
        return read_auto(f, p, v);
    }
    return false;
}

bool fields_params(struct fields *f, const struct catalog_param *params)
{
    bool good = true;
    for (const struct catalog_param *p = params; p->name != NULL; p++) {
        good = fields_param(f, p) && good;
    }
    return good;
}

const char *fields_text(struct fields *f, const char *key, bool required, size_t max)
{
    const json_t *v = required ? fields_need(f, key) : fields_get(f, key);
    char shown[48];
    if (v == NULL) {
        return NULL;
    }
    const char *text = json_string_value(v);
    size_t n = json_string_length(v);
    if (text == NULL || n == 0 || n >= max) {
        fields_problem(f, key, "'%s' must be text of 1 to %zu bytes, not %s", key, max - 1,
                       fields_show(shown, v));
        return NULL;
    }
    size_t unsafe = text_unsafe(text, n);
    if (unsafe < n) {
        fields_problem(f, key, "'%s' contains a control character at byte %zu", key, unsafe);
        return NULL;
    }
    json_object_set_new(f->full, key, json_string(text));
    return text;
}

const char *fields_name(struct fields *f, const char *key, bool required, size_t max)
{
    const char *text = fields_text(f, key, required, max);
    char wrong[TEXT_WRONG];
    if (text && text_name_wrong(wrong, text, strlen(text))) {
        fields_problem(f, key, "'%s' %s", key, wrong);
        return NULL;
    }
    return text;
}

const struct catalog_entry *fields_entry(struct fields *f, const char *key, enum catalog_kind kind,
                                         const char *fallback)
{
    const json_t *v = fallback == NULL ? fields_need(f, key) : fields_get(f, key);
    if (v == NULL && fallback == NULL) {
        return NULL;
    }
    const char *kind_name = catalog_kind_name(kind);
    const char *name = v != NULL ? json_string_value(v) : fallback;
    const struct catalog_entry *entry = catalog_find(kind, name);
    char shown[48];
    if (name == NULL) {
        fields_problem(f, key, "'%s' must name a %s, not %s", key, kind_name,
                       fields_show(shown, v));
    } else if (entry == NULL) {
        int n;
        const char *const *names = catalog_names(kind, &n);
        const char *near = jsonx_nearest(name, names, n);
        char list[200] = "";
        for (int i = 0; i < n; i++) {
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
        }
        if (near != NULL) {
            fields_problem(f, key, "there is no %s '%.40s'; did you mean '%s'?", kind_name, name,
                           near);
        } else {
            fields_problem(f, key, "there is no %s '%.40s'; there are: %s", kind_name, name, list);
        }
    } else {
        json_object_set_new(f->full, key, json_string(name));
    }
    return entry;
}

double fields_real(const json_t *full, const char *key)
{
    return json_number_value(json_object_get(full, key));
}

int64_t fields_int(const json_t *full, const char *key)
{
    return json_integer_value(json_object_get(full, key));
}

bool fields_has_param(const struct catalog_param *params, const char *name)
{
    for (const struct catalog_param *p = params; p->name != NULL; p++) {
        if (strcmp(p->name, name) == 0) {
            return true;
        }
    }
    return false;
}
