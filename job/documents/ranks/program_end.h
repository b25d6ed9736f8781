/* Program's end: how a user's program failed, as its rank found it. It is the object "program" of
 * the fact "ended" and of a job's `error`:
 *
 *   {"exit_code": 1, "signal": null, "exception": "KeyError: 'x'", "file": "train.py", "line": 12,
 *    "reason": null, "last_line": "KeyError: 'x'", "every_rank": null}
 *
 * What is not known is null. A program that gave up by itself (es_failed, es_refused) and was then
 * ended by its rank has neither exit code nor signal.
 */
#ifndef JOB_DOCUMENTS_RANKS_PROGRAM_END_H
#define JOB_DOCUMENTS_RANKS_PROGRAM_END_H

#include "job/documents/document.h"

struct program_end {
    bool there;          /* a program ended; false: the other fields do not count */
    int exit_code;       /* negative: it did not exit by itself */
    char signal[16];     /* the signal that ended it, "SIGSEGV"; "": none */
    char exception[400]; /* Python's exception, "KeyError: 'x'"; "": not known */
    char file[96];       /* the line of the program that raised it; "", 0: not known */
    int line;
    char reason[300];    /* why it cannot go on, if it or its rank says so; "": not known */
    char last_line[300]; /* the last line that it printed; "": none */
    int64_t epoch,
        step; /* step, from 1, in which the programs of all ranks ended; 0: only this one ended */
};

/* The value of "program": an object, or null. New reference. */
json_t *program_end_json(const struct program_end *end);
/* Reads the key "program" of an object, which may be missing. */
void program_end_parse(const struct document *d, struct program_end *out);
/* The end in a few words: its reason, or "KeyError: 'x' (train.py, line 12)", or the last line; ""
 * if it said nothing. Returns out. */
const char *program_end_said(const struct program_end *end, char *out, size_t bytes);
/* Did both end in the same way, at the same step? Their last lines may differ, since they may have
 * times. */
bool program_end_same(const struct program_end *a, const struct program_end *b);

#endif
