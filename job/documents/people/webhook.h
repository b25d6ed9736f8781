/* Webhook: an address that gets changes of jobs. The API makes one (POST /api/v1/webhooks), the
 * store keeps it, and the coordinator sends to it.
 *
 *   {"id", "address", "states": ["failed", …], "scope": "own" or "all", "owner", "created",
 *    "since": "1700000000000-3", "secret": "whsec_…"}
 *
 * People see all but `since`; they see the secret only when the webhook is made. It belongs to no
 * attempt and is the API's own form, without a format number.
 */
#ifndef JOB_DOCUMENTS_PEOPLE_WEBHOOK_H
#define JOB_DOCUMENTS_PEOPLE_WEBHOOK_H

#include "job/documents/document.h"
#include "job/state.h"

enum { WEBHOOK_ADDRESS = 501, WEBHOOK_OWNER = 64, WEBHOOK_TIME = 32, WEBHOOK_SECRET = 64 };

struct webhook {
    char id[DOCUMENT_JOB];
    char address[WEBHOOK_ADDRESS];
    enum job_state states[JOB_STATE_COUNT]; /* states whose changes it gets, each once */
    int n_states;
    bool own;                   /* it gets only its owner's jobs */
    char owner[WEBHOOK_OWNER];  /* "": nobody */
    char created[WEBHOOK_TIME]; /* in the form for people */
    char since[WEBHOOK_TIME];   /* it gets what happened after this event */
    char secret[WEBHOOK_SECRET];
};

/* The document as the store keeps it. New reference. */
json_t *webhook_json(const struct webhook *w);
/* The document as people see it. New reference. */
json_t *webhook_shown(const struct webhook *w, bool with_secret);
int webhook_read(struct webhook *out, const json_t *j, struct err *e);

bool webhook_wants(const struct webhook *w, enum job_state state);
/* Adds a state if it is missing. */
void webhook_add_state(struct webhook *w, enum job_state state);

#endif
