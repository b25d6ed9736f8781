/* A program that is run for its answer: one JSON document on its standard output. Both of its
 * outputs go through files, so that neither can fill up and hold it. */
#ifndef COMMON_PROCESS_ANSWER_H
#define COMMON_PROCESS_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json/jsonx.h"

struct answer_question {
    const char *const *argv; /* as in proc_spec, as are memory_bytes and die_with_parent */
    double seconds;          /* it is ended after them; INFINITY: it may take any time */
    int64_t memory_bytes;
    bool die_with_parent;
};

struct answer {
    json_t *document;  /* owned, as is `said`; NULL: it printed none, and `unread` says why */
    struct err unread; /* the error of jsonx_load() */
    char *said;        /* its standard error; NULL: that cannot be read */
    int code;          /* exit code of the program; negative: it was too slow */
};

/* A new folder in /tmp for what a question needs. Whoever asked removes it. ERR_IO. */
int answer_folder(char dir[64], struct err *e);
/* Asks, with the outputs as files of `dir`. Negative if the program could not be started; whether
 * what it answered is good is the caller's to say. Release `out` in any case. */
int answer_get(struct answer *out, const struct answer_question *q, const char *dir, struct err *e);
void answer_release(struct answer *a);

#endif
