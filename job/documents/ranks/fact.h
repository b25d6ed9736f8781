/* Fact: what a rank reports once. The store has facts in the stream `facts`, in the order in which
 * they came, each sealed with its rank's key (job/seal.h). The monitor reads each.
 *
 *   {"format": 1, …, "number": 12, "type": "ended", "node": "n1", …}
 *
 * A rank numbers what it reports, heartbeats included, so that nothing counts a second time.
 *
 *   type        told by     keys                                     meaning
 *   loaded      keeper      samples                                  the data set is there: its
 *                                                                    training samples
 *   evaluation  rank 0*,    step epoch time loss accuracy            figures of the test set
 *               keeper      samples final
 *   norms       rank 0*     step epoch time names elements           lengths of the tensors and of
 *                           weights gradients left_out               their gradients
 *   logged      rank 0*     names steps epochs times values          metrics that a program logged
 *   joined      rank 0      program                                  what a user's program brings
 *   crashed     worker      message                                  its program ended, and is
 *                                                                    started again
 *   profile     worker      a k max_batch                            step time, as it starts
 *   tuning      worker      tuning                                   what its device measured
 *   checkpoint  keeper      path step time                           a checkpoint was written
 *   artifact    keeper      name step time                           "model" or "best" was written
 *   restored    keeper      version                                  it starts from a checkpoint
 *   lost        any rank    message                                  its process was ended by a
 *                                                                    signal; its guard tells it
 *   left        keeper      left                                     the others go on without a
 *                                                                    worker that was lost
 *   returned    keeper      left                                     a worker that was lost is
 *                                                                    there again
 *   ended       keeper      outcome code message program             the attempt ended
 *               any rank    the same, "failed"                       of a failure every rank tells
 *                                                                    its own
 * *: where it is lost, the lowest rank that is left.
 */
#ifndef JOB_DOCUMENTS_RANKS_FACT_H
#define JOB_DOCUMENTS_RANKS_FACT_H

#include "common/sign.h"
#include "job/documents/ranks/departure.h"
#include "job/documents/document.h"
#include "job/documents/ranks/evaluation.h"
#include "job/documents/ranks/joined.h"
#include "job/documents/ranks/logged.h"
#include "job/documents/ranks/norms.h"
#include "job/documents/ranks/program_end.h"

enum { FACT_FORMAT = 1, FACT_FILE = 4096 };
/* The number of the fact "lost", the last report about a rank's process: above all numbers that the
 * process used itself, and below those of the next process if the worker is started again. seat:
 * how often it has been started again. */
int64_t fact_number_last(int seat);

enum fact_type {
    FACT_LOADED,
    FACT_EVALUATION,
    FACT_NORMS,
    FACT_LOGGED,
    FACT_JOINED,
    FACT_CRASHED,
    FACT_PROFILE,
    FACT_TUNING,
    FACT_CHECKPOINT,
    FACT_ARTIFACT,
    FACT_RESTORED,
    FACT_LOST,
    FACT_LEFT,
    FACT_RETURNED,
    FACT_ENDED
};
enum { FACT_TYPES = FACT_ENDED + 1 };

/* How an attempt ended, by its ranks' reports. */
enum outcome { OUTCOME_FINISHED, OUTCOME_PAUSED, OUTCOME_STOPPED, OUTCOME_FAILED };
enum { OUTCOMES = OUTCOME_FAILED + 1 };

struct ended {
    enum outcome outcome;
    enum err_code code; /* ERR_NONE: it did not fail */
    char message[DOCUMENT_MESSAGE];
    int rank; /* the rank that reported it, and its node */
    char node[DOCUMENT_NODE];
    struct program_end program; /* if .there, the program's end is the cause */
};

struct fact {
    enum fact_type type;
    struct sender from;
    int64_t number; /* grows with each report of this rank */
    char node[DOCUMENT_NODE];
    union {
        int64_t loaded; /* training samples */
        struct evaluation evaluation;
        struct norms norms;   /* owned if it was read, else borrowed */
        struct logged logged; /* the same */
        struct joined joined;
        struct {
            double a, k;   /* seconds; k 0: the memory is too small for the first minibatch */
            int max_batch; /* the largest minibatch that fits; 0: no limit */
        } profile;
        json_t *tuning; /* owned */
        struct {
            char file[FACT_FILE]; /* path of a checkpoint, name of an artifact */
            int64_t step;
            double time;
        } saved;                        /* checkpoint, artifact */
        char crashed[DOCUMENT_MESSAGE]; /* how the program ended */
        int64_t version;                /* restored: the step that it goes on from */
        char lost[DOCUMENT_MESSAGE];    /* how it ended: "exited on signal 9 (Killed)" */
        struct departure left;          /* and returned; owned */
        struct ended ended;
    };
};

/* fact.lost, of a process with this status of waitpid(): "exited on signal 9 (Killed)", "exited
 * with code 3". */
void fact_describe_end(char lost[DOCUMENT_MESSAGE], int status);
/* Does this description mean that the process was killed by SIGKILL? */
bool fact_tells_kill(const char *lost);

json_t *fact_json(const struct fact *f); /* new reference */
/* Release it in any case. */
int fact_read(struct fact *out, const json_t *j, struct err *e);
/* The same for a fact as the store returns it, sealed with the rank's key (job/seal.h).
 * fact_claims() returns the attempt and rank that it claims, by which the caller finds the key; 0:
 * it claims none. */
int fact_open(struct fact *out, const json_t *claimed, const struct sign_key *key, struct err *e);
void fact_claims(const json_t *claimed, int64_t *attempt, int64_t *rank);
void fact_release(struct fact *f);
/* By the table above, may the rank that wrote it report such a fact? workers: their number; first:
 * the lowest rank that is not lost. */
bool fact_is_its_own(const struct fact *f, int first, int workers);
/* The event "log" about a saved file, with its name but not its folder, which a browser cannot use.
 * New reference. */
json_t *fact_saved_json(const struct fact *f);
/* The same about a program that ended: rank, node and message. New reference. */
json_t *fact_crashed_json(const struct fact *f);

/* An outcome by itself, as a coordinator keeps it. */
json_t *ended_json(const struct ended *end);
void ended_parse(const struct document *d, struct ended *out);

#endif
