/* Host beat: what the store keeps of a host. The coordinator writes it once when the host joins,
 * the host's agent with every heartbeat after that. It belongs to no attempt; instead of a format
 * number it carries the versions of the agent's programs (job/hostkey.h compares them).
 *
 *   {"name", "instance", "address", "network", "versions": {…}, "nodes": [names],
 *    "load": {…}, "gpus": [{…}], "refused": {cause: count}, "daemons": 1}     from the agent alone
 *   + {"heartbeat_age_seconds", "lost"}                                       by the store
 *
 * What was read is borrowed from the document; a text that is missing is "".
 */
#ifndef JOB_DOCUMENTS_HOSTS_HOST_BEAT_H
#define JOB_DOCUMENTS_HOSTS_HOST_BEAT_H

#include <jansson.h>
#include <stdbool.h>

struct host_beat {
    const char *name, *instance; /* instance: a random id of one run of the agent */
    const char *address, *network;
    json_t *versions, *nodes;
    json_t *load; /* NULL: the host has just joined; then `gpus` and `refused` are NULL too */
    json_t *gpus, *refused;
    int daemons; /* Open MPI daemons that run here */
    bool lost;   /* only read: the heartbeat is too old */
};

json_t *host_beat_json(const struct host_beat *b); /* new reference */
void host_beat_read(struct host_beat *out, const json_t *j);
/* Called by the store: adds how old the heartbeat is. */
void host_beat_aged(json_t *j, double age_seconds, bool lost);

#endif
