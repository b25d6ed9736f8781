/* Marks the rows that a restart supersedes. A job that goes on from a checkpoint makes the steps
 * after it once more, so their old rows no longer count, and neither do their evaluations
 * (records.h). They stay in their files; the history's meta document has their positions.
 */
#ifndef STORE_HISTORY_SUPERSEDE_H
#define STORE_HISTORY_SUPERSEDE_H

#include <jansson.h>

#include "common/err.h"
#include "store/history/pyramid.h"

/* Marks the rows of a track ("rows-0", "steps") with a step above version. */
int supersede_rows(json_t *meta, const char *track, struct pyramid_reader *r, int64_t version,
                   struct err *e);

#endif
