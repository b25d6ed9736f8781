/* Which jobs of an index match a query, and how they are sorted. Inside store/ only.
 *
 * Only fields that the query compares are read: none for the newest jobs of a state, the spec for a
 * strategy, the live document for an accuracy.
 */
#ifndef STORE_JOBS_MATCH_H
#define STORE_JOBS_MATCH_H

#include "store/internal.h"

/* A job of a list before it is read. It is small, since there may be many. */
struct entry {
    char id[40];
    int64_t number;          /* order of creation */
    struct filter_value key; /* the value by which it is sorted, if not by number */
};

enum { MATCH_PATHS = FILTER_CONDITIONS + 1, MATCH_FIELDS = MATCH_PATHS + 3 };

struct match {
    const struct job_query *query;          /* borrowed */
    const char *sort;                       /* path of the entries' key, or NULL; borrowed */
    char fields[MATCH_FIELDS][FILTER_PATH]; /* fields of the hash that it compares */
    int n_fields;
    bool live;
};

void match_init(struct match *m, const struct job_query *query, const char *sort);
/* Keeps the entries that match the query, in their order, and fills in their keys. Returns how
 * many, or negative. */
int match_keep(struct store *s, const struct match *m, struct entry *entries, int n, struct err *e);

#endif
