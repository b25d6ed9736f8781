/* How the notation of documents becomes JSON Schema; see schemas.h. */
#include "http/openapi/schemas.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "job/spec/spec.h"

/* Strings with a fixed form. */
static const struct {
    const char *name, *key, *value;
} words[] = {{"time", "format", "date-time"},
             {"id", "pattern", "^[0-9a-f]{16}$"},
             {"sha256", "pattern", "^[0-9a-f]{64}$"}};

/* "integer(1,16)": a number within bounds. */
static json_t *bounded(const char *type)
{
    double least = 0, most = 0;
    size_t n = strcspn(type, "(");
    sscanf(type + n, "(%lf,%lf)", &least, &most);
    bool whole = strncmp(type, "integer", n) == 0;
    return json_pack("{s:o, s:o, s:o}", "type", json_stringn(type, n), "minimum",
                     whole ? json_integer((json_int_t)least) : json_real(least), "maximum",
                     whole ? json_integer((json_int_t)most) : json_real(most));
}

/* "[number?]" and so on, n characters. */
static json_t *type_json(const char *type, size_t n)
{
    if (n > 1 && type[n - 1] == '?') {
        json_t *inner = type_json(type, n - 1);
        json_t *plain = json_object_get(inner, "type");
        if (json_is_string(plain)) {
            json_object_set_new(inner, "type", json_pack("[O, s]", plain, "null"));
            return inner;
        }
        return json_pack("{s:[o, {s:s}]}", "anyOf", inner, "type", "null");
    }
    if (n > 2 && type[0] == '[') {
        return json_pack("{s:s, s:o}", "type", "array", "items", type_json(type + 1, n - 2));
    }
    if (n > 2 && type[0] == '{') {
        return json_pack("{s:s, s:o}", "type", "object", "additionalProperties",
                         type_json(type + 1, n - 2));
    }
    if (n > 1 && type[n - 1] == ')') {
        return bounded(type);
    }
    if (isupper((unsigned char)type[0])) {
        char ref[96];
        snprintf(ref, sizeof(ref), "#/components/schemas/%.*s", (int)n, type);
        return json_pack("{s:s}", "$ref", ref);
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (strlen(words[i].name) == n && strncmp(type, words[i].name, n) == 0) {
            return json_pack("{s:s, s:s}", "type", "string", words[i].key, words[i].value);
        }
    }
    if (n == 8 && strncmp(type, "priority", n) == 0) {
        return json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", -SPEC_PRIORITY, "maximum",
                         SPEC_PRIORITY);
    }
    return n == 3 && strncmp(type, "any", 3) == 0
               ? json_object()
               : json_pack("{s:o}", "type", json_stringn(type, n));
}

json_t *schema_choices(const char *choices)
{
    json_t *list = json_array();
    for (const char *at = choices; *at;) {
        size_t n = strcspn(at, "|");
        json_array_append_new(list, json_stringn(at, n));
        at += n + (at[n] == '|');
    }
    return json_pack("{s:s, s:o}", "type", "string", "enum", list);
}

static const struct schema *find_schema(const char *name)
{
    const struct schema *s = schemas;
    while (s->name && strcmp(s->name, name) != 0) {
        s++;
    }
    return s->name ? s : NULL;
}

int schema_fields(const char *name, struct schema_field *out, int most)
{
    const struct schema *s = find_schema(name);
    int n = 0;
    for (const char *at = s ? s->fields : ""; *at && n < most; at += strspn(at, " ")) {
        at += strspn(at, "!~");
        size_t key = strcspn(at, ":"), all = strcspn(at, " ");
        if (key < all) {
            snprintf(out[n].name, sizeof(out[n].name), "%.*s", (int)key, at);
            snprintf(out[n].type, sizeof(out[n].type), "%.*s", (int)(all - key - 1), at + key + 1);
            n++;
        }
        at += all;
    }
    return n;
}

/* "Job?": the fields of Job, of which all but the first may be missing. */
static json_t *some_of(const struct schema *s)
{
    const struct schema *whole = schemas;
    size_t n = strcspn(s->fields, "?");
    while (strlen(whole->name) != n || strncmp(whole->name, s->fields, n) != 0) {
        whole++;
    }
    json_t *j = schema_json(whole), *required = json_object_get(j, "required");
    while (json_array_size(required) > 1) {
        json_array_remove(required, 1);
    }
    json_object_set_new(j, "description", json_string(s->help));
    return j;
}

json_t *schema_json(const struct schema *s)
{
    if (isupper((unsigned char)s->fields[0])) {
        return some_of(s);
    }
    if (s->fields[0] == '=') {
        json_t *choices = schema_choices(s->fields + 1);
        json_object_set_new(choices, "description", json_string(s->help));
        return choices;
    }
    json_t *properties = json_object(), *required = json_array();
    bool closed = s->fields[0] == '!';
    for (const char *at = s->fields + closed; *at; at += strspn(at, " ")) {
        bool optional = *at == '~';
        char name[64];
        at += optional;
        size_t n = strcspn(at, ":");
        snprintf(name, sizeof(name), "%.*s", (int)n, at);
        at += n + 1;
        size_t len = strcspn(at, " ");
        json_object_set_new(properties, name, type_json(at, len));
        if (!optional) {
            json_array_append_new(required, json_string(name));
        }
        at += len;
    }
    json_t *j = json_pack("{s:s, s:s, s:o, s:o}", "type", "object", "description", s->help,
                          "properties", properties, "required", required);
    if (closed) {
        json_object_set_new(j, "additionalProperties", json_false());
    }
    return j;
}
