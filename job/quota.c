/* See quota.h. */
#include "job/quota.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/text/size.h"
#include "common/text/text.h"

enum limit_kind { LIMIT_COUNT, LIMIT_SIZE, LIMIT_SECONDS };

static const struct limit {
    const char *name;
    enum limit_kind kind;
    size_t at; /* in struct quota */
} limits[] = {
    {"queued", LIMIT_COUNT, offsetof(struct quota, queued)},
    {"running", LIMIT_COUNT, offsetof(struct quota, running)},
    {"nodes", LIMIT_COUNT, offsetof(struct quota, nodes)},
    {"disk", LIMIT_SIZE, offsetof(struct quota, disk_bytes)},
    {"seconds", LIMIT_SECONDS, offsetof(struct quota, seconds)},
    {"max_seconds", LIMIT_SECONDS, offsetof(struct quota, max_seconds)},
    {"max_wall_seconds", LIMIT_SECONDS, offsetof(struct quota, max_wall_seconds)},
};
enum { LIMITS = sizeof limits / sizeof *limits };
static const double most_count = 1e6, most_seconds = 1e9, usual_keep = 60;

/* ---- reading one value ----------------------------------------------------------------------- */

/* The value as a number; negative: it is not valid. */
static double number_of(const struct limit *l, const json_t *given)
{
    double value = json_is_number(given) ? json_number_value(given) : -1;
    int64_t bytes;
    switch (l->kind) {
    case LIMIT_COUNT:
        return json_is_integer(given) && value <= most_count ? value : -1;
    case LIMIT_SIZE:
        if (json_is_string(given)) {
            return size_parse(json_string_value(given), &bytes) ? (double)bytes : -1;
        }
        return json_is_integer(given) ? value : -1;
    default:
        return value > 0 && value <= most_seconds ? value : -1;
    }
}

static const char *expected(const struct limit *l)
{
    return l->kind == LIMIT_COUNT  ? "expected a whole number from 0 to 1000000, or null"
           : l->kind == LIMIT_SIZE ? "expected a number of bytes, or text such as \"20G\", or null"
                                   : "expected seconds, above 0 and at most 1000000000, or null";
}

static void set(struct quota *q, const struct limit *l, const json_t *given)
{
    double value = json_is_null(given) ? -1 : number_of(l, given);
    char *field = (char *)q + l->at;
    if (l->kind == LIMIT_COUNT) {
        *(int *)(void *)field = (int)value;
    } else if (l->kind == LIMIT_SIZE) {
        *(int64_t *)(void *)field = (int64_t)value;
    } else {
        *(double *)(void *)field = value;
    }
}

/* ---- the document ---------------------------------------------------------------------------- */

static const struct limit *find(const char *name)
{
    for (int i = 0; i < LIMITS; i++) {
        if (strcmp(limits[i].name, name) == 0) {
            return &limits[i];
        }
    }
    return NULL;
}

static void unknown(struct jsonx_problems *problems, const char *at, const char *key,
                    const char *const *names, int n)
{
    const char *nearest = jsonx_nearest(key, names, n);
    jsonx_problem(problems, at, "unknown key%s%s%s", nearest ? ", did you mean '" : "",
                  nearest ? nearest : "", nearest ? "'?" : "");
}

static void check_entry(const json_t *entry, const char *pointer, struct jsonx_problems *problems)
{
    const char *names[LIMITS], *key;
    char at[200];
    json_t *value;
    for (int i = 0; i < LIMITS; i++) {
        names[i] = limits[i].name;
    }
    if (!json_is_object(entry)) {
        jsonx_problem(problems, pointer, "expected an object of limits");
        return;
    }
    json_object_foreach((json_t *)entry, key, value) {
        const struct limit *l = find(key);
        jsonx_join(at, sizeof at, pointer, key);
        if (!l) {
            unknown(problems, at, key, names, LIMITS);
        } else if (!json_is_null(value) && number_of(l, value) < 0) {
            jsonx_problem(problems, at, "%s", expected(l));
        }
    }
}

