/* Runs a program for its answer: one JSON document on its standard output. Both of its outputs go
 * to files, so that a full pipe never blocks it. */
#ifndef COMMON_PROCESS_ANSWER_H
#define COMMON_PROCESS_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json/jsonx.h"

struct answer_question {
    const char *const *argv; /* as in proc_spec, as are memory_bytes and die_with_parent */
    double seconds;          /* the program is ended after that; INFINITY: no limit */
    int64_t memory_bytes;
    bool die_with_parent;
};

struct answer {
    json_t *document;  /* owned, like `said`; NULL: it printed none, and `unread` says why */
    struct err unread; /* the error of jsonx_load() */
    char *said;        /* its standard error; NULL: cannot be read */
    int code;          /* its exit code; negative: it was too slow */
};

/* Makes a folder in /tmp for what a question needs; the caller removes it. ERR_IO. */
int answer_folder(char dir[64], struct err *e);
/* Runs the program with its outputs as files of `dir`. Negative if it could not be started. The
 * caller decides whether the answer is good. Release `out` in any case. */
int answer_get(struct answer *out, const struct answer_question *q, const char *dir, struct err *e);
void answer_release(struct answer *a);

#endif
