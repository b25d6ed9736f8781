/* Conditions on a job's document, by which lists are filtered:
 *
 *     spec.strategy.type=sync,metrics.best_test_accuracy>=0.98
 *     └── path ────────┘│└ value
 *                       operator: = != >= <= > <
 *
 * All of them must hold. Numbers are compared as numbers, texts character by character. A value
 * that is missing or null fulfils no condition. http/openapi/schemas.c knows which paths a job has;
 * the store knows where their values are kept.
 */
#ifndef JOB_FILTER_H
#define JOB_FILTER_H

#include <stdbool.h>

#include "common/err.h"
#include "common/json/jsontext.h"

enum { FILTER_CONDITIONS = 16, FILTER_PATH = 128, FILTER_TEXT = 128 };

enum filter_test {
    FILTER_IS,
    FILTER_IS_NOT,
    FILTER_AT_LEAST,
    FILTER_AT_MOST,
    FILTER_ABOVE,
    FILTER_BELOW
};

struct condition {
    char path[FILTER_PATH]; /* keys with dots between */
    enum filter_test test;
    char text[FILTER_TEXT]; /* the value as it was given */
    bool is_number;
    double number; /* if is_number */
};

struct filter {
    struct condition all[FILTER_CONDITIONS];
    int n;
};

/* A value of a job, for comparing and sorting. */
struct filter_value {
    enum { VALUE_NONE, VALUE_NUMBER, VALUE_TEXT } kind;
    double number;          /* if VALUE_NUMBER */
    char text[FILTER_TEXT]; /* if VALUE_TEXT; a longer text is cut */
};

/* ERR_INVALID says which condition is wrong, and how. */
int filter_parse(struct filter *f, const char *text, struct err *e);
/* Does the text have the form of a path: keys of lower-case letters, digits and _, with dots
 * between? After "logged." it is the name of a metric, which a program chose: any characters but
 * , ! = < > and control characters. */
bool filter_is_path(const char *path);
/* The name of a logged metric, "bleu" in "logged.bleu"; NULL: it is another path. */
const char *filter_metric(const char *path);
bool condition_holds(const struct condition *c, const struct filter_value *v);
/* The value of a JSON text. Numbers are numbers; texts lose their quotes; true and false are texts;
 * anything else is VALUE_NONE. */
struct filter_value filter_value_of(struct jsontext v);
/* Orders by kind, then by value; texts by strcasecmp(), then by strcmp(). -1, 0 or 1. */
int filter_compare(const struct filter_value *a, const struct filter_value *b);

#endif
