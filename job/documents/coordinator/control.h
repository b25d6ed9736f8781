/* Control: what the coordinator asks of a running attempt. The store has it under the job's
 * `control`; rank 0 and the keeper read it with every pulse.
 *
 *   {"format": 1, …, "version": 7, "sizes": [48, 16], "stop": false, "pause": false,
 *    "checkpoint": false, "lost": [1], "seats": [0, 0, 1], "silent": [2],
 *    "doors": ["10.0.0.3:41234", "", "", "10.0.0.1:40001"]}
 */
#ifndef JOB_DOCUMENTS_COORDINATOR_CONTROL_H
#define JOB_DOCUMENTS_COORDINATOR_CONTROL_H

#include "job/documents/document.h"
#include "job/spec/spec.h"

enum { CONTROL_FORMAT = 1 };

struct control {
    struct sender from;
    int version; /* of the assignment */
    int workers; /* number of `sizes` */
    int sizes[SPEC_WORKERS];
    bool stop, pause;
    bool checkpoint;          /* a checkpoint is asked for each time that it turns true */
    int n_lost;               /* workers that the attempt goes on without: */
    int lost[SPEC_WORKERS];   /* [n_lost] ranks, ascending */
    int n_silent;             /* workers without a sign of life: */
    int silent[SPEC_WORKERS]; /* [n_silent] ranks, ascending; their guards are to kill them */
    /* by rank, how often its worker has been started again after a death; mostly 0. A worker that
     * was started again and is not in `lost` takes part, or is about to join */
    int seats[SPEC_WORKERS];
    /* addresses by rank, workers first, then the keeper, at which newcomers reach it: an array of
     * texts, "" where no door is known; NULL: on one host. Borrowed, and only written; readers call
     * control_doors() */
    json_t *doors;
};

json_t *control_json(const struct control *c); /* new reference */
int control_read(struct control *out, const json_t *j, struct err *e);
/* The doors of a document that control_read() takes: a new reference, or NULL. */
json_t *control_doors(const json_t *j);
/* A rank's door into out[DOCUMENT_DOOR]; false: not known. doors may be NULL. */
bool control_door(const json_t *doors, int rank, char *out);
/* Does the attempt go on without this rank's worker? */
bool control_has_lost(const struct control *c, int rank);
/* Is this rank's worker to be ended by its guard? */
bool control_has_silent(const struct control *c, int rank);

#endif
