/* What libmicrohttpd calls for each request, one after the other: dispatch_uri when its first line
 * has come, dispatch_request for its header, for each part of its body and for its answer,
 * dispatch_done at its end. `server` is a struct http_server.
 */
#ifndef HTTP_DISPATCH_H
#define HTTP_DISPATCH_H

#include <stddef.h>

struct MHD_Connection;

/* The request, which libmicrohttpd hands to the two below; NULL: memory ran out. */
void *dispatch_uri(void *server, const char *uri, struct MHD_Connection *connection);
/* MHD_YES, or MHD_NO: the connection is to be closed. */
int dispatch_request(void *server, struct MHD_Connection *connection, const char *url,
                     const char *method, const char *upload, size_t *upload_bytes, void **request);
void dispatch_done(void *server, void **request);

#endif
