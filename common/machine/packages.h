/* What a Python interpreter offers to users' programs: its version, and which of the known packages
 * it finds. A short child process asks for them without importing any, because importing a
 * framework takes seconds and hundreds of megabytes. Whether a package can be imported is a
 * separate question.
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
    const char *python;      /* a path, or a name to look up in `path`; NULL: "python3" */
    const char *path;        /* PATH; NULL: ours */
    const atomic_bool *stop; /* once set, a question ends with ERR_CANCELLED; NULL: never */
};
/* {"python3": "3.11.2", "torch": "2.1.0"}: versions by name, as digits and dots ("": unknown).
 * Empty if there is no such interpreter. NULL with an error if it did not answer. */
json_t *packages_find(const struct packages_ask *ask, struct err *e);
/* Imports a package that was found, at the lowest priority. 0: the import succeeded, or only a
 * program can tell after it has chosen a backend (keras). ERR_DATA: it failed; the message is
 * Python's exception. ERR_TIMEOUT: it took minutes. */
int packages_import(const struct packages_ask *ask, const char *name, struct err *e);
/* Is `version` at least `least`, compared number by number? An unknown version passes. */
bool packages_at_least(const char *version, const char *least);

#endif
