/* A file of records of equal length in a history, each of which begins with its step (int64_t):
 * evaluations.bin, norms.bin, logged.bin. Records are appended and stay; which of them a restart
 * has superseded is in meta.json, under the file's name. Inside store/ only.
 */
#ifndef STORE_HISTORY_RECORDS_H
#define STORE_HISTORY_RECORDS_H

#include <jansson.h>
#include <stdbool.h>

#include "store/history/parts.h"

struct records {
    const char *name; /* "norms": of norms.bin, and of its spans in meta.json; not owned */
    size_t bytes;     /* of a record; 0: not known yet, and the file is not there */
    int fd;           /* -1: there is no file yet */
    int64_t count;
    bool dirty; /* something was written since records_sync() */
};

/* Opens the file `name` for writing if it is there. */
int records_open(struct records *r, const char *dir, const char *name, size_t bytes, struct err *e);
void records_close(struct records *r);
/* Makes the file if it is not there. */
int records_create(struct records *r, const char *dir, struct err *e);
/* Appends one record of r->bytes bytes, and makes the file if it is not there. */
int records_append(struct records *r, const char *dir, const void *record, struct err *e);
/* Marks those with a step above version as superseded. meta is changed, and not saved. */
int records_supersede(const struct records *r, json_t *meta, int64_t version, struct err *e);
/* The step of the last record that counts, into *step; -1: none does. */
int records_last(const struct records *r, const json_t *meta, int64_t *step, struct err *e);
int records_sync(struct records *r, const char *dir, struct err *e);

/* The records that count, one after the other. */
struct records_read {
    char *all; /* owned */
    int64_t n;
};
/* Reads the file `name`. Without such a file there are none. After it call records_release(), also
 * after a failure. */
int records_read(struct records_read *out, const char *dir, const char *name, size_t bytes,
                 const json_t *meta, struct err *e);
void records_release(struct records_read *r);

#endif
