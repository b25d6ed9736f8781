/* See job_query.h. */
#include "http/api/job_query.h"

#include <stdio.h>
#include <string.h>

#include "common/text/words.h"
#include "http/openapi/schemas.h"
#include "http/request/request.h"
#include "job/spec/spec.h"
#include "job/tags.h"

enum { KEYS_MOST = 64, KEY_BYTES = 64 };

/* The keys of an object of a job. */
struct keys {
    const char *names[KEYS_MOST];
    int n;
};

static void problem_of_key(struct jsonx_problems *problems, const char *param, const char *of,
                           const char *key, const struct keys *keys)
{
    const char *near = jsonx_nearest(key, keys->names, keys->n);
    jsonx_problem(problems, param, "%s has no '%s'%s%s%s", of, key, near ? ", did you mean '" : "",
                  near ? near : "", near ? "'?" : "");
}

static bool has_key(const struct keys *keys, const char *key)
{
    int i = 0;
    while (i < keys->n && strcmp(keys->names[i], key) != 0) {
        i++;
    }
    return i < keys->n;
}

static void keys_of(struct keys *keys, const struct schema_field *fields, int n)
{
    for (keys->n = 0; keys->n < n && keys->n < KEYS_MOST; keys->n++) {
        keys->names[keys->n] = fields[keys->n].name;
    }
}

/* ---- fields ---------------------------------------------------------------------------------- */

static void check_fields(struct jsonx_problems *problems, const char *words)
{
    struct schema_field all[SCHEMA_FIELDS];
    struct keys keys;
    char word[KEY_BYTES];
    keys_of(&keys, all, schema_fields("Job", all, SCHEMA_FIELDS));
    while (words_next(&words, word, sizeof(word))) {
        if (!has_key(&keys, word)) {
            problem_of_key(problems, "fields", "a job", word, &keys);
        }
    }
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Checks the first key of "strategy.type" of the spec. What lies below depends on the job. */
static void check_setting(struct jsonx_problems *problems, const char *param, const char *path)
{
    json_t *all = jobspec_schemas(), *value;
    json_t *properties = json_object_get(json_object_get(all, "JobSpec"), "properties");
    struct keys keys = {.n = 0};
    const char *name;
    char key[KEY_BYTES];
    json_object_foreach(properties, name, value) {
        if (keys.n < KEYS_MOST) {
            keys.names[keys.n++] = name;
        }
    }
    snprintf(key, sizeof(key), "%.*s", (int)strcspn(path, "."), path);
    if (!has_key(&keys, key)) {
        problem_of_key(problems, param, "a job's spec", key, &keys);
    }
    json_decref(all);
}

/* Checks what follows a key of this type: nothing after a single value, a key after an object. */
static void check_rest(struct jsonx_problems *problems, const char *param,
                       const struct schema_field *field, const char *rest)
{
    struct schema_field all[SCHEMA_FIELDS];
    struct keys keys;
    if (field->type[0] == '{') { /* any keys */
        if (rest[0] != '.' || !rest[1]) {
            jsonx_problem(problems, param, "'%s' of a job has several values, such as %s.NAME",
                          field->name, field->name);
        }
        return;
    }
    char type[64], of[80];
    snprintf(type, sizeof(type), "%.*s", (int)strcspn(field->type, "?"), field->type);
    bool is_spec = strcmp(type, "JobSpec") == 0, is_word = strcmp(type, "JobState") == 0;
    int n = schema_fields(type, all, SCHEMA_FIELDS);
    bool is_object = !is_word && (is_spec || n > 0);
    if (type[0] == '[' || strcmp(type, "Tags") == 0 || is_object != (*rest == '.')) {
        jsonx_problem(problems, param,
                      is_object ? "'%s' of a job has several values, such as %s.%s"
                                : "'%s' of a job cannot be compared",
                      field->name, field->name,
                      is_spec ? "model"
                      : n     ? all[0].name
                              : "");
    } else if (is_spec) {
        check_setting(problems, param, rest + 1);
    } else if (is_object) {
        keys_of(&keys, all, n);
        snprintf(of, sizeof(of), "'%s' of a job", field->name);
        if (!has_key(&keys, rest + 1)) {
            problem_of_key(problems, param, of, rest + 1, &keys);
        }
    }
}

static void check_path(struct jsonx_problems *problems, const char *param, const char *path)
{
    struct schema_field all[SCHEMA_FIELDS];
    struct keys keys;
    int n = schema_fields("Job", all, SCHEMA_FIELDS), i = 0;
    char key[KEY_BYTES];
    snprintf(key, sizeof(key), "%.*s", (int)strcspn(path, "."), path);
    while (i < n && strcmp(all[i].name, key) != 0) {
        i++;
    }
    if (i < n) {
        check_rest(problems, param, &all[i], path + strlen(key));
    } else {
        keys_of(&keys, all, n);
        problem_of_key(problems, param, "a job", key, &keys);
    }
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void check_tags(struct jsonx_problems *problems, const char *tags)
{
    char tag[KEY_BYTES];
    while (words_next(&tags, tag, sizeof(tag))) {
        if (!tag_valid(tag)) {
            jsonx_problem(problems, "tag", "'%s' cannot be the tag of a job", tag);
        }
    }
}

void job_query_check_order(const char *order, struct jsonx_problems *problems)
{
    const char *path = order + (*order == '-');
    if (!filter_is_path(path)) {
        jsonx_problem(
            problems, "sort",
            "'%.60s' is not an order: expected created, -created, priority, name, or a path "
            "such as -metrics.best_test_accuracy",
            order);
    } else {
        check_path(problems, "sort", path);
    }
}

void job_query_check_conditions(const char *conditions, struct jsonx_problems *problems)
{
    struct filter where;
    struct err e;
    if (filter_parse(&where, conditions, &e) < 0) {
        jsonx_problem(problems, "where", "%s", e.message);
        return;
    }
    for (int i = 0; i < where.n; i++) {
        check_path(problems, "where", where.all[i].path);
    }
}

int job_query_read(struct request *q, struct job_query *query, struct filter *where, struct err *e)
{
    const char *conditions = request_param(q, "where");
    *query = (struct job_query){.states = request_param(q, "state"),
                                .q = request_param(q, "q"),
                                .tags = request_param(q, "tag"),
                                .owner = request_param(q, "owner"),
                                .where = conditions ? where : NULL,
                                .sort = request_param(q, "sort"),
                                .cursor = request_param(q, "cursor"),
                                .fields = request_param(q, "fields"),
                                .limit = (int)request_int(q, "limit", 50)};
    if (query->fields) {
        check_fields(&q->problems, query->fields);
    }
    if (query->tags) {
        check_tags(&q->problems, query->tags);
    }
    if (conditions && filter_parse(where, conditions, e) < 0) {
        return -(int)e->code;
    }
    return q->problems.count == 0 ? 0 : request_not_valid(q, "the query of this request", e);
}
