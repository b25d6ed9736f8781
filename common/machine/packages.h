/* What an interpreter of Python has for programs of users: its version, and which of these packages
 * it finds. It is asked by a short child process that imports none of them, since a framework takes
 * seconds and hundreds of megabytes to import; whether one can be imported is a question of its
 * own.
 */
#ifndef COMMON_MACHINE_PACKAGES_H
#define COMMON_MACHINE_PACKAGES_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/err.h"

/* "python3", "numpy", "torch", …; ends with NULL. */
extern const char *const packages_names[];
bool packages_known(const char *name);

struct packages_ask {
    const char *python;      /* a path, or a name that is looked up in `path`; NULL: "python3" */
    const char *path;        /* PATH; NULL: ours */
    const atomic_bool *stop; /* once it is set a question ends with ERR_CANCELLED; NULL: never */
};
/* {"python3": "3.11.2", "torch": "2.1.0"}: versions by name, digits and dots alone ("": not known);
 * empty where there is no such interpreter. NULL with an error: it did not answer. */
json_t *packages_find(const struct packages_ask *ask, struct err *e);
/* Imports a package that was found, at the lowest priority. 0: that succeeded, or nobody can tell
 * before a program has chosen a backend (keras). ERR_DATA: it failed, and the message is Python's
 * exception. ERR_TIMEOUT: it took minutes. */
int packages_import(const struct packages_ask *ask, const char *name, struct err *e);
/* Is `version` at least `least`, number by number? An unknown version is enough. */
bool packages_at_least(const char *version, const char *least);

#endif
