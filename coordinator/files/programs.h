/* Users' own programs that this service may run (a job spec's `program`). Running one is code
 * execution on the nodes as the agent's user, so it is the operator's choice:
 *
 *   DIR/programs/NAME/manifest.json   put there by an operator, on the nodes too (same path, or
 *                                     beneath EVENSTEP_PROGRAMS; job/node/program_manifest.h)
 *   DIR/uploads/DIGEST.tar            uploaded (uploads.h); nodes get it from the job's keeper
 *
 *                        without --allow-programs   with it               and the role programs
 *   a program by name    as its manifest says       as its manifest says  any command, arguments
 *   a program by digest  no                         as its manifest says  any command, arguments
 *   a command alone      no                         no                    yes
 */
#ifndef COORDINATOR_FILES_PROGRAMS_H
#define COORDINATOR_FILES_PROGRAMS_H

#include "job/documents/coordinator/plan.h"

struct program_rights {
    bool allowed; /* serve --allow-programs */
    bool any;     /* and whoever submits the job may bring code: ROLE_PROGRAMS */
};

/* Adds a problem, with a pointer below /program, for each thing in the spec's program that a person
 * with these rights may not run here. Does nothing for a spec without a program. */
void programs_check(const struct jobspec *spec, const char *data_dir, struct program_rights rights,
                    struct jsonx_problems *problems);
/* Writes into the plan what ranks need of the spec's program: the spec with the manifest's command
 * and environment filled in, and where the program lies. An uploaded one counts as used now. */
int programs_plan(struct plan *plan, const struct jobspec *spec, const char *data_dir,
                  struct err *e);
/* The manifest of the spec's program, for what it asks of nodes (needs.h): a new reference, NULL if
 * there is none. A program that is started by `python3` needs that, if it does not say what it
 * needs; one that is started by another Python has it as `interpreter`. */
json_t *programs_manifest(const struct jobspec *spec, const char *data_dir);
/* All that a job can name, as the schema Program says: a new reference. */
json_t *programs_list(const char *data_dir, struct err *e);
/* One that was uploaded (uploads_get), as that schema says: a new reference. */
json_t *programs_describe(const json_t *upload);

#endif
