/* Program's end: how a user's program ended that did not end well, as its rank found it. It is the
 * object "program" of the fact "ended" and of a job's `error`:
 *
 *   {"exit_code": 1, "signal": null, "exception": "KeyError: 'x'", "file": "train.py", "line": 12,
 *    "reason": null, "last_line": "KeyError: 'x'", "every_rank": null}
 *
 * What is not known is null. A program that gave up by itself (es_failed, es_refused), and was
 * ended by its rank for it, has neither exit code nor signal.
 */
#ifndef JOB_DOCUMENTS_RANKS_PROGRAM_END_H
#define JOB_DOCUMENTS_RANKS_PROGRAM_END_H

#include "job/documents/document.h"

struct program_end {
    bool there;          /* a program ended; else nothing of the rest counts */
    int exit_code;       /* negative: it did not exit */
    char signal[16];     /* that ended it, "SIGSEGV"; "": none */
    char exception[400]; /* of Python, "KeyError: 'x'"; "": none is known */
    char file[96];       /* the line of the program that raised it; "", 0: not known */
    int line;
    char reason[300];    /* why it cannot go on, where it or its rank says so; "": they do not */
    char last_line[300]; /* that it printed; "": it printed nothing */
    int64_t epoch,
        step; /* in which the programs of all ranks ended, from 1; 0: only this one did */
};

/* The value of "program": an object, or null. New reference. */
json_t *program_end_json(const struct program_end *end);
/* Of an object with a key "program", which may be missing. */
void program_end_parse(const struct document *d, struct program_end *out);
/* In a few words: its reason, or "KeyError: 'x' (train.py, line 12)", or the last line; "" where it
 * said nothing. Returns out. */
const char *program_end_said(const struct program_end *end, char *out, size_t bytes);
/* Did both end in the same way, at the same step? What they printed last may differ: it may have
 * times. */
bool program_end_same(const struct program_end *a, const struct program_end *b);

#endif
