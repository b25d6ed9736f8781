/* The source of a series: the rows of one node, or the steps of the job, that count. Inside store/
 * only.
 *
 *   source = parts of tracks, one after the other:   rows-1 [0, 80)  rows-0 [100, 190)  …
 * A node may have been another rank before a restart, and superseded rows are left out; a reader of
 * a source sees rows 0 … rows-1 without gaps. Steps that are not in steps.bin yet, because a rank
 * has not reported them, are merged from the ends of the ranks' files, so a reader is never behind
 * the rows.
 */
#ifndef STORE_HISTORY_SOURCE_H
#define STORE_HISTORY_SOURCE_H

#include <jansson.h>

#include "store/history/parts.h"
#include "store/history/pyramid.h"

struct part {
    int track;     /* a rank, or the steps (source.c) */
    int64_t a, b;  /* positions in the track */
    int64_t first; /* index of a in the source */
};

struct source {
    const char *dir;    /* JOBDIR/history; borrowed */
    const json_t *meta; /* the history's document; borrowed */
    struct part *parts; /* owned */
    int n;
    int64_t rows;
    struct row *tail;              /* owned, or NULL */
    struct pyramid_reader *reader; /* owned; reads the track open_track */
    int open_track;
};

/* After any of these call source_release(), also after a failure. */
int source_init(struct source *s, const char *dir, const json_t *meta, struct err *e);
void source_release(struct source *s);
int source_rank(struct source *s, int rank, int64_t from, struct err *e); /* the rank's rows from
                                                                             position `from` on */
int source_node(struct source *s, const char *node, struct err *e);
int source_steps(struct source *s, struct err *e);

struct row source_row(struct source *s, int64_t i);
/* Adds rows a … b-1 to the bucket. */
void source_range(struct source *s, int64_t a, int64_t b, struct pyramid_bucket *out);

#endif
