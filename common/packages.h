/* What a host has for programs of users: its `python3`, and which of these packages that finds. It
 * is asked once, at the start, by a short child process that imports none of them: a framework
 * takes seconds and hundreds of megabytes to import.
 */
#ifndef COMMON_PACKAGES_H
#define COMMON_PACKAGES_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"

/* "python3", "numpy", "torch", …; ends with NULL. */
extern const char *const packages_names[];
bool packages_known(const char *name);

/* {"python3": "3.11.2", "torch": "2.1.0"}: versions by name, digits and dots alone ("": not known);
 * empty where there is no python3. `path`: PATH in which it is looked up; NULL: ours. NULL with an
 * error: it did not answer. */
json_t *packages_find(const char *path, struct err *e);
/* Is `version` at least `least`, number by number? An unknown version is enough. */
bool packages_at_least(const char *version, const char *least);

#endif
