/* The plan of an attempt: the document from which every rank starts (worker/config.c reads it).
 *
 *   {"job", "attempt", "spec": {…}, "workers": [{"rank","node","host","device","slowdown","threads","tuning"?}], "servers": 1, "job_dir",
 *    "data_roots": […], "program_folder": null, "init_path": null, "first": {"version": 1, "sizes": […]}, "speeds": […]}
 */
#ifndef COORDINATOR_PLAN_H
#define COORDINATOR_PLAN_H

#include "coordinator/placement.h"
#include "job/assign.h"
#include "store/store.h"

struct plan_ask {
    struct store *store;                /* profiles of earlier jobs */
    const char *job, *data_dir, *roots; /* absolute; roots separated by colons */
    const struct jobspec *spec;
    const struct placement *placement;
    int attempt, version; /* of the first assignment: above every earlier one of the job */
};

/* New reference; NULL with an error that says why these nodes cannot run it. *first gets the
 * assignment. */
json_t *plan_make(const struct plan_ask *ask, struct assignment *first, struct err *e);
/* The file of a spec's `init`: beneath a root, or JOB/NAME among the artifacts; links may not lead
 * out. path[4096]. */
int plan_find_init(const char *init, const char *roots, const char *data_dir, char *path,
                   struct err *e);
/* What step times belong to beside the node: the network, and the precision if it is not fp32. */
enum { PLAN_KEY = 32 };
void plan_profile_key(const struct jobspec *spec, char out[PLAN_KEY]);
/* The profile that the store keeps of this node at this device and speed, or NULL; freed with
 * free(). Of one that was never measured (count 0) the memory limit alone is known. nethash: of
 * plan_profile_key. */
struct profile *plan_profile(struct store *store, const char *node, const char *device,
                             double slowdown, const char *nethash);
/* Profiles that the store keeps of these nodes for this network: an array of `count` pointers, NULL
 * where there is none. */
struct profile **plan_profiles(struct store *store, const struct jobspec *spec,
                               const struct placement *p);
void plan_profiles_free(struct profile **profiles, int count);

#endif
