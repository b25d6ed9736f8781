/* What a request leaves in the audit (audit.h): every request that may change something, with who
 * asked, from where, and the answer that it got. A dry run changes nothing and is left out.
 */
#ifndef HTTP_REQUEST_TRAIL_H
#define HTTP_REQUEST_TRAIL_H

struct request;

/* For handlers: what it changes, beyond method and path. Never a secret. Cut to REQUEST_NOTE. */
void trail_note(struct request *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Before the answer goes out: whoever has the answer finds the entry. */
void trail_add(const struct request *q);

#endif
