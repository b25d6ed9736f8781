/* Counted texts and their compressed forms; see text.h. Two threads may compress the same text at
 * the same time; the first result is kept. Level 3 takes about 15 ms for 1 MB of JSON and leaves a
 * ninth of it; level 6 takes twice as long for a tenth.
 */
#include "http/content/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LEVEL = 3, GZIP_WINDOW = 15 + 16, MEMORY = 8 };

struct text *text_new(const char *type, char *bytes, size_t len)
{
    struct text *t = bytes ? calloc(1, sizeof(*t)) : NULL;
    if (!t) {
        free(bytes);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->type = type;
    t->bytes = bytes;
    t->len = len;
    return t;
}

struct text *text_ref(struct text *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void text_drop(struct text *t)
{
    if (t && atomic_fetch_sub(&t->refs, 1) == 1) {
        text_drop(atomic_load(&t->gzip));
        free(t->bytes);
        free(t);
    }
}

bool text_packs(const struct text *t)
{
    return !t->packed && t->len >= TEXT_PACK_BYTES;
}

/* The compressed bytes, owned by the caller; NULL: memory ran out. */
static char *pack(const char *bytes, size_t len, size_t *packed_len)
{
    z_stream z = {0};
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        return NULL;
    }
    size_t most = deflateBound(&z, (uLong)len);
    char *out = malloc(most);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)len;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)most;
    bool done = out && deflate(&z, Z_FINISH) == Z_STREAM_END;
    *packed_len = z.total_out;
    deflateEnd(&z);
    if (!done) {
        free(out);
        return NULL;
    }
    return out;
}

/* A strong ETag belongs to the bytes: "x" becomes "x-gzip". */
static void name_packed(struct text *packed, const struct text *t)
{
    size_t n = strlen(t->etag);
    if (n > 1 && n + 6 <= TEXT_ETAG) {
        memcpy(packed->etag, t->etag, n - 1);
        memcpy(packed->etag + n - 1, "-gzip\"", 7);
    }
}

struct text *text_gzip(struct text *t)
{
    struct text *made = atomic_load(&t->gzip), *none = NULL;
    size_t len = 0;
    if (made) {
        return made;
    }
    char *bytes = pack(t->bytes, t->len, &len);
    made = text_new(t->type, bytes, len);
    if (!made) {
        return NULL;
    }
    made->packed = true;
    name_packed(made, t);
    if (!atomic_compare_exchange_strong(&t->gzip, &none, made)) {
        text_drop(made);
        made = none;
    }
    return made;
}
