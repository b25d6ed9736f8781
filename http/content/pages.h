/* The page's files as texts, remembered by path, size and time: each is read once, and compressed
 * once when the first browser asks for that (text.h).
 */
#ifndef HTTP_CONTENT_PAGES_H
#define HTTP_CONTENT_PAGES_H

#include <sys/stat.h>

struct pages;
struct text;

struct pages *pages_new(void);    /* NULL: memory ran out */
void pages_free(struct pages *p); /* NULL is fine */
/* The bytes of an open file of this path, as its fstat() says, with type (a literal) and ETag; a
 * reference, the caller's. NULL: it is too large for that, or cannot be read. */
struct text *pages_get(struct pages *p, const char *path, int fd, const struct stat *st,
                       const char *type, const char *etag);

#endif
