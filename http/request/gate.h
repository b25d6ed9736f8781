/* The gate: what is known of a request from its header alone, and is enough to refuse it.
 *
 *   framing ─► length ─► host ─► expectation ─► route ─► origin ─► role ─► size ─► types ─► query
 *   └───────────────── form.h ─────────────┘                                       └ form.h
 *                                                                              ─► (an upload)
 *
 * The host comes before anything that tells what there is, so that a page of a rebound name learns
 * nothing. It runs on an event thread and never waits: a session that only the store knows leaves
 * q->unsure, and gate_check_session() decides later.
 */
#ifndef HTTP_REQUEST_GATE_H
#define HTTP_REQUEST_GATE_H

#include "http/request/request.h"

/* false: q->refused, and q->reply says why. */
bool gate_pass(struct request *q);
/* For q->unsure, on a thread that may wait: 0, or -1 and q->reply says why, *e too. */
int gate_check_session(struct request *q, struct err *e);
/* Asks once more when the body has come, which may take minutes. Never waits. 0, or the request is
 * refused. */
int gate_check_still(struct request *q);
/* Refuses with *e, or because of its size: -1. What the body has taken is the caller's to free. */
int gate_refuse(struct request *q, const struct err *e);
int gate_too_large(struct request *q);

#endif
