/* Sweeps in the store: the document of each, its jobs and state so far, and which have not ended.
 * The store keeps documents and lists of jobs as they are; job/sweep says what is in them.
 *
 *   sweep   {"id", "document": {…}, "owner", "state", "created", "finished", "jobs": […]}
 *
 * HTTP creates a sweep and asks it to end; the coordinator writes everything else, behind its
 * fence. As in store.h: 0 or more, or a negative code.
 */
#ifndef STORE_SWEEPS_H
#define STORE_SWEEPS_H

#include "job/sweep/state.h"
#include "store/store.h"

enum { STORE_SWEEPS = 500 }; /* in a list */

/* Creates a sweep, like store_job_create(). The document is stored as it is. Returns enum
 * job_created. */
int store_sweep_create(struct store *s, const json_t *document, const char *idempotency_key,
                       const char *owner, char id[STORE_ID], struct err *e);
/* New reference; NULL with ERR_NOT_FOUND. */
json_t *store_sweep_get(struct store *s, const char *id, struct err *e);
/* The newest first, at most `limit`. New reference. */
json_t *store_sweeps(struct store *s, int limit, struct err *e);
/* Ids of the sweeps that have not ended, in no order. New reference. */
json_t *store_sweeps_open(struct store *s, struct err *e);
/* Writes the list of jobs (NULL: it stays), and changes the state from `from` to `to`; a sweep in
 * any other state keeps it. Returns the state before; ERR_NOT_FOUND. */
int store_sweep_change(struct store *s, const char *id, const json_t *jobs, enum sweep_state from,
                       enum sweep_state to, struct err *e);
/* ERR_CONFLICT if it has not ended. Its jobs stay. */
int store_sweep_remove(struct store *s, const char *id, struct err *e);
#endif
