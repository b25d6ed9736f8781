/* See checked.h. */
#include "job/documents/results/checked.h"

#include <string.h>

enum { MOST_ERRORS = 1000 };

static json_t *virtual_json(const struct checked *c)
{
    return json_pack("{s:i, s:o, s:I, s:I, s:O}", "format", CHECKED_FORMAT, "errors",
                     jsonx_problems_json(&c->errors), "memory_bytes", (json_int_t)c->process_bytes,
                     "node_memory_bytes", (json_int_t)c->node_bytes, "memory", c->blocks);
}

json_t *checked_json(const struct checked *c)
{
    if (c->is_virtual) {
        return virtual_json(c);
    }
    json_t *memory = json_array();
    for (int i = 0; i < c->workers; i++) {
        json_array_append_new(memory, json_integer((json_int_t)c->memory_bytes[i]));
    }
    return json_pack("{s:i, s:o, s:I, s:I, s:o}", "format", CHECKED_FORMAT, "errors",
                     jsonx_problems_json(&c->errors), "samples", (json_int_t)c->samples,
                     "test_samples", (json_int_t)c->test_samples, "memory_bytes", memory);
}

static void read_errors(const struct document *d, struct checked *out)
{
    size_t n = json_array_size(document_list(d, "errors", 0, MOST_ERRORS));
    for (size_t i = 0; i < n; i++) {
        struct document one = document_element(d, "errors", i);
        const char *pointer = json_string_value(json_object_get(one.j, "pointer")),
                   *message = json_string_value(json_object_get(one.j, "message"));
        if (one.j && (!pointer || !message)) {
            document_problem(&one, NULL, "must have a pointer and a message");
        } else if (one.j) {
            jsonx_problem(&out->errors, pointer, "%s", message);
        }
    }
}

static void read_virtual(const struct document *d, struct checked *out)
{
    out->is_virtual = true;
    out->process_bytes = document_integer(d, "memory_bytes", 0, INT64_MAX);
    out->node_bytes = document_integer(d, "node_memory_bytes", 0, INT64_MAX);
    out->blocks = document_object(d, "memory", true);
}

static void read_real(const struct document *d, struct checked *out)
{
    out->samples = document_integer(d, "samples", 0, INT64_MAX);
    out->test_samples = document_integer(d, "test_samples", 0, INT64_MAX);
    const json_t *memory = document_list(d, "memory_bytes", 0, SPEC_WORKERS);
    out->workers = (int)json_array_size(memory);
    for (int i = 0; i < out->workers; i++) {
        int64_t bytes = json_integer_value(json_array_get(memory, (size_t)i));
        out->memory_bytes[i] = bytes > 0 ? bytes : 0;
    }
}

int checked_read(struct checked *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, CHECKED_FORMAT, NULL, &problems);
    read_errors(&d, out);
    if (document_has(&d, "memory")) {
        read_virtual(&d, out);
    } else {
        read_real(&d, out);
    }
    return document_close(&d, "the answer of --check", e);
}

void checked_release(struct checked *c)
{
    jsonx_problems_release(&c->errors);
    json_decref(c->blocks);
    c->blocks = NULL;
}
