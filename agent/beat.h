/* The agent's heartbeat: the host and its nodes, every second, from a thread with a store
 * connection of its own, so that starting a daemon does not make them look lost. */
#ifndef AGENT_BEAT_H
#define AGENT_BEAT_H

#include <jansson.h>

#include "agent/config.h"
#include "common/machine/interpreters.h"

struct beat;
/* Registers host and nodes at once. All pointers are borrowed until beat_stop; interpreters: what
 * the nodes tell of them. */
struct beat *beat_start(const struct agent_config *c, const struct gpus *gpus,
                        struct interpreters *interpreters, const char *instance, struct err *e);
/* Requests that were refused here since the start, by cause; shown with the host. */
void beat_refused(struct beat *b, const char *cause);
void beat_running(struct beat *b, int daemons);
/* This host is about to stop: its nodes get no further job, and the coordinator has jobs that use
 * them write a checkpoint. Told at once. */
void beat_leaving(struct beat *b);
/* Host and nodes leave the store. */
void beat_stop(struct beat *b);

#endif
