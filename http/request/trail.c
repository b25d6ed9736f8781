/* From a request to its entry in the audit; see trail.h. The address is that of the connection:
 * behind a proxy it is the proxy's, since anybody can write a header.
 */
#include "http/request/trail.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "http/access/audit.h"
#include "http/request/request.h"

void trail_note(struct request *q, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(q->note, sizeof(q->note), fmt, args);
    va_end(args);
}

static void address_of(const struct request *q, char out[AUDIT_ADDRESS])
{
    const struct sockaddr *at = request_address(q);
    socklen_t len =
        at && at->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (!at || getnameinfo(at, len, out, AUDIT_ADDRESS, NULL, 0, NI_NUMERICHOST) != 0) {
        snprintf(out, AUDIT_ADDRESS, "unknown");
    }
}

void trail_add(const struct request *q)
{
    char from[AUDIT_ADDRESS];
    bool known = q->who.role != ROLE_NONE;
    if (request_reads_only(q) || (q->match.route && request_bool(q, "dryRun"))) {
        return;
    }
    address_of(q, from);
    audit_add(q->server->audit, &(struct audit_entry){.known = known,
                                                      .who = known ? q->who.owner : "",
                                                      .role = auth_role_name(q->who.role),
                                                      .token = q->who.token,
                                                      .session = q->who.by_cookie,
                                                      .from = from,
                                                      .method = q->method,
                                                      .path = q->path,
                                                      .note = q->note,
                                                      .request = q->id,
                                                      .status = q->reply.status});
}
