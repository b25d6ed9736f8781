/* A text that answers send: a JSON document, a table, a file of the page. References are counted,
 * so that recent.c gives the same bytes to many clients. Immutable once it is made; any thread may
 * use it.
 *
 * Its compressed form (gzip) is made when the first client asks for it, and kept with it.
 */
#ifndef HTTP_CONTENT_TEXT_H
#define HTTP_CONTENT_TEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    TEXT_ETAG = 128,
    TEXT_PACK_BYTES = 1024, /* a smaller one is not compressed */
};

struct text {
    atomic_int refs;
    const char *type;     /* media type; borrowed for ever: a literal */
    char etag[TEXT_ETAG]; /* with its quotes; "": none */
    bool packed;          /* the bytes are gzip's */
    char *bytes;          /* [len], owned */
    size_t len;
    struct text *_Atomic gzip; /* owned; NULL: not made yet */
};

/* Takes `bytes` (malloc'd; NULL stands for memory that ran out). One reference, the caller's. NULL:
 * memory ran out. */
struct text *text_new(const char *type, char *bytes, size_t len);
struct text *text_ref(struct text *t); /* another reference; gives t */
void text_drop(struct text *t);        /* gives one back; NULL is fine */
/* Is it worth being compressed? */
bool text_packs(const struct text *t);
/* The compressed form: borrowed, lives as long as t. NULL: memory ran out. */
struct text *text_gzip(struct text *t);

#endif
