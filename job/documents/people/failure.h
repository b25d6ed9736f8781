/* Failure: why an attempt did not go well. It stands in the store as the job's `error`, and the API
 * prints it: {"code", "message", "rank", "node", "attempt"}, of a rank that was lost also {"lost"},
 * which says how, and {"phase", "age_seconds"} where it was silent, and of a user's program that
 * ended {"program"}. The API's form has no format number.
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
    char phase[16];         /* in which it had no progress or heartbeat; empty: it ended */
    double age_seconds;     /* age of the heartbeat or progress by which it was lost, seconds */
    struct program_end program; /* .there: its end is the failure */
};

/* rank COORDINATOR, node NULL or empty: none. */
struct failure failure_of(enum err_code code, const char *message, int rank, const char *node,
                          int attempt);
/* Of a rank that was lost: ERR_PEER, with a message that names it and says how. */
struct failure failure_of_loss(const char *how, int rank, const char *node, int attempt);
json_t *failure_json(const struct failure *f); /* new reference */
/* Has the user's program ended as in the attempt before: ERR_PROGRAM in the same way at the same
 * step, whichever rank told it? Then another attempt would end in the same way. before: that
 * failure as failure_json prints it; NULL: none. */
bool failure_repeats(const char *before, const struct failure *now);
/* The code that err_name() prints so; false: there is none, and *out is ERR_INTERNAL. */
bool failure_code(const char *name, enum err_code *out);

#endif
