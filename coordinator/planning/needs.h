/* What a program needs of a node: its manifest's `device` and `needs`, and the `interpreter` that
 * programs.h adds, against what the node tells of itself (job/node/node.h). A node that does not
 * tell which packages it has may have any; one that was given no --python may have any interpreter.
 * Pure. */
#ifndef COORDINATOR_PLANNING_NEEDS_H
#define COORDINATOR_PLANNING_NEEDS_H

#include <jansson.h>
#include <stdbool.h>

enum { NEEDS_TEXT = 300 };
enum needs_answer {
    NEEDS_MET,
    NEEDS_ASKED, /* nobody knows yet: the node's interpreters are being asked */
    NEEDS_LACKING
};

/* manifest: NULL needs nothing. */
enum needs_answer needs_answer(const json_t *node, const json_t *manifest);
/* "the program needs torch 2.1, and node 'a' has torch 1.13": the first thing that the node lacks;
 * returns out. */
const char *needs_sentence(const json_t *node, const json_t *manifest, char out[NEEDS_TEXT]);
/* " with torch 2.1 and python3", or "": for a sentence about nodes; returns out. */
const char *needs_list(const json_t *manifest, char out[NEEDS_TEXT]);

#endif
