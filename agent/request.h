/* What may be asked of an agent: Open MPI's daemon for one attempt of a job, in named fields, each
 * checked; and what it answers. Both are sealed (common/sign.h). Pure.
 *
 *   {"host", "job", "attempt", "family", "daemon", "daemons", "nodes", "mpirun", "seal",
 *    "user"}                                "user" only if it is "own"
 *                                                    + "kind", "nonce", "at" (common/sign.h)
 *   {"nonce", "state", "code", "message"}            state: "started", "refused" or "ended"
 */
#ifndef AGENT_REQUEST_H
#define AGENT_REQUEST_H

#include <jansson.h>
#include <stdint.h>

#include "job/seal.h"

#define OWN_USERS \
    "EVENSTEP_OWN_USERS" /* variable of evenstep-launch: the ranks of each host have a user of the
                            store of their own */

struct request {
    char job[17];
    int attempt;
    int64_t family;      /* number of mpirun's family of jobs */
    int daemon, daemons; /* which one this is (1 …), and how many there are with mpirun itself */
    char nodes[2048];    /* Open MPI's regular expression for all nodes */
    char mpirun[1024];   /* addresses of mpirun */
    char seal[SIGN_HEX]; /* the key of this host's ranks (job/seal.h), wrapped until
                            request_unwrap() */
    char user[8]; /* "own": the store has one for this host's ranks (store/users.h); or "shared" */
    char nonce[65];
};

/* Every field is there, of the right form and in range, and nothing else is; "host" is `host`. */
int request_read(struct request *out, const json_t *body, const char *host, struct err *e);
/* `key`: this host's own. */
void request_unwrap(struct request *r, const struct sign_key *key);
/* From the command that mpirun gives its launch agent ("orted -mca ess_base_jobid …"), the fields
 * without host, job and attempt. */
json_t *request_from_command(int argc, char *const *argv, struct err *e);

/* What the agent answers to the request of this nonce. Texts are borrowed; one that is missing is
 * "". */
struct request_answer {
    const char *nonce, *state, *message;
    int code; /* of the daemon that has ended */
};
json_t *request_answer_json(const struct request_answer *a); /* new reference */
void request_answer_read(struct request_answer *out, const json_t *body);

#endif
