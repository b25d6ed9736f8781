/* Data beside a program stay behind where git ignores them, or where they are in another folder:
 * the first thing that many a program fails on. */
#ifndef CLI_RUN_ABSENT_H
#define CLI_RUN_ABSENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/* Did this job's program end since Python found no file of a name? The name, in out. */
bool absent_named(const json_t *job, char *out, size_t bytes);
/* A hint in e, if that file is here: beneath `folder`, which was packed, or the current one. */
void absent_hint(const char *name, const char *folder, struct err *e);

#endif
