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
    int daemon, daemons; /* this daemon's number, from 1, and how many there are, mpirun included */
    char nodes[2048];    /* Open MPI's regular expression for all nodes */
    char mpirun[1024];   /* addresses of mpirun */
    char seal[SIGN_HEX]; /* the key of this host's ranks (job/seal.h), wrapped until
                            request_unwrap() */
    char user[8]; /* "own": the store has one for this host's ranks (store/users.h); or "shared" */
    char nonce[65];
};

/* Checks that every field is there, has the right form and is in range, that there are no others,
 * and that "host" is `host`. */
int request_read(struct request *out, const json_t *body, const char *host, struct err *e);
/* `key`: this host's own. */
void request_unwrap(struct request *r, const struct sign_key *key);
/* The fields without host, job and attempt, from the command that mpirun gives its launch agent
 * ("orted -mca ess_base_jobid …"). */
json_t *request_from_command(int argc, char *const *argv, struct err *e);

/* The agent's answer to the request with this nonce. Texts are borrowed; a missing one is "". */
struct request_answer {
    const char *nonce, *state, *message;
    int code; /* exit code of the daemon */
};
json_t *request_answer_json(const struct request_answer *a); /* new reference */
void request_answer_read(struct request_answer *out, const json_t *body);

#endif
