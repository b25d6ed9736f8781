/* Writes tar archives: see tar.h.
 *
 *     block   512 bytes: the header of a file, its fields octal numbers in text
 *     blocks  the file, filled up with zeros to whole blocks
 */
#include "cli/run/tar.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Where the path is cut in two at a slash, prefix before and name behind it; 0: it need not be;
 * negative: ustar cannot hold it. */
static long find_cut(const char *path)
{
    enum {
        NAME = sizeof((struct tar_header *)0)->name,
        PREFIX = sizeof((struct tar_header *)0)->prefix
    };
    size_t n = strlen(path);
    if (n <= NAME) {
        return 0;
    }
    const char *slash = strchr(path + n - NAME - 1, '/');
    size_t cut = slash ? (size_t)(slash - path) : 0;
    return cut > 0 && cut <= PREFIX && cut + 1 < n ? (long)cut : -1;
}

static void add_header(struct buf *out, const char *prefix, size_t prefix_bytes, const char *name,
                       char type, bool executable, size_t n)
{
    struct tar_header h;
    memset(&h, 0, sizeof h);
    memcpy(h.name, name, strnlen(name, sizeof h.name));
    memcpy(h.prefix, prefix, prefix_bytes);
    snprintf(h.mode, sizeof h.mode, "%07o", executable ? 0755u : 0644u);
    snprintf(h.uid, sizeof h.uid, "%07o", 0u);
    snprintf(h.gid, sizeof h.gid, "%07o", 0u);
    snprintf(h.size, sizeof h.size, "%011zo", n);
    snprintf(h.mtime, sizeof h.mtime, "%011o", 0u);
    snprintf(h.major, sizeof h.major, "%07o", 0u);
    snprintf(h.minor, sizeof h.minor, "%07o", 0u);
    h.type = type;
    memcpy(h.magic, "ustar", 6);
    memcpy(h.version, "00", 2);
    snprintf(h.checksum, sizeof h.checksum - 1, "%06o", (unsigned)tar_checksum(&h));
    h.checksum[sizeof h.checksum - 1] = ' ';
    buf_add(out, &h, sizeof h);
}

size_t tar_fill(size_t n)
{
    return (TAR_BLOCK - n % TAR_BLOCK) % TAR_BLOCK;
}

static void add_content(struct buf *out, const void *bytes, size_t n)
{
    static const char zeros[TAR_BLOCK];
    buf_add(out, bytes, n);
    buf_add(out, zeros, tar_fill(n));
}

/* The record "LENGTH path=PATH\n", whose length counts its own digits. */
static size_t path_record(const char *path, char *out, size_t size)
{
    size_t rest = strlen(" path=\n") + strlen(path), n = rest + 1;
    while (n != rest + (size_t)snprintf(NULL, 0, "%zu", n)) {
        n++;
    }
    if (out) {
        snprintf(out, size, "%zu path=%s\n", n, path);
    }
    return n;
}

void tar_head(struct buf *out, const char *path, bool executable, size_t n)
{
    char record[PATH_MAX + 32];
    long cut = find_cut(path);
    if (cut < 0) {
        size_t length = path_record(path, record, sizeof record);
        add_header(out, "", 0, "PaxHeader", 'x', false, length);
        add_content(out, record, length);
    }
    add_header(out, path, cut > 0 ? (size_t)cut : 0, cut > 0 ? path + cut + 1 : path, '0',
               executable, n);
}

void tar_add(struct buf *out, const char *path, bool executable, const void *bytes, size_t n)
{
    tar_head(out, path, executable, n);
    add_content(out, bytes, n);
}

void tar_end(struct buf *out)
{
    static const char zeros[TAR_END_BYTES];
    buf_add(out, zeros, sizeof zeros);
}

size_t tar_bytes(const char *path, size_t n)
{
    size_t record = find_cut(path) < 0 ? path_record(path, NULL, 0) : 0;
    return (record ? TAR_BLOCK + record + tar_fill(record) : 0) + TAR_BLOCK + n + tar_fill(n);
}
