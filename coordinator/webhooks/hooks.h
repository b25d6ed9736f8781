/* Webhooks and the deliveries that wait for them, in memory as in the store. Belongs to one thread.
 *
 * A hook sends one delivery at a time, so a slow receiver delays only itself. Of the deliveries
 * that are due, the one that has waited longest goes first. A failed one waits 5 s, then four times
 * as long each time, or as long as the receiver asks, but at most an hour. It is given up a day
 * after its event.
 */
#ifndef COORDINATOR_WEBHOOKS_HOOKS_H
#define COORDINATOR_WEBHOOKS_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "job/documents/people/events.h"
#include "job/documents/people/webhook.h"
#include "store/webhooks.h"

enum { HOOKS_DELIVERY = 72, HOOKS_TYPE = 32 };

struct delivery {
    struct delivery *next;
    char id[HOOKS_DELIVERY]; /* "msg_HOOK_EVENT" */
    char job[STORE_ID], type[HOOKS_TYPE];
    char *body;           /* owned; what is sent */
    int64_t created, due; /* ms since 1970: when it happened, when it is sent next */
    int tries;            /* that have failed */
};

struct hook {
    struct hook *next;
    struct webhook about;
    struct delivery *waiting;
    struct delivery *sending; /* one of `waiting`, or NULL */
    bool there;               /* it is still in the store */
};

struct hooks {
    struct store *store; /* borrowed */
    struct hook *first;
};

/* What a receiver answered. */
struct hooks_answer {
    int status;          /* 0: none */
    const char *message; /* why it failed, if it did; borrowed */
    int64_t later;       /* seconds after which it asks to be tried again, at least; 0: none */
};

void hooks_release(struct hooks *h);
/* Takes over what the store has: new ones come with what waits for them, deleted ones go once they
 * send nothing. */
int hooks_load(struct hooks *h, struct err *e);
/* The earliest position in the event stream that a hook still needs; false: there are no hooks. */
bool hooks_since(const struct hooks *h, char out[STORE_PLACE]);
/* Queues an event of a job for those whom it concerns. */
int hooks_event(struct hooks *h, const struct event_entry *entry, struct err *e);
/* A hook with a delivery that is due now; it becomes `sending`. NULL: none is. */
struct hook *hooks_due(struct hooks *h, int64_t now);
/* Takes the result of `sending`: it is done, waits again, or is given up. With the store away it
 * waits. */
int hooks_answered(struct hooks *h, struct hook *hook, const struct hooks_answer *answer,
                   int64_t now, struct err *e);
/* Ms until the next one is due, at most `most`. */
int hooks_next(const struct hooks *h, int64_t now, int most);

#endif
