/* See filter.h. */
#include "job/filter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *sign;
    enum filter_test test;
} signs[] = {{"!=", FILTER_IS_NOT}, {">=", FILTER_AT_LEAST}, {"<=", FILTER_AT_MOST},
             {"=", FILTER_IS},      {">", FILTER_ABOVE},     {"<", FILTER_BELOW}};
enum { SIGNS = sizeof signs / sizeof *signs };

const char *filter_metric(const char *path)
{
    static const char root[] = "logged.";
    return strncmp(path, root, strlen(root)) == 0 ? path + strlen(root) : NULL;
}

static bool is_metric(const char *name)
{
    const char *at = name;
    while ((unsigned char)*at >= ' ' && !strchr(",!=<>\x7f", *at)) {
        at++;
    }
    return at > name && !*at;
}

bool filter_is_path(const char *path)
{
    const char *at = path, *metric = filter_metric(path);
    if (metric) {
        return is_metric(metric) && strlen(path) < FILTER_PATH;
    }
    for (;; at++) {
        size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        at += n;
        if (n == 0 || (*at && *at != '.') || at - path >= FILTER_PATH) {
            return false;
        }
        if (!*at) {
            return true;
        }
    }
}

static bool number_of(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

/* The operator that a condition has at `at`; SIGNS: none. */
static size_t sign_at(const char *at)
{
    size_t i = 0;
    while (i < SIGNS && strncmp(at, signs[i].sign, strlen(signs[i].sign)) != 0) {
        i++;
    }
    return i;
}

/* n bytes. */
static int parse_one(struct condition *c, const char *text, size_t n, struct err *e)
{
    size_t key = strcspn(text, "!=<>"), sign = key < n ? sign_at(text + key) : SIGNS;
    const char *value = sign < SIGNS ? text + key + strlen(signs[sign].sign) : text;
    size_t left = n - (size_t)(value - text);
    if (sign == SIGNS || value > text + n || left == 0) {
        return err_set(
            e, ERR_INVALID,
            "the condition '%.*s' is malformed, expected PATH, one of = != >= <= > <, VALUE",
            (int)(n < 100 ? n : 100), text);
    }
    snprintf(c->path, sizeof c->path, "%.*s", (int)(key < FILTER_PATH ? key : 0), text);
    if (!filter_is_path(c->path) || left >= FILTER_TEXT) {
        return err_set(e, ERR_INVALID, "the condition '%.*s' %s", (int)(n < 100 ? n : 100), text,
                       left >= FILTER_TEXT
                           ? "has too long a value"
                           : "does not begin with a path of keys with dots between");
    }
    memcpy(c->text, value, left);
    c->text[left] = '\0';
    c->test = signs[sign].test;
    c->is_number = number_of(c->text, &c->number);
    return 0;
}

int filter_parse(struct filter *f, const char *text, struct err *e)
{
    f->n = 0;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        if (f->n == FILTER_CONDITIONS) {
            return err_set(e, ERR_INVALID, "there are more than %d conditions", FILTER_CONDITIONS);
        }
        int rc = parse_one(&f->all[f->n++], at, n, e);
        if (rc < 0) {
            return rc;
        }
        at += n;
        if (!*at) {
            return 0;
        }
    }
}

/* The difference of a value and the condition's: below, equal or above 0; NAN: the two have no
 * order. */
static double difference(const struct condition *c, const struct filter_value *v)
{
    if (v->kind == VALUE_NUMBER) {
        return c->is_number ? (v->number > c->number) - (v->number < c->number) : NAN;
    }
    return strcmp(v->text, c->text);
}

bool condition_holds(const struct condition *c, const struct filter_value *v)
{
    double d = v->kind == VALUE_NONE ? NAN : difference(c, v);
    if (isnan(d)) { /* a number and a text cannot be compared */
        return c->test == FILTER_IS_NOT && v->kind != VALUE_NONE;
    }
    switch (c->test) {
    case FILTER_IS:
        return d == 0;
    case FILTER_IS_NOT:
        return d != 0;
    case FILTER_AT_LEAST:
        return d >= 0;
    case FILTER_AT_MOST:
        return d <= 0;
    case FILTER_ABOVE:
        return d > 0;
    default:
        return d < 0;
    }
}

struct filter_value filter_value_of(struct jsontext v)
{
    struct filter_value out = {.kind = VALUE_NONE};
    if (jsontext_number(v, &out.number)) {
        out.kind = VALUE_NUMBER;
    } else if (v.at && strchr("\"tf", *v.at)) {
        size_t quotes = *v.at == '"', n = v.len - 2 * quotes;
        out.kind = VALUE_TEXT;
        snprintf(out.text, sizeof out.text, "%.*s", (int)(n < FILTER_TEXT ? n : FILTER_TEXT),
                 v.at + quotes);
    }
    return out;
}

int filter_compare(const struct filter_value *a, const struct filter_value *b)
{
    if (a->kind != b->kind) {
        return (a->kind > b->kind) - (a->kind < b->kind);
    }
    if (a->kind == VALUE_NUMBER) {
        return (a->number > b->number) - (a->number < b->number);
    }
    int c = strcasecmp(a->text, b->text);
    c = c ? c : strcmp(a->text, b->text);
    return (c > 0) - (c < 0);
}
