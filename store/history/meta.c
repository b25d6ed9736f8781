/* meta.json of a history: see meta.h. */
#include "store/history/meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json/jsonx.h"
#include "common/process/proc.h"
#include "job/documents/ranks/logged.h"

static int no_memory(struct err *e)
{
    return err_set(e, ERR_MEMORY, "cannot keep the history: memory ran out");
}

/* ---- the file -------------------------------------------------------------------------------- */

static json_t *meta_new(void)
{
    json_t *meta = json_pack("{s:[], s:{}}", "layouts", "superseded");
    if (ROW_BYTES != ROW_BYTES_FIRST) {
        json_object_set_new(meta, "row_bytes", json_integer(ROW_BYTES));
    }
    return meta;
}

int history_meta_row_bytes(const json_t *meta)
{
    const json_t *bytes = json_object_get(meta, "row_bytes");
    return bytes ? (int)json_integer_value(bytes) : ROW_BYTES_FIRST;
}

/* Can this version read the rows? */
static int check_format(const json_t *meta, const char *path, struct err *e)
{
    int bytes = history_meta_row_bytes(meta);
    if (bytes > ROW_BYTES && bytes <= ROW_BYTES_MOST) {
        err_set(e, ERR_DATA,
                "cannot read history '%s': a newer version of Evenstep wrote it, with rows of %d "
                "bytes where this one knows %d",
                path, bytes, (int)ROW_BYTES);
        err_hint(e, "update Evenstep to at least the version that ran the job");
        return -ERR_DATA;
    }
    return bytes >= ROW_BYTES_FIRST && bytes <= ROW_BYTES
               ? 0
               : err_set(e, ERR_DATA, "cannot read history '%s': its rows have %d bytes", path,
                         bytes);
}

json_t *history_meta_load(const char *dir, struct err *e)
{
    char path[HISTORY_PATH + 32];
    snprintf(path, sizeof path, "%s/meta.json", dir);
    if (access(path, F_OK)) {
        return meta_new();
    }
    json_t *meta = jsonx_load(path, HISTORY_META_BYTES, e);
    if (!meta) {
        return NULL;
    }
    if (!json_is_array(json_object_get(meta, "layouts")) ||
        !json_is_object(json_object_get(meta, "superseded")) ||
        history_meta_ranks(meta) > HISTORY_RANKS) {
        err_set(e, ERR_DATA, "cannot read history '%s': its layouts are not as expected", path);
        json_decref(meta);
        return NULL;
    }
    if (check_format(meta, path, e) < 0) {
        json_decref(meta);
        return NULL;
    }
    return meta;
}

int history_meta_save(const char *dir, const json_t *meta, struct err *e)
{
    char path[HISTORY_PATH + 32];
    size_t len = 0;
    snprintf(path, sizeof path, "%s/meta.json", dir);
    char *text = jsonx_dump(meta, false, &len);
    int rc = text ? proc_write_file(path, text, len, 0644, e) : no_memory(e);
    free(text);
    return rc;
}

/* ---- which node a rank was ------------------------------------------------------------------- */

static const json_t *part_of_layout(const json_t *meta, int layout, const char *part)
{
    const json_t *layouts = json_object_get(meta, "layouts");
    return layout < 0 ? NULL : json_object_get(json_array_get(layouts, (size_t)layout), part);
}

int history_meta_layouts(const json_t *meta)
{
    return (int)json_array_size(json_object_get(meta, "layouts"));
}

int history_meta_workers(const json_t *meta, int layout)
{
    return (int)json_array_size(part_of_layout(meta, layout, "nodes"));
}

const char *history_meta_node(const json_t *meta, int layout, int rank)
{
    const json_t *nodes = part_of_layout(meta, layout, "nodes");
    const char *name = rank < 0 ? NULL : json_string_value(json_array_get(nodes, (size_t)rank));
    return name ? name : "";
}

int64_t history_meta_from(const json_t *meta, int layout, int rank)
{
    const json_t *from = part_of_layout(meta, layout, "from");
    if (rank < 0 || (size_t)rank >= json_array_size(from)) {
        return -1;
    }
    int64_t first = (int64_t)json_integer_value(json_array_get(from, (size_t)rank));
    return first > 0 ? first : 0;
}

json_t *history_layout_new(void)
{
    return json_pack("{s:[], s:[]}", "nodes", "from");
}

void history_layout_add(json_t *layout, const char *node, int64_t from)
{
    json_array_append_new(json_object_get(layout, "nodes"), json_string(node));
    json_array_append_new(json_object_get(layout, "from"), json_integer((json_int_t)from));
}

