/* Bookmark: how far a coordinator has read of what an attempt's ranks report, so that the next one
 * goes on there. The store has it in `detail:monitor`. It is written whenever the coordinator has
 * finished with what it read.
 *
 *   {"format": 1, …, "facts": "17…-0", "rows": {"0": "17…-3", "1": "0-0"}, "numbers": {"0": 7},
 *    "steps": {"0": 120}, "gone": {"1": 2}, "gate_open": true, "log_offset": 4096,
 *    "training_samples": 60000, "outcome": {…}, "program": {…}, "left": [{…}]}
 *                                                        the last four where they are known
 *
 * `rows` names the last row of each rank that is on disk. Later ones may have been in the old
 * coordinator's memory only, and are read again. `steps` and `gone` tell what a lost worker had not
 * sent yet, whichever coordinator read its last row.
 */
#ifndef JOB_DOCUMENTS_COORDINATOR_BOOKMARK_H
#define JOB_DOCUMENTS_COORDINATOR_BOOKMARK_H

#include "job/documents/ranks/fact.h"

enum { BOOKMARK_FORMAT = 1, BOOKMARK_PLACE = 32, BOOKMARK_RANKS = 4096 };

struct bookmark {
    struct sender from;
    char facts[BOOKMARK_PLACE];   /* place in the stream of facts; "0-0": its beginning */
    char (*rows)[BOOKMARK_PLACE]; /* [ranks], of each rank's stream; owned */
    int64_t *numbers;             /* [ranks], number of each rank's last fact in this attempt;
                                     owned */
    int64_t *steps; /* [ranks], each rank's own steps by its newest row; -1: not known; owned */
    int64_t *gone;  /* [ranks], rows that the rank's earlier processes had not sent; owned */
    int ranks;
    int64_t training_samples; /* of the data set; 0: not known yet */
    bool gate_open;           /* rows of this attempt may be taken into the history */
    int64_t log_offset;       /* bytes of the attempt's output */
    bool has_ended;
    struct ended ended;     /* if has_ended */
    struct joined program;  /* what a user's program brought; global_batch 0: none joined */
    int n_left;             /* workers that the attempt goes on without: */
    struct departure *left; /* [n_left]; owned. A writer that lends it sets it to NULL before the
                               release */
};

/* Allocates room for `ranks`; every position is the beginning of its stream. */
void bookmark_init(struct bookmark *b, int ranks);
json_t *bookmark_json(const struct bookmark *b); /* new reference */
/* Takes the positions of ranks 0 … `ranks` - 1 and ignores those of others. Release `out` in any
 * case. */
int bookmark_read(struct bookmark *out, int ranks, const json_t *j, struct err *e);
void bookmark_release(struct bookmark *b);

#endif
