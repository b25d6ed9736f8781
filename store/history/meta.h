/* meta.json: what a history says of its rows. The writer of the rows writes it (the coordinator, or
 * the simulator of a virtual job); readers of series read it. No other file knows its keys. Inside
 * store/ only.
 *
 *   {"layouts": [{"nodes": ["fast-1", …], "from": [0, …]}],   the node of each rank, and its
 *                                                             first row there; one a change
 *    "superseded": {"rows-0": [[120, 160]], "steps": […], "evaluations": […]},
 *                                                             spans [a, b) that do not count
 *    "missing": 3,                                            steps without any row
 *    "tensors": {…},                                          of which norms are kept (norms.h)
 *    "logged": ["bleu", …],                                   names of logged metrics (logged.h)
 *    "row_bytes": 84}      the format: how long a row is (job/row.h). Left out where it is that of
 *                          the first version
 *
 * A history keeps the format with which it began. So after an update of Evenstep a job that goes on
 * has no curves of new figures.
 */
#ifndef STORE_HISTORY_META_H
#define STORE_HISTORY_META_H

#include <jansson.h>
#include <stdbool.h>

#include "store/history/parts.h"

enum { HISTORY_META_BYTES = 64 << 20 };

/* Loads it; an empty document if there is none. NULL: it is damaged, or a newer version wrote the
 * rows. New reference. */
json_t *history_meta_load(const char *dir, struct err *e);
int history_meta_save(const char *dir, const json_t *meta, struct err *e);
int history_meta_row_bytes(const json_t *meta);

/* ---- which node a rank was ------------------------------------------------------------------- */

int history_meta_layouts(const json_t *meta); /* how many; the last one is in force */
/* The number of ranks in a layout; 0 for layout -1, which means that there is no row yet. */
int history_meta_workers(const json_t *meta, int layout);
const char *history_meta_node(const json_t *meta, int layout, int rank); /* "": not told */
/* The first row of the rank in this layout; -1: the layout has no such rank. */
int64_t history_meta_from(const json_t *meta, int layout, int rank);
/* Makes a new layout. Ranks are added one after another, and then it is appended to the others. */
json_t *history_layout_new(void);
void history_layout_add(json_t *layout, const char *node, int64_t from);
/* Takes `layout`. false: it has the same nodes as the last one, and nothing changed. */
bool history_meta_add_layout(json_t *meta, json_t *layout);
int history_meta_ranks(const json_t *meta); /* the most that any layout has */
/* Every node of any layout, in order of appearance. Array of names, a new reference. */
json_t *history_meta_nodes(const json_t *meta);

/* ---- what does not count --------------------------------------------------------------------- */

/* Appends the spans of a track ("rows-0", "steps", "evaluations") that are superseded. */
int history_meta_dead(const json_t *meta, const char *track, struct spans *out, struct err *e);
int history_meta_set_dead(json_t *meta, const char *track, const struct spans *dead, struct err *e);
/* Marks these spans as superseded, too. */
int history_meta_add_dead(json_t *meta, const char *track, const struct spans *more, struct err *e);
int64_t history_meta_missing(const json_t *meta); /* steps without any row */
void history_meta_set_missing(json_t *meta, int64_t steps);

/* ---- norms ----------------------------------------------------------------------------------- */

/* The tensors, as norms.h describes them, borrowed; NULL: no norms came yet. */
json_t *history_meta_tensors(const json_t *meta);
void history_meta_set_tensors(json_t *meta, json_t *tensors);

/* ---- logged metrics -------------------------------------------------------------------------- */

int history_meta_logged_count(const json_t *meta); /* at most LOGGED_NAMES */
/* "": there is no such index. */
const char *history_meta_logged_name(const json_t *meta, int index);
int history_meta_logged_find(const json_t *meta, const char *name); /* its index, or -1 */
void history_meta_logged_add(json_t *meta, const char *name);

#endif
