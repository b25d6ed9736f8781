/* The agent's heartbeat: the host and its nodes, every second, from a thread with a store
 * connection of its own, so that starting a daemon does not make them look lost. */
#ifndef AGENT_BEAT_H
#define AGENT_BEAT_H

#include <jansson.h>

#include "agent/config.h"
#include "common/machine/interpreters.h"

struct beat;
/* Registers host and nodes at once. All pointers are borrowed until beat_stop. interpreters: the
 * host's interpreters of Python, which the heartbeat reports with each node. NULL after an
 * error. */
struct beat *beat_start(const struct agent_config *c, const struct gpus *gpus,
                        struct interpreters *interpreters, const char *instance, struct err *e);
/* Counts one more request that this agent refused, by its cause. The heartbeat has the counts. */
void beat_refused(struct beat *b, const char *cause);
void beat_running(struct beat *b, int daemons);
/* This host is about to stop. The next heartbeat is sent at once and says so: the nodes get no
 * further job, and jobs that use them write a checkpoint. */
void beat_leaving(struct beat *b);
/* Removes host and nodes from the store, ends the thread and frees. */
void beat_stop(struct beat *b);

#endif
