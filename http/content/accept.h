/* Reads which media types and codings a client takes (Accept, Accept-Encoding), and which versions
 * (If-Match, If-None-Match): RFC 9110, 12.5 and 13.1. Pure.
 *
 *   Accept: text/csv, application/json;q=0.5, text/html;q=0
 *
 * The most specific range decides: TYPE/SUBTYPE before TYPE/ANY before ANY/ANY.
 */
#ifndef HTTP_CONTENT_ACCEPT_H
#define HTTP_CONTENT_ACCEPT_H

#include <stdbool.h>

enum { ACCEPT_DIGEST = 16 }; /* hexadecimal digits of an ETag's DIGEST */

/* How much a client wants this media type ("application/json"; parameters in the header's ranges
 * other than q are not looked at): 0 to 1000. A header that is NULL or empty wants everything:
 * 1000. */
int accept_type(const char *header, const char *type);
/* The same for a coding ("gzip"). A header that is NULL wants only identity: 0. */
int accept_coding(const char *header, const char *coding);
/* Is it a list of ETags, or `*`? */
bool accept_etags(const char *header);
/* Does a list of ETags name this one? `*` names every one; NULL none. If-None-Match (`weak`) asks
 * for the same bytes. If-Match asks for the same version, since that is what a change depends on:
 * "V" is named by "V", by "V.DIGEST", which stands for the bytes of an answer too (reply.h), and by
 * either in gzip, "V-gzip" (text.h). */
bool accept_etag(const char *header, const char *etag, bool weak);

#endif