static void check_owners(const json_t *owners, struct jsonx_problems *problems)
{
    char at[200], wrong[TEXT_WRONG];
    const char *key;
    json_t *value;
    if (!json_is_object(owners)) {
        jsonx_problem(problems, "/owners", "expected an object: name of an owner to limits");
        return;
    }
    json_object_foreach((json_t *)owners, key, value) {
        if (text_name_wrong(wrong, key, strlen(key))) {
            jsonx_problem(problems, jsonx_join(at, sizeof at, "/owners", key),
                          "the name of an owner %s", wrong);
        }
        check_entry(value, jsonx_join(at, sizeof at, "/owners", key), problems);
    }
}

static void check_preemption(const json_t *given, struct jsonx_problems *problems)
{
    static const char *const names[] = {"after", "keep"};
    char at[200];
    const char *key;
    json_t *value;
    if (!json_is_object(given)) {
        jsonx_problem(problems, "/preemption", "expected an object with after and keep");
        return;
    }
    json_object_foreach((json_t *)given, key, value) {
        double seconds = json_is_number(value) ? json_number_value(value) : -1;
        jsonx_join(at, sizeof at, "/preemption", key);
        if (strcmp(key, "after") != 0 && strcmp(key, "keep") != 0) {
            unknown(problems, at, key, names, 2);
        } else if (seconds < 0 || seconds > most_seconds) {
            jsonx_problem(problems, at, "expected seconds, from 0 to 1000000000");
        }
    }
}

bool quota_check(const json_t *document, struct jsonx_problems *problems)
{
    static const char *const names[] = {"default", "owners", "preemption"};
    int before = problems->count + problems->dropped;
    char at[200];
    const char *key;
    json_t *value;
    if (!json_is_object(document)) {
        jsonx_problem(problems, "", "expected an object");
        return false;
    }
    json_object_foreach((json_t *)document, key, value) {
        jsonx_join(at, sizeof at, "", key);
        if (strcmp(key, "default") == 0) {
            check_entry(value, at, problems);
        } else if (strcmp(key, "owners") == 0) {
            check_owners(value, problems);
        } else if (strcmp(key, "preemption") == 0) {
            check_preemption(value, problems);
        } else {
            unknown(problems, at, key, names, 3);
        }
    }
    return problems->count + problems->dropped == before;
}

void quota_of(const json_t *document, const char *owner, struct quota *out)
{
    const json_t *all = json_object_get(document, "default"),
                 *own = json_object_get(json_object_get(document, "owners"), owner);
    for (int i = 0; i < LIMITS; i++) {
        const json_t *given = json_object_get(own, limits[i].name);
        given = given ? given : json_object_get(all, limits[i].name);
        set(out, &limits[i], given ? given : json_null());
    }
}

struct preemption quota_preemption(const json_t *document)
{
    const json_t *given = json_object_get(document, "preemption"),
                 *after = json_object_get(given, "after"), *keep = json_object_get(given, "keep");
    return (struct preemption){.after = after ? json_number_value(after) : -1,
                               .keep = keep ? json_number_value(keep) : usual_keep};
}

static json_t *count_json(int64_t n)
{
    return n < 0 ? json_null() : json_integer((json_int_t)n);
}

static json_t *seconds_json(double seconds)
{
    return seconds < 0 ? json_null() : json_real(seconds);
}

json_t *quota_json(const struct quota *q)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "queued", count_json(q->queued),
                     "running", count_json(q->running), "nodes", count_json(q->nodes), "disk_bytes",
                     count_json(q->disk_bytes), "seconds", seconds_json(q->seconds), "max_seconds",
                     seconds_json(q->max_seconds), "max_wall_seconds",
                     seconds_json(q->max_wall_seconds));
}
