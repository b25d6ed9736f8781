/* Does the quota of the person who submits a job allow it (docs/shares.md)? The coordinator has the
 * quotas; here they are asked for by http_hooks.quota.
 *
 *   limits_complete   before the spec is read: the time limit that it gets where it gives none
 *   limits_check      what it asks for beyond the quota: problems
 *   limits_enter      is there room in the queue and on the disk? ERR_QUOTA with the figures
 *   limits_leave      the job is queued, or not
 */
#ifndef HTTP_RIGHTS_LIMITS_H
#define HTTP_RIGHTS_LIMITS_H

#include "job/quota.h"
#include "job/spec/spec.h"
#include "store/store.h"

struct request;

/* What this owner may have; without the hook: everything. */
void limits_find(const struct request *q, const char *owner, struct quota *out);
void limits_complete(const struct request *q, json_t *body);
void limits_check(struct request *q, const struct jobspec *spec);
/* From here to limits_leave() no other thread submits for an owner with limits, so two jobs never
 * take one place. `key`: the idempotency key or NULL; a request that is made again takes no second
 * place. To be followed by limits_leave() where it gives 0. */
struct limits_place {
    bool held;
};
int limits_enter(const struct request *q, struct store *store, const char *key,
                 struct limits_place *place, struct err *e);
/* The same for jobs that are submitted in the name of another owner, such as those of a sweep. */
int limits_enter_as(const char *owner, const struct quota *quota, struct store *store,
                    const char *key, struct limits_place *place, struct err *e);
void limits_leave(struct limits_place *place);

#endif
