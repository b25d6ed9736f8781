/* Commands about nodes; see cli/jobs/jobs.h. */
#ifndef CLI_NODES_NODES_H
#define CLI_NODES_NODES_H

#include "cli/session.h"

/* "/api/v1/nodes/NAME" and what follows; the caller releases it. */
void node_path(struct buf *out, const char *name, const char *rest);
/* After an error about a node: if there is none of this name, hints at the one with the nearest
 * name. Returns the error. */
int node_suggest(struct session *s, const char *name);

extern const struct opt nodes_options[], load_options[];

int command_nodes(struct session *s);
int command_load(struct session *s); /* load.c */
int command_drain(struct session *s);
int command_enable(struct session *s);
int command_disable(struct session *s);
int command_forget(struct session *s);

#endif
