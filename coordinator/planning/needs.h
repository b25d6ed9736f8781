/* What a program needs of a node: its manifest's `device` and `needs`, against what the node tells
 * of itself (job/node.h). A node that does not tell which packages it has may have any. Pure. */
#ifndef COORDINATOR_PLANNING_NEEDS_H
#define COORDINATOR_PLANNING_NEEDS_H

#include <jansson.h>
#include <stdbool.h>

enum { NEEDS_TEXT = 200 };

/* manifest: NULL needs nothing. */
bool needs_met(const json_t *node, const json_t *manifest);
/* "the program needs torch 2.1, and node 'a' has torch 1.13": the first thing that the node lacks;
 * returns out. */
const char *needs_sentence(const json_t *node, const json_t *manifest, char out[NEEDS_TEXT]);
/* " with torch 2.1 and python3", or "": for a sentence about nodes; returns out. */
const char *needs_list(const json_t *manifest, char out[NEEDS_TEXT]);

#endif
