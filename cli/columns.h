/* Documents of the service as text: a value at a path in a form that people read, and a list of
 * documents as a table whose columns are such values. What a list shows is a constant table of
 * `struct column`. */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum column_kind {
    COLUMN_TEXT,    /* text, or anything else as compact JSON */
    COLUMN_WORDS,   /* an array of texts, separated by spaces */
    COLUMN_WHOLE,   /* text that is never cut: ids and names for the next command */
    COLUMN_COUNT,   /* a number without decimals */
    COLUMN_NUMBER,  /* four significant digits */
    COLUMN_PERCENT, /* a share, as 97.91 % */
    COLUMN_MS,      /* seconds, shown in milliseconds */
    COLUMN_SECONDS, /* seconds, as 0.6 s or 1:02:03 */
    COLUMN_TOOK,    /* how long a job took: real seconds from its start to its end, or until now */
    COLUMN_RATE,    /* a job's samples per second over all the time that it trained */
    COLUMN_BYTES,   /* 1.5 MiB */
    COLUMN_TIME,    /* 2026-01-02 03:04:05, UTC */
    COLUMN_FLAG,    /* "yes" or nothing */
};

struct column {
    const char *title, *path; /* path: keys with a dot between, "metrics.test_loss" */
    enum column_kind kind;
};
/* Ends a table of columns. */
/* clang-format off */
#define COLUMNS_END {NULL, NULL, COLUMN_TEXT}
/* clang-format on */

enum { COLUMN_BYTES_MOST = 512 };

/* The value at a path of keys with dots between; NULL: there is none. Borrowed. */
const json_t *column_get(const json_t *document, const char *path);
/* Does the job run on virtual nodes? Then its seconds are virtual. */
bool column_is_virtual(const json_t *job);
/* The value in its form for people; "-" if it is null or missing. Returns out. */
const char *column_text(char out[COLUMN_BYTES_MOST], const json_t *document, const char *path,
                        enum column_kind kind);
/* Prints a table of the documents in an array, or of the values of an object. The columns end with
 * COLUMNS_END. Lines begin with `indent` and fit the terminal `out`. */
void columns_print(const json_t *documents, const struct column *columns, const char *indent,
                   FILE *out);
/* Prints the value at `path` of each document on a line of its own, followed by `after`, for
 * shells. */
void columns_lines(const json_t *documents, const char *path, const char *after, FILE *out);

#endif
