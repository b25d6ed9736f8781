/* Failure: why an attempt did not go well. The store has it as the job's `error`, and the API
 * prints it: {"code", "message", "rank", "node", "attempt"}. A rank that was lost adds {"lost"},
 * which says how, and {"phase", "age_seconds"} if it was silent. A user's program that ended adds
 * {"program"}. The API's form has no format number.
 */
#ifndef JOB_DOCUMENTS_PEOPLE_FAILURE_H
#define JOB_DOCUMENTS_PEOPLE_FAILURE_H

#include "job/documents/ranks/program_end.h"

enum { FAILURE_LOST = 400 };

struct failure {
    enum err_code code;
    char message[DOCUMENT_MESSAGE];
    int rank;                 /* COORDINATOR: no rank is to blame */
    char node[DOCUMENT_NODE]; /* of that rank; empty: none */
    int attempt;
    char
        lost[FAILURE_LOST]; /* how the rank was lost, "no progress for 30.0 s"; empty: it was not */
    char phase[16];         /* phase in which it had no progress or heartbeat; empty: it ended */
    double age_seconds;     /* age of the heartbeat or progress by which it was lost, seconds */
    struct program_end program; /* if .there, the program's end is the failure */
};

/* rank COORDINATOR, node NULL or empty: none. */
struct failure failure_of(enum err_code code, const char *message, int rank, const char *node,
                          int attempt);
/* The failure of a lost rank: ERR_PEER, with a message that names it and says how it was lost. */
struct failure failure_of_loss(const char *how, int rank, const char *node, int attempt);
json_t *failure_json(const struct failure *f); /* new reference */
/* Adds to the message how the attempt before this one ended. before: its failure as failure_json()
 * prints it; NULL: none. */
void failure_tell_before(struct failure *f, const char *before);
/* Has the user's program ended as in the last attempt: with ERR_PROGRAM, in the same way, at the
 * same step, on any rank? Then another attempt would end in the same way. before: the last failure
 * as failure_json() prints it; NULL: none. */
bool failure_repeats(const char *before, const struct failure *now);
/* The code with this err_name(); false: there is none, and *out is ERR_INTERNAL. */
bool failure_code(const char *name, enum err_code *out);

#endif
