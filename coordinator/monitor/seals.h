/* Keys with which the ranks of a job's attempts seal what they report (job/seal.h,
 * docs/decisions/0015).
 *
 *   seals_draw() ─► DATA/jobs/ID/seals/N    one key per rank and line; mode 0600, the folder's 0700
 *        └─► the attempt's key ─► launcher ─► ranks
 *
 * The file is what a coordinator needs that adopts the attempt, or that reads what an earlier
 * attempt left in the store. It goes with the job's folder.
 */
#ifndef COORDINATOR_MONITOR_SEALS_H
#define COORDINATOR_MONITOR_SEALS_H

#include "job/documents/coordinator/plan.h"
#include "job/seal.h"

/* Draws the key of a new attempt and writes the keys of its ranks. given: filled with the attempt's
 * key, which the launcher hands to the ranks. */
int seals_draw(const struct plan *plan, struct sign_key *given, struct err *e);
/* Does the attempt of this plan have its keys in the job's folder? */
bool seals_there(const struct plan *plan);

struct seals; /* of one job; reads an attempt's file when it is first asked for */
struct seals *seals_open(const char *job_dir, struct err *e);
void seals_close(struct seals *s);
/* A rank's key, and that of its rows (seal_of_rows). Borrowed until the next call; NULL: there is
 * no such attempt or rank. */
const struct sign_key *seals_of(struct seals *s, int attempt, int rank);
const struct sign_key *seals_of_rows(struct seals *s, int attempt, int rank);

#endif
