/* Webhooks in the store: addresses that get changes of jobs, and the deliveries that wait for them.
 * The store keeps these documents as they are.
 *
 *   webhook    job/documents/people/webhook.h
 *   delivery   what is to be sent once; it waits in the webhook's queue
 *   try        the result of one attempt to send it; the last STORE_WEBHOOK_TRIES of each webhook
 *
 * A delivery is queued before the position after its event is written, and its id is made from the
 * event's. So a coordinator that dies in between queues the same delivery again, not a second one.
 * When a webhook is removed, its deliveries and tries are removed with it. As in store.h: 0 or
 * more, or a negative code.
 */
#ifndef STORE_WEBHOOKS_H
#define STORE_WEBHOOKS_H

#include "store/store.h"

enum { STORE_WEBHOOKS = 100, STORE_WEBHOOK_WAITING = 1000, STORE_WEBHOOK_TRIES = 20 };

/* ERR_CONFLICT: there are STORE_WEBHOOKS already. */
int store_webhook_put(struct store *s, const char *id, const json_t *webhook, struct err *e);
/* New reference; NULL with ERR_NOT_FOUND. */
json_t *store_webhook_get(struct store *s, const char *id, struct err *e);
json_t *store_webhooks(struct store *s, struct err *e);                   /* array, in no order */
int store_webhook_remove(struct store *s, const char *id, struct err *e); /* or ERR_NOT_FOUND */

enum webhook_queued {
    WEBHOOK_GONE, /* it was deleted */
    WEBHOOK_FULL, /* STORE_WEBHOOK_WAITING deliveries wait; this one does not */
    WEBHOOK_QUEUED
};
int store_webhook_queue(struct store *s, const char *id, const char *delivery,
                        const json_t *document, struct err *e);
json_t *store_webhook_waiting(struct store *s, const char *id, struct err *e); /* array */
int64_t store_webhook_count(struct store *s, const char *id, struct err *e);   /* that wait */
/* Records a try. left: the delivery, which goes on waiting; NULL: it is done. */
int store_webhook_tried(struct store *s, const char *id, const char *delivery, const json_t *left,
                        const json_t *tried, struct err *e);
json_t *store_webhook_tries(struct store *s, const char *id, struct err *e); /* newest first */

/* The last event that was read; "0-0": none yet. */
int store_webhook_place(struct store *s, char out[STORE_PLACE], struct err *e);
int store_webhook_place_set(struct store *s, const char *place, struct err *e);
#endif
