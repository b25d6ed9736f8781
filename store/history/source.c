/* Sources of rows: see source.h. */
#include "store/history/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/history/meta.h"

enum { TRACK_STEPS = -1, TRACK_TAIL = -2, TRACK_NONE = -3 };

int source_init(struct source *s, const char *dir, const json_t *meta, struct err *e)
{
    *s = (struct source){
        .dir = dir, .meta = meta, .open_track = TRACK_NONE, .reader = calloc(1, sizeof *s->reader)};
    return s->reader ? 0 : err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
}

void source_release(struct source *s)
{
    if (s->reader && s->open_track != TRACK_NONE) {
        pyramid_reader_close(s->reader);
    }
    free(s->reader);
    free(s->parts);
    free(s->tail);
}

static void source_use(struct source *s, int track)
{
    char base[PYRAMID_PATH];
    if (s->open_track == track) {
        return;
    }
    if (s->open_track != TRACK_NONE) {
        pyramid_reader_close(s->reader);
    }
    if (track == TRACK_STEPS) {
        snprintf(base, sizeof base, "%s/steps", s->dir);
    } else {
        snprintf(base, sizeof base, "%s/rows-%d", s->dir, track);
    }
    pyramid_reader_open(s->reader, base, history_meta_row_bytes(s->meta));
    s->open_track = track;
}

static int source_part(struct source *s, int track, int64_t a, int64_t b, struct err *e)
{
    struct part *parts = realloc(s->parts, (size_t)(s->n + 1) * sizeof *parts);
    if (!parts) {
        return err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
    }
    s->parts = parts;
    s->parts[s->n++] = (struct part){track, a, b, s->rows};
    s->rows += b - a;
    return 0;
}

/* Adds positions [a, b) of a track, without superseded ones; b < 0: to its end. */
static int source_add(struct source *s, int track, int64_t a, int64_t b, struct err *e)
{
    char name[32] = "steps";
    struct spans dead = {0}, alive = {0};
    if (track >= 0) {
        snprintf(name, sizeof name, "rows-%d", track);
    }
    source_use(s, track);
    int64_t end = s->reader->count[0];
    b = b < 0 || b > end ? end : b;
    int rc = history_meta_dead(s->meta, name, &dead, e);
    if (rc == 0) {
        rc = spans_alive(&dead, a, b, &alive, e);
    }
    for (int i = 0; i < alive.n && rc == 0; i++) {
        rc = source_part(s, track, alive.items[i].a, alive.items[i].b, e);
    }
    spans_release(&dead);
    spans_release(&alive);
    return rc;
}

int source_rank(struct source *s, int rank, int64_t from, struct err *e)
{
    return source_add(s, rank, from < 0 ? 0 : from, -1, e);
}

static const struct part *part_of(const struct source *s, int64_t i)
{
    int low = 0, high = s->n - 1;
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        if (s->parts[mid].first <= i) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    return &s->parts[low];
}

struct row source_row(struct source *s, int64_t i)
{
    const struct part *p = part_of(s, i);
    int64_t at = p->a + (i - p->first);
    if (p->track == TRACK_TAIL) {
        return s->tail[at];
    }
    source_use(s, p->track);
    struct row none = {0};
    return at < s->reader->count[0] ? *pyramid_row(s->reader, at) : none;
}

/* Adds rows a … b-1 of the source to the bucket. */
void source_range(struct source *s, int64_t a, int64_t b, struct pyramid_bucket *out)
{
    while (a < b) {
        const struct part *p = part_of(s, a);
        int64_t from = p->a + (a - p->first), to = p->b, more = b - a;
        to = to - from > more ? from + more : to;
        if (p->track == TRACK_TAIL) {
            for (int64_t i = from; i < to; i++) {
                pyramid_add(out, &s->tail[i]);
            }
        } else {
            source_use(s, p->track);
            int64_t end = s->reader->count[0];
            pyramid_range(s->reader, from, to < end ? to : end, out);
        }
        a += to - from;
    }
}

/* ---- the nodes and the steps ----------------------------------------------------------------- */

/* Where the rows of a rank in layout k end: at its first row in the next layout that has this rank;
 * -1: at the end of the file. */
static int64_t layout_end(const json_t *meta, int k, int rank)
{
    while (++k < history_meta_layouts(meta)) {
        int64_t from = history_meta_from(meta, k, rank);
        if (from >= 0) {
            return from;
        }
    }
    return -1;
}

/* Adds every row of a node, under all ranks that it had. */
int source_node(struct source *s, const char *node, struct err *e)
{
    int rc = 0;
    for (int k = 0; k < history_meta_layouts(s->meta) && rc == 0; k++) {
        for (int r = 0; r < history_meta_workers(s->meta, k) && rc == 0; r++) {
            if (strcmp(history_meta_node(s->meta, k, r), node) == 0) {
                int64_t from = history_meta_from(s->meta, k, r);
                rc = source_add(s, r, from < 0 ? 0 : from, layout_end(s->meta, k, r), e);
            }
        }
    }
    return rc;
}

/* Adds the rows of a rank past the last merged step, from the end backwards. */
static int add_tail(struct step_merge *m, const char *dir, const json_t *meta, int rank,
                    int64_t past, struct err *e)
{
    struct source s;
    int rc = source_init(&s, dir, meta, e);
    if (rc == 0) {
        rc = source_add(&s, rank, 0, -1, e);
    }
    for (int64_t i = s.rows - 1; i >= 0 && rc == 0; i--) {
        struct row row = source_row(&s, i);
        if (row.step <= past) {
            break;
        }
        rc = step_merge_add(m, &row, e);
    }
    source_release(&s);
    return rc;
}

/* Adds the steps of the job: steps.bin, then those that the ranks' rows have beyond it. */
int source_steps(struct source *s, struct err *e)
{
    struct step_merge m = {0};
    int rc = source_add(s, TRACK_STEPS, 0, -1, e);
    int64_t past = rc == 0 && s->rows ? source_row(s, s->rows - 1).step : -1;
    int ranks = history_meta_ranks(s->meta);
    for (int r = 0; r < ranks && rc == 0; r++) {
        rc = add_tail(&m, s->dir, s->meta, r, past, e);
    }
    if (rc == 0 && m.n) {
        s->tail = calloc((size_t)m.n, sizeof *s->tail);
        rc = s->tail ? source_part(s, TRACK_TAIL, 0, m.n, e)
                     : err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
    }
    for (int i = 0; i < m.n && rc == 0; i++) {
        s->tail[i] = step_merge_row(&m.items[i]);
    }
    step_merge_release(&m);
    return rc;
}
