/* Tables of measured values; see csv.h. Numbers have the same digits as in JSON. */
#include "http/content/csv.h"

#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

enum { CSV_BYTES = 64 << 20 };

static const char line_end[] = "\r\n";

/* Adds a text. People choose names, and a spreadsheet takes text that begins like a formula for
 * one, unless an apostrophe comes first. */
static void add_text(struct buf *out, const char *text)
{
    const char *guard = *text && strchr("=+-@\t\r", *text) ? "'" : "";
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        buf_addf(out, "%s%s", guard, text);
        return;
    }
    buf_addf(out, "\"%s", guard);
    for (; *text; text++) {
        buf_add(out, text, 1);
        if (*text == '"') {
            buf_adds(out, "\"");
        }
    }
    buf_adds(out, "\"");
}

static void add_value(struct buf *out, const json_t *value)
{
    if (json_is_string(value)) {
        add_text(out, json_string_value(value));
    } else if (json_is_integer(value)) {
        buf_addf(out, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        char text[JSONX_REAL];
        buf_adds(out, jsonx_real(text, json_real_value(value)));
    }
}

/* Adds the values of these keys (NULL-terminated) as one line. */
static void add_line(struct buf *out, const json_t *object, const char *const *keys)
{
    for (int i = 0; keys[i]; i++) {
        buf_adds(out, i ? "," : "");
        add_value(out, json_object_get(object, keys[i]));
    }
    buf_adds(out, line_end);
}

/* A table: the keys in the first line, then a line for each document. */
static struct buf table_of(const json_t *documents, const char *const *keys)
{
    struct buf out;
    size_t i;
    json_t *one;
    buf_init(&out, CSV_BYTES);
    for (int k = 0; keys[k]; k++) {
        buf_addf(&out, "%s%s", k ? "," : "", keys[k]);
    }
    buf_adds(&out, line_end);
    json_array_foreach((json_t *)documents, i, one) {
        add_line(&out, one, keys);
    }
    return out;
}

struct buf csv_of_evaluations(const json_t *evaluations)
{
    static const char *const keys[] = {"step", "epoch",    "time",         "samples",
                                       "loss", "accuracy", "test_samples", NULL};
    return table_of(evaluations, keys);
}

struct buf csv_of_accounting(const json_t *rows)
{
    static const char *const keys[] = {"owner", "job",          "name",       "day",
                                       "jobs",  "node_seconds", "node_hours", NULL};
    return table_of(rows, keys);
}

struct buf csv_of_series(const json_t *series)
{
    static const char *const columns[] = {"x", "min", "max", "mean"};
    struct buf out;
    size_t i, at, k;
    json_t *one;
    buf_init(&out, CSV_BYTES);
    buf_adds(&out, "name,node,x,min,max,mean\r\n");
    json_array_foreach(series, i, one) {
        size_t n = json_array_size(json_object_get(one, "x"));
        for (at = 0; at < n; at++) {
            add_value(&out, json_object_get(one, "name"));
            buf_adds(&out, ",");
            add_value(&out, json_object_get(one, "node"));
            for (k = 0; k < 4; k++) {
                buf_adds(&out, ",");
                add_value(&out, json_array_get(json_object_get(one, columns[k]), at));
            }
            buf_adds(&out, line_end);
        }
    }
    return out;
}

struct buf csv_of_logged(const json_t *metrics)
{
    static const char *const columns[] = {"x", "epoch", "time", "min", "max", "mean"};
    struct buf out;
    size_t i;
    json_t *one;
    buf_init(&out, CSV_BYTES);
    buf_adds(&out, "metric,x,epoch,time,min,max,mean\r\n");
    json_array_foreach((json_t *)metrics, i, one) {
        for (size_t at = 0; at < json_array_size(json_object_get(one, "x")); at++) {
            add_value(&out, json_object_get(one, "name"));
            for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
                buf_adds(&out, ",");
                add_value(&out, json_array_get(json_object_get(one, columns[k]), at));
            }
            buf_adds(&out, line_end);
        }
    }
    return out;
}

struct buf csv_of_norms(const json_t *norms)
{
    static const char *const lists[] = {"x", "epoch", "time"}, *const kinds[] = {"weights",
                                                                                 "gradients"};
    const json_t *tensors = json_object_get(norms, "tensors");
    struct buf out;
    buf_init(&out, CSV_BYTES);
    buf_adds(&out, "tensor,x,epoch,time,weight,gradient\r\n");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        for (size_t at = 0; at < json_array_size(json_object_get(norms, "x")); at++) {
            add_value(&out, json_object_get(json_array_get(tensors, i), "name"));
            for (int k = 0; k < 3; k++) {
                buf_adds(&out, ",");
                add_value(&out, json_array_get(json_object_get(norms, lists[k]), at));
            }
            for (int k = 0; k < 2; k++) {
                buf_adds(&out, ",");
                add_value(&out,
                          json_array_get(json_array_get(json_object_get(norms, kinds[k]), i), at));
            }
            buf_adds(&out, line_end);
        }
    }
    return out;
}

struct buf csv_of_load(const json_t *load)
{
    const char *key;
    json_t *list;
    struct buf out;
    size_t n = json_array_size(json_object_get(load, "at")), columns = 0;
    buf_init(&out, CSV_BYTES);
    json_object_foreach((json_t *)load, key, list) {
        if (json_is_array(list)) {
            buf_addf(&out, "%s%s", columns++ ? "," : "", key);
        }
    }
    buf_adds(&out, line_end);
    for (size_t at = 0; at < n; at++) {
        columns = 0;
        json_object_foreach((json_t *)load, key, list) {
            if (json_is_array(list)) {
                buf_adds(&out, columns++ ? "," : "");
                add_value(&out, json_array_get(list, at));
            }
        }
        buf_adds(&out, line_end);
    }
    return out;
}

int csv_reply(struct reply *out, struct buf text, json_t *body, struct err *e)
{
    size_t n = 0;
    bool fits = !text.failed;
    char *bytes = buf_take(&text, &n);
    buf_release(&text);
    json_decref(body);
    if (!fits) {
        err_set(e, ERR_INVALID, "this table has more than %d bytes", (int)CSV_BYTES);
        return err_hint(e, "ask for fewer points");
    }
    return reply_set_text(out, 200, "text/csv; charset=utf-8; header=present", bytes, n, e);
}
