/* Webhook: an address that is told of changes of jobs. The API makes one (POST /api/v1/webhooks),
 * the store keeps it, and the coordinator tells it.
 *
 *   {"id", "address", "states": ["failed", …], "scope": "own" or "all", "owner", "created",
 *    "since": "1700000000000-3", "secret": "whsec_…"}
 *
 * People see all but `since`, and the secret when it is made. It belongs to no attempt, and to the
 * API's own form: it has no format number.
 */
#ifndef JOB_DOCUMENTS_PEOPLE_WEBHOOK_H
#define JOB_DOCUMENTS_PEOPLE_WEBHOOK_H

#include "job/documents/document.h"
#include "job/state.h"

enum { WEBHOOK_ADDRESS = 501, WEBHOOK_OWNER = 64, WEBHOOK_TIME = 32, WEBHOOK_SECRET = 64 };

struct webhook {
    char id[DOCUMENT_JOB];
    char address[WEBHOOK_ADDRESS];
    enum job_state states[JOB_STATE_COUNT]; /* of which it is told, each once */
    int n_states;
    bool own;                   /* it is told of its owner's jobs alone */
    char owner[WEBHOOK_OWNER];  /* "": nobody */
    char created[WEBHOOK_TIME]; /* as people read it */
    char since[WEBHOOK_TIME];   /* it is told of what happened after this event */
    char secret[WEBHOOK_SECRET];
};

/* As it is kept. New reference. */
json_t *webhook_json(const struct webhook *w);
/* As people see it. New reference. */
json_t *webhook_shown(const struct webhook *w, bool with_secret);
int webhook_read(struct webhook *out, const json_t *j, struct err *e);

bool webhook_wants(const struct webhook *w, enum job_state state);
/* Adds a state unless it is there. */
void webhook_add_state(struct webhook *w, enum job_state state);

#endif
