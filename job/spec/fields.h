/* Reading a JSON object key by key: checks kind and range, fills in defaults, and reports unknown
 * keys. The keys are described by the same rows as the catalogue's parameters. Inside job/ only.
 *
 *   struct fields f;
 *   fields_open(&f, given, full, "/optimizer", problems);
 *   fields_params(&f, entry->params);     reads, checks, writes values and defaults into `full`
 *   fields_close(&f);                     reports what is left, with the nearest valid name
 */
#ifndef JOB_SPEC_FIELDS_H
#define JOB_SPEC_FIELDS_H

#include <stdbool.h>

#include "common/json/jsonx.h"
#include "job/spec/catalog.h"

enum { FIELDS_KNOWN = 64, FIELDS_POINTER = 200 };

struct fields {
    const json_t *given; /* borrowed; NULL if it was no object */
    json_t *full;        /* borrowed; gets every value that was read, or its default */
    char pointer[FIELDS_POINTER];
    struct jsonx_problems *problems;
    const char *known[FIELDS_KNOWN];
    int n_known;
    /* The section in this object to which an unknown key belongs, or NULL. The function may be
     * NULL. */
    const char *(*place)(const char *key);
};

/* `given` may be NULL (nothing was given: all defaults); another kind than an object is reported.
 */
void fields_open(struct fields *f, const json_t *given, json_t *full, const char *pointer,
                 struct jsonx_problems *problems);
void fields_close(struct fields *f);
/* Makes a key known and returns its value, or NULL (also for null). */
const json_t *fields_get(struct fields *f, const char *key);
/* As fields_get(), but reports a missing key. */
const json_t *fields_need(struct fields *f, const char *key);
/* Reads one described key into `full`. false if it was reported. */
bool fields_param(struct fields *f, const struct catalog_param *p);
bool fields_params(struct fields *f, const struct catalog_param *params);
/* Checks a value in another place, for example in an array. */
bool fields_number(struct fields *f, const char *pointer, const json_t *v, bool whole, double min,
                   double max, double *out);
/* Text of 1 to max-1 bytes without control characters, or NULL after reporting it. */
const char *fields_text(struct fields *f, const char *key, bool required, size_t max);
/* The same of a name, by the rule of names (common/text/text.h). */
const char *fields_name(struct fields *f, const char *key, bool required, size_t max);
/* The catalogue's entry that `key` names. If it is not given: the entry `fallback`; fallback NULL:
 * an error. */
const struct catalog_entry *fields_entry(struct fields *f, const char *key, enum catalog_kind kind,
                                         const char *fallback);
/* Reports a problem of one key. */
void fields_problem(struct fields *f, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The value for a message, shortened; returns out. */
const char *fields_show(char out[48], const json_t *v);

/* Values out of `full`; 0 if there is none. */
double fields_real(const json_t *full, const char *key);
int64_t fields_int(const json_t *full, const char *key);
bool fields_has_param(const struct catalog_param *params, const char *name);

#endif