bool history_meta_add_layout(json_t *meta, json_t *layout)
{
    const json_t *last = part_of_layout(meta, history_meta_layouts(meta) - 1, "nodes");
    bool is_new = !last || !json_equal(json_object_get(layout, "nodes"), last);
    if (is_new) {
        json_array_append(json_object_get(meta, "layouts"), layout);
    }
    json_decref(layout);
    return is_new;
}

int history_meta_ranks(const json_t *meta)
{
    int most = 0;
    for (int k = 0; k < history_meta_layouts(meta); k++) {
        int n = history_meta_workers(meta, k);
        most = n > most ? n : most;
    }
    return most > HISTORY_RANKS ? HISTORY_RANKS + 1 : most;
}

json_t *history_meta_nodes(const json_t *meta)
{
    json_t *seen = json_object(), *out = json_array();
    for (int k = 0; k < history_meta_layouts(meta); k++) {
        for (int r = 0; r < history_meta_workers(meta, k); r++) {
            const char *name = history_meta_node(meta, k, r);
            if (*name && !json_object_get(seen, name)) {
                json_object_set_new(seen, name, json_true());
                json_array_append_new(out, json_string(name));
            }
        }
    }
    json_decref(seen);
    return out;
}

/* ---- what does not count --------------------------------------------------------------------- */

int history_meta_dead(const json_t *meta, const char *track, struct spans *out, struct err *e)
{
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(json_object_get(meta, "superseded"), track), i, pair) {
        json_int_t a = json_integer_value(json_array_get(pair, 0)),
                   b = json_integer_value(json_array_get(pair, 1));
        if (a < 0 || a >= b || (out->n && a < out->items[out->n - 1].b)) {
            return err_set(e, ERR_DATA, "the history's list of superseded rows of '%s' is damaged",
                           track);
        }
        int rc = spans_add(out, a, b, e);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int history_meta_set_dead(json_t *meta, const char *track, const struct spans *dead, struct err *e)
{
    json_t *list = json_array();
    for (int i = 0; i < dead->n; i++) {
        json_array_append_new(
            list, json_pack("[I, I]", (json_int_t)dead->items[i].a, (json_int_t)dead->items[i].b));
    }
    return json_object_set_new(json_object_get(meta, "superseded"), track, list) ? no_memory(e) : 0;
}

int history_meta_add_dead(json_t *meta, const char *track, const struct spans *more, struct err *e)
{
    struct spans dead = {0};
    int rc = history_meta_dead(meta, track, &dead, e);
    if (rc == 0 && more->n && (rc = spans_union(&dead, more, e)) == 0) {
        rc = history_meta_set_dead(meta, track, &dead, e);
    }
    spans_release(&dead);
    return rc;
}

int64_t history_meta_missing(const json_t *meta)
{
    return (int64_t)json_integer_value(json_object_get(meta, "missing"));
}

void history_meta_set_missing(json_t *meta, int64_t steps)
{
    json_object_set_new(meta, "missing", json_integer((json_int_t)steps));
}

/* ---- norms ----------------------------------------------------------------------------------- */

json_t *history_meta_tensors(const json_t *meta)
{
    return json_object_get(meta, "tensors");
}

void history_meta_set_tensors(json_t *meta, json_t *tensors)
{
    json_object_set(meta, "tensors", tensors);
}

/* ---- logged metrics -------------------------------------------------------------------------- */

int history_meta_logged_count(const json_t *meta)
{
    size_t n = json_array_size(json_object_get(meta, "logged"));
    return n < LOGGED_NAMES ? (int)n : LOGGED_NAMES; /* more in a file that is damaged */
}

const char *history_meta_logged_name(const json_t *meta, int index)
{
    const json_t *names = json_object_get(meta, "logged");
    const char *name = index < 0 ? NULL : json_string_value(json_array_get(names, (size_t)index));
    return name ? name : "";
}

int history_meta_logged_find(const json_t *meta, const char *name)
{
    int n = history_meta_logged_count(meta), i = 0;
    while (i < n && strcmp(history_meta_logged_name(meta, i), name) != 0) {
        i++;
    }
    return i < n ? i : -1;
}

void history_meta_logged_add(json_t *meta, const char *name)
{
    json_t *names = json_object_get(meta, "logged");
    if (!names) {
        names = json_array();
        json_object_set_new(meta, "logged", names);
    }
    json_array_append_new(names, json_string(name));
}
