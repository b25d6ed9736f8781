/* Commands about nodes; see cli/jobs/jobs.h. */
#ifndef CLI_NODES_NODES_H
#define CLI_NODES_NODES_H

#include "cli/session.h"

extern const struct opt nodes_options[];

int command_nodes(struct session *s);
int command_drain(struct session *s);
int command_enable(struct session *s);
int command_disable(struct session *s);
int command_forget(struct session *s);

#endif
