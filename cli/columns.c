/* See columns.h. */
#include "cli/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "common/text/terminal.h"
#include "common/clock.h"
#include "common/json/jsonx.h"

const json_t *column_get(const json_t *document, const char *path)
{
    char key[64];
    while (document && *path) {
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        document = json_object_get(document, key);
        path += n + (path[n] == '.');
    }
    return document;
}

static void show_seconds(char *out, size_t size, double s)
{
    if (s < 60) {
        snprintf(out, size, "%.3g s", s);
    } else if (s < 3600) {
        snprintf(out, size, "%d:%02d", (int)s / 60, (int)s % 60);
    } else {
        snprintf(out, size, "%.0f:%02d:%02d", floor(s / 3600), (int)fmod(s / 60, 60),
                 (int)fmod(s, 60));
    }
}

static void show_bytes(char *out, size_t size, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; fabs(bytes) >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) {
        bytes /= 1024;
    }
    snprintf(out, size, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

static void show_number(char *out, size_t size, double v, enum column_kind kind)
{
    switch (kind) {
    case COLUMN_COUNT:
        snprintf(out, size, "%.0f", v);
        break;
    case COLUMN_PERCENT:
        snprintf(out, size, "%.2f %%", 100 * v);
        break;
    case COLUMN_MS:
        snprintf(out, size, "%.1f", 1e3 * v);
        break;
    case COLUMN_SECONDS:
        show_seconds(out, size, v);
        break;
    case COLUMN_BYTES:
        show_bytes(out, size, v);
        break;
    default: /* 12345 steps are not 1.234e+04 */
        snprintf(out, size, fabs(v) >= 1e4 && fabs(v) < 1e15 ? "%.0f" : "%.4g", v);
    }
}

static void show_words(char *out, size_t size, const json_t *words)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(words) && n < size; i++) {
        const char *word = json_string_value(json_array_get(words, i));
        n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", word ? word : "-");
    }
}

bool column_is_virtual(const json_t *job)
{
    return json_is_object(column_get(job, "spec.cluster"));
}

static void show_took(char *out, size_t size, const json_t *job)
{
    int64_t from = clock_parse(jsonx_string_at(job, "started")),
            to = clock_parse(jsonx_string_at(job, "finished"));
    if (from >= 0) {
        to = to >= 0 ? to : clock_wall_ms();
        /* `started` is when all nodes had made a step, so a short job may have trained for longer;
         * seconds of a virtual job are virtual and do not count */
        double trained = json_number_value(json_object_get(job, "seconds"));
        show_seconds(out, size,
                     fmax((double)(to - from) / 1000, column_is_virtual(job) ? 0 : trained));
    }
}

static void show_rate(char *out, size_t size, const json_t *job)
{
    json_t *progress = json_object_get(job, "progress");
    double samples = json_number_value(json_object_get(progress, "samples")),
           seconds = json_number_value(json_object_get(job, "seconds"));
    /* a job that continues another one counts the other's samples too */
    if (samples > 0 && seconds > 0 && !json_is_true(column_get(job, "spec.init.continue"))) {
        snprintf(out, size, "%.0f", samples / seconds);
    }
}

const char *column_text(char out[COLUMN_BYTES_MOST], const json_t *document, const char *path,
                        enum column_kind kind)
{
    const json_t *v = column_get(document, path);
    const char *text = json_string_value(v);
    snprintf(out, COLUMN_BYTES_MOST, "-");
    if (kind == COLUMN_FLAG) {
        snprintf(out, COLUMN_BYTES_MOST, "%s", json_is_true(v) ? "yes" : "");
    } else if (kind == COLUMN_TOOK) {
        show_took(out, COLUMN_BYTES_MOST, v);
    } else if (kind == COLUMN_RATE) {
        show_rate(out, COLUMN_BYTES_MOST, v);
    } else if (kind == COLUMN_WORDS) {
        show_words(out, COLUMN_BYTES_MOST, v);
    } else if (text && kind == COLUMN_TIME && strlen(text) > 19) {
        snprintf(out, COLUMN_BYTES_MOST, "%.10s %.8s", text, text + 11);
    } else if (text) {
        snprintf(out, COLUMN_BYTES_MOST, "%s", text);
    } else if (json_is_number(v) && kind != COLUMN_TEXT && kind != COLUMN_WHOLE) {
        show_number(out, COLUMN_BYTES_MOST, json_number_value(v), kind);
    } else if (v && !json_is_null(v)) {
        char *dumped = jsonx_dump(v, false, NULL);
        snprintf(out, COLUMN_BYTES_MOST, "%s", dumped ? dumped : "");
        free(dumped);
    }
    return out;
}

static enum table_kind side(enum column_kind kind)
{
    bool whole = kind == COLUMN_WHOLE || kind == COLUMN_TIME,
         text = kind == COLUMN_TEXT || kind == COLUMN_WORDS || kind == COLUMN_FLAG;
    return whole ? TABLE_WHOLE : text ? TABLE_TEXT : TABLE_RIGHT;
}

static void add_row(struct table *t, const json_t *document, const struct column *columns)
{
    char text[COLUMN_BYTES_MOST];
    for (int c = 0; columns[c].title; c++) {
        table_cell(t, column_text(text, document, columns[c].path, columns[c].kind));
    }
}

void columns_print(const json_t *documents, const struct column *columns, const char *indent,
                   FILE *out)
{
    struct table_head heads[TABLE_COLUMNS];
    struct table t;
    int n = 0;
    size_t i;
    const char *key;
    json_t *one;
    for (; columns[n].title && n < TABLE_COLUMNS; n++) {
        heads[n] = (struct table_head){columns[n].title, side(columns[n].kind)};
    }
    table_init(&t, heads, n);
    json_array_foreach((json_t *)documents, i, one) {
        add_row(&t, one, columns);
    }
    json_object_foreach((json_t *)documents, key, one) {
        add_row(&t, one, columns);
    }
    table_print(&t, indent, terminal_width(out), out);
    table_release(&t);
}

void columns_lines(const json_t *documents, const char *path, const char *after, FILE *out)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)documents, i, one) {
        const char *text = json_string_value(column_get(one, path));
        fprintf(out, "%s%s\n", text ? text : "-", after);
    }
}
