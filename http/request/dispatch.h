/* What libmicrohttpd calls for each request, one after the other: dispatch_uri when its first line
 * has come, dispatch_request for its header, for each part of its body and for its answer,
 * dispatch_done at its end. `server` is a struct http_server.
 */
#ifndef HTTP_REQUEST_DISPATCH_H
#define HTTP_REQUEST_DISPATCH_H

#include <stddef.h>

struct MHD_Connection;

/* The request, which libmicrohttpd hands to the two below; NULL: memory ran out. */
void *dispatch_uri(void *server, const char *uri, struct MHD_Connection *connection);
struct dispatch_line { /* borrowed from libmicrohttpd until the request is done */
    const char *url;   /* decoded, without its query */
    const char *method, *version;
};
/* MHD_YES, or MHD_NO: the connection is to be closed. */
int dispatch_request(void *server, struct MHD_Connection *connection,
                     const struct dispatch_line *line, const char *upload, size_t *upload_bytes,
                     void **request);
void dispatch_done(void *server, void **request);

#endif
