/* What libmicrohttpd cannot read and refuses by itself, without asking us: another version of HTTP,
 * a request line, header, length or chunk that is none, more than a connection's memory. Its own
 * answer would be a line of HTML; here it becomes a problem document with the headers of all
 * answers. The connection is closed behind it (docs/decisions/0025). */
#ifndef HTTP_REQUEST_UNREADABLE_H
#define HTTP_REQUEST_UNREADABLE_H

struct http_server;

/* Names the server that gives these answers their request ids and counts them: the one that was
 * started last; NULL: it has ended. */
void unreadable_serve(struct http_server *s);

#endif
