/* The event stream (SSE): GET /api/v1/events. One thread reads the store's events and fans them
 * out; a connection that has nothing to send is suspended and costs no thread.
 *
 *   store ──► reader thread ──► ring of the last events ──► client cursors
 *                                    (libmicrohttpd's threads, resumed when there is news)
 *
 * What an event looks like is in event.h. First comes `event: hello` with the newest id, so that a
 * page that has received no event yet can resume too. With Last-Event-ID what was missed is sent
 * first. `event: gap` (data {}) says that events were lost (trimmed, or the client was too slow):
 * the page reads its state again. A comment goes out every 15 s. With ?job=ID only events of that
 * job, and gaps.
 */
#ifndef HTTP_EVENTS_STREAM_H
#define HTTP_EVENTS_STREAM_H

#include <stdint.h>

#include "common/err.h"

struct auth;
struct identity;
struct recent;
struct stream;
struct tally;
struct store;
struct reply;
struct MHD_Connection;

enum {
    STREAM_CLIENTS = 3500,
    STREAM_RING = 2048,
    STREAM_HEARTBEAT_SECONDS = 15,
    STREAM_REVOKED_SECONDS = 4
};

/* `recent` is told of a change of a job's state before any client is, so that a client which then
 * asks for the job gets the new state. A client whose token is gone from `auth` is sent no more
 * within STREAM_REVOKED_SECONDS, and its answer ends. `tally` counts every event. All are
 * borrowed. */
struct stream *stream_start(const char *store_url, const char *store_password,
                            struct recent *recent, struct auth *auth, struct tally *tally,
                            struct err *e);
/* Every client's answer ends and every suspended connection is resumed; call before the daemon
 * stops. */
void stream_finish(struct stream *s);
void stream_free(struct stream *s); /* after the daemon has stopped */
/* A new client. `store` (may be NULL: away) is the calling thread's, for what was missed since
 * last_id. last_id and job may be NULL. ERR_UNAVAILABLE when there are STREAM_CLIENTS already. */
int stream_open(struct stream *s, struct store *store, struct MHD_Connection *connection,
                const struct identity *who, const char *last_id, const char *job, struct reply *out,
                struct err *e);
int stream_head(struct reply *out, struct err *e); /* the same answer to a HEAD */
int stream_clients(struct stream *s);
int64_t stream_events(struct stream *s);

#endif
