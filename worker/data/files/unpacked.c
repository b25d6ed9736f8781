/* See unpacked.h. The cache's key is the SHA-256 over a word of our own and the compressed bytes. A
 * file that was replaced under its name is therefore decompressed again, and a file that two data
 * sets share only once. The rank that gets the lock writes; the others wait and map the result. */
#include "worker/data/files/unpacked.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/hex.h"
#include "common/log.h"

enum { PATH_BYTES = 4096, CHUNK = 1 << 20, KEY_BYTES = 65 };
#define VALUES "values" /* the file's name in the cache */

static const struct received *kept;

void unpacked_keep_in(const struct received *home)
{
    kept = home;
}

bool unpacked_keeps(void)
{
    return kept && kept->dir;
}

int unpacked_torn(gzFile f, const char *name, int64_t at, int64_t of, struct err *e)
{
    int code;
    const char *why = gzerror(f, &code);
    if (code != Z_OK && code != Z_STREAM_END) {
        return err_set(e, ERR_DATA, "cannot read '%s' near byte %lld: %s", name, (long long)at,
                       why);
    }
    return err_set(e, ERR_DATA, "cannot read '%s': it ends at byte %lld of %lld", name,
                   (long long)at, (long long)of);
}

/* ---- bytes, wherever they go ----------------------------------------------------------------- */

struct sink {
    struct incoming *in; /* the cache, or NULL: memory */
    uint8_t *bytes;
    int64_t n, room;
};

static int put(struct sink *to, const struct unpack *u, const void *bytes, size_t n, struct err *e)
{
    if (to->in) {
        int rc = received_write(to->in, bytes, n, e);
        to->n += (int64_t)n;
        return rc;
    }
    if (to->n + (int64_t)n > to->room) { /* grows with the bytes read, not by a header's promise */
        int64_t room = 2 * to->room > to->n + (int64_t)n ? 2 * to->room : to->n + (int64_t)n;
        uint8_t *more = realloc(to->bytes, (size_t)room);
        if (!more) {
            return err_set(e, ERR_MEMORY, "cannot hold '%s' beyond byte %lld: memory ran out",
                           u->name, (long long)to->n);
        }
        to->bytes = more;
        to->room = room;
    }
    memcpy(to->bytes + to->n, bytes, n);
    to->n += (int64_t)n;
    return 0;
}

/* Decompresses to the end, where zlib compares the checksum. */
static int unpack(struct unpack *u, struct sink *to, struct err *e)
{
    char *chunk = malloc(CHUNK);
    int rc = chunk && gzrewind(u->f) == 0
                 ? 0
                 : err_set(e, chunk ? ERR_IO : ERR_MEMORY, "cannot unpack '%s'", u->name);
    while (rc == 0) {
        int got = gzread(u->f, chunk, CHUNK), code = Z_OK;
        if (got == 0) {
            gzerror(u->f, &code); /* a truncated compressed file */
        }
        if (got < 0 || code != Z_OK || (got == 0 && to->n < u->want)) {
            rc = unpacked_torn(u->f, u->name, to->n, u->want, e);
        } else if (got == 0) {
            break;
        } else if (to->n + got > (u->want >= 0 ? u->want : u->most)) {
            rc = u->want >= 0
                     ? err_set(e, ERR_DATA,
                               "'%s' goes on after byte %lld, where its header says that it ends",
                               u->name, (long long)u->want)
                     : err_set(e, ERR_DATA, "'%s' has more than %lld bytes", u->name,
                               (long long)u->most);
        } else {
            rc = put(to, u, chunk, (size_t)got, e);
        }
    }
    free(chunk);
    u->got = to->n;
    return rc;
}

/* ---- the cache ------------------------------------------------------------------------------- */

static int key_of(const struct unpack *u, char out[KEY_BYTES], struct err *e)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    char *chunk = malloc(CHUNK);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    int fd = open(u->path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    if (chunk && md && fd >= 0 && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1) {
        EVP_DigestUpdate(md, "unpacked\n", 9);
        while ((n = read(fd, chunk, CHUNK)) > 0) {
            EVP_DigestUpdate(md, chunk, (size_t)n);
        }
        EVP_DigestFinal_ex(md, sum, NULL);
        hex_of(out, sum, 32);
    }
    if (fd >= 0) {
        close(fd);
    }
    EVP_MD_CTX_free(md);
    free(chunk);
    return n == 0 ? 0 : err_set(e, ERR_IO, "cannot read '%s'", u->name);
}

/* NULL: it is not there. */
static struct mapped *find(const struct unpacking *u)
{
    char path[PATH_BYTES + 32];
    if (!received_find(kept, u->key, path)) {
        return NULL;
    }
    size_t n = strlen(path);
    snprintf(path + n, sizeof(path) - n, "/%s/%s", RECEIVED_PATH, VALUES);
    struct mapped *m = mapped_open(path, u->name, NULL);
    if (m && (u->want < 0 || (int64_t)m->bytes == u->want)) {
        return m;
    }
    mapped_close(m);
    received_drop(kept, u->key); /* after a full disk or a crash */
    return NULL;
}

static int fill(const struct unpacking *u, struct err *e)
{
    struct incoming *in = received_begin(kept, u->key, u->want >= 0 ? u->want : u->most, e);
    if (!in) {
        return -(int)e->code;
    }
    int rc = received_writes(in) ? received_file(in, VALUES, e) : 0;
    if (rc == 0 && received_writes(in)) {
        rc = u->fill(u->ctx, in, e);
    }
    return received_end(in, rc, e);
}

struct mapped *unpacked_once(const struct unpacking *u, struct err *e)
{
    if (!unpacked_keeps()) {
        return NULL;
    }
    struct mapped *m = find(u);
    if (!m && fill(u, e) == 0) {
        m = find(u);
    }
    return m;
}

static int fill_packed(void *ctx, struct incoming *in, struct err *e)
{
    struct unpack *u = ctx;
    struct sink to = {.in = in};
    log_info("data", "unpacks a file once for this host", "file=%s", u->name);
    return unpack(u, &to, e);
}

static struct mapped *from_cache(struct unpack *u, struct err *e)
{
    char key[KEY_BYTES];
    struct unpacking once = {key,         u->name, u->want, u->want >= 0 ? u->want : u->most,
                             fill_packed, u};
    return key_of(u, key, e) < 0 ? NULL : unpacked_once(&once, e);
}

struct mapped *unpacked_open(struct unpack *u, struct err *e)
{
    struct err why = {0};
    char quoted[600];
    struct sink to = {0};
    if (gzdirect(u->f)) {
        return mapped_open(u->path, u->name, e);
    }
    struct mapped *m = unpacked_keeps() ? from_cache(u, &why) : NULL;
    if (m) {
        return m;
    }
    if (why.code == ERR_DATA) {
        err_set(e, ERR_DATA, "%s", why.message);
        return NULL;
    }
    if (unpacked_keeps()) {
        log_warn("data", "a file is unpacked into this rank's own memory", "file=%s why=%s",
                 u->name, log_quote(quoted, sizeof(quoted), why.message));
    }
    if (unpack(u, &to, e) < 0) {
        free(to.bytes);
        return NULL;
    }
    return mapped_memory(to.bytes, (size_t)to.n, u->name, e);
}
