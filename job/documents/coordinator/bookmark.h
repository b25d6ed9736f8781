/* Bookmark: how far a coordinator has read of what an attempt's ranks report, so that the next one
 * goes on there. It stands in `detail:monitor`, written whenever something was read for good.
 *
 *   {"format": 1, …, "facts": "17…-0", "rows": {"0": "17…-3", "1": "0-0"}, "numbers": {"0": 7},
 *    "gate_open": true, "log_offset": 4096, "training_samples": 60000, "outcome": {…},
 *    "program": {…}, "left": [{…}]}                      the last four where they are known
 *
 * Rows are named up to where they are on disk: later ones may be in the old coordinator's memory
 * alone, and are read again.
 */
#ifndef JOB_DOCUMENTS_COORDINATOR_BOOKMARK_H
#define JOB_DOCUMENTS_COORDINATOR_BOOKMARK_H

#include "job/documents/ranks/fact.h"

enum { BOOKMARK_FORMAT = 1, BOOKMARK_PLACE = 32, BOOKMARK_RANKS = 4096 };

struct bookmark {
    struct sender from;
    char facts[BOOKMARK_PLACE];   /* place in the stream of facts; "0-0": its beginning */
    char (*rows)[BOOKMARK_PLACE]; /* [ranks], of each rank's stream; owned */
    int64_t *numbers;             /* [ranks], of the last fact of each in this attempt; owned */
    int ranks;
    int64_t training_samples; /* of the data set; 0: not known yet */
    bool gate_open;           /* rows of this attempt may be taken into the history */
    int64_t log_offset;       /* bytes of the attempt's output */
    bool has_ended;
    struct ended ended;     /* if has_ended */
    struct joined program;  /* what a user's program brought; its global_batch is 0: none joined */
    int n_left;             /* workers that the attempt goes on without: */
    struct departure *left; /* [n_left]; owned. A writer that lends it takes it back before the
                               release */
};

/* With room for `ranks`, everything at its beginning. */
void bookmark_init(struct bookmark *b, int ranks);
json_t *bookmark_json(const struct bookmark *b); /* new reference */
/* Release it in any case. Takes the places of ranks 0 … `ranks` - 1; those of others are left. */
int bookmark_read(struct bookmark *out, int ranks, const json_t *j, struct err *e);
void bookmark_release(struct bookmark *b);

#endif
