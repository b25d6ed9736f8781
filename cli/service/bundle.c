/* See bundle.h. A folder's archive is a row of segments:
 *
 *     head of file 1 │ file 1 │ zeros │ head of file 2 │ … │ zeros of the end
 */
#include "cli/service/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/tar.h"
#include "common/archive/archive.h"
#include "http/content/upload.h"

enum { HEAD_MOST = 64 << 10 };

/* ---- what is in the folder ------------------------------------------------------------------- */

static int add_file(struct bundle *b, const char *path, int64_t bytes, struct err *e)
{
    if (b->n == ARCHIVE_DATA_FILES) {
        return err_set(e, ERR_INVALID, "the folder '%.200s' has more than %d files", b->from,
                       ARCHIVE_DATA_FILES);
    }
    if (b->n == b->room) {
        size_t room = b->room ? 2 * b->room : 256;
        struct bundle_file *files = realloc(b->files, room * sizeof *files);
        if (!files) {
            return err_set(e, ERR_MEMORY, "cannot list '%.200s': memory ran out", b->from);
        }
        b->files = files;
        b->room = room;
    }
    b->files[b->n].bytes = bytes;
    b->bytes += (int64_t)tar_bytes(path, (size_t)bytes);
    b->files[b->n].path = strdup(path);
    return b->files[b->n++].path ? 0 : err_set(e, ERR_MEMORY, "memory ran out");
}

static int take_found(struct bundle *b, FTS *walk, FTSENT *found, struct err *e)
{
    const char *path = found->fts_path + strlen(b->from) + 1;
    bool hidden = found->fts_level > 0 && found->fts_name[0] == '.';
    switch (found->fts_info) {
    case FTS_DP:
        return 0;
    case FTS_D:
        return hidden && fts_set(walk, found, FTS_SKIP) < 0
                   ? err_errno(e, ERR_INVALID, "cannot pass over '%.200s'", found->fts_path)
                   : 0;
    case FTS_F:
        return hidden ? 0 : add_file(b, path, (int64_t)found->fts_statp->st_size, e);
    case FTS_DC:
        return err_set(e, ERR_INVALID, "the link '%.200s' leads to a folder above it", path);
    case FTS_SLNONE:
        return hidden ? 0 : err_set(e, ERR_INVALID, "the link '%.200s' leads nowhere", path);
    case FTS_DEFAULT:
        return hidden ? 0 : err_set(e, ERR_INVALID, "'%.200s' is not a plain file", path);
    default:
        errno = found->fts_errno;
        return err_errno(e, ERR_INVALID, "cannot read '%.200s'", found->fts_path);
    }
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int list_folder(struct bundle *b, struct err *e)
{
    char *roots[] = {b->from, NULL};
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    FTSENT *found;
    int rc = walk ? 0 : err_errno(e, ERR_INVALID, "cannot read the folder '%.200s'", b->from);
    b->bytes = TAR_END_BYTES;
    while (rc == 0 && (found = fts_read(walk))) {
        rc = take_found(b, walk, found, e);
    }
    if (walk) {
        fts_close(walk);
    }
    if (rc == 0 && b->n == 0) {
        rc = err_set(e, ERR_INVALID, "the folder '%.200s' has no file to send", b->from);
    }
    return rc;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static int open_archive(struct bundle *b, int64_t bytes, struct err *e)
{
    char block[TAR_BLOCK] = "";
    b->fd = open(b->from, O_RDONLY | O_CLOEXEC);
    ssize_t got = b->fd < 0 ? -1 : pread(b->fd, block, sizeof block, 0);
    if (got < 0) {
        return err_errno(e, ERR_INVALID, "cannot read '%.200s'", b->from);
    }
    if (got < TAR_BLOCK || memcmp(((struct tar_header *)block)->magic, "ustar", 5) != 0) {
        bool packed = (unsigned char)block[0] == 0x1f && (unsigned char)block[1] == 0x8b;
        err_set(e, ERR_INVALID, "'%.200s' is neither a folder nor a tar archive%s", b->from,
                packed ? ": it is compressed" : "");
        return err_hint(e, packed ? "gunzip it first"
                                  : "name the folder that the data set's files lie in");
    }
    b->bytes = b->left = bytes;
    return 0;
}

int bundle_open(struct bundle *b, const char *path, struct err *e)
{
    struct stat st;
    memset(b, 0, sizeof *b);
    b->fd = -1;
    buf_init(&b->head, HEAD_MOST);
    if (!realpath(path, b->from) || stat(b->from, &st) < 0) {
        return err_errno(e, ERR_INVALID, "cannot read '%.200s'", path);
    }
    b->folder = S_ISDIR(st.st_mode);
    if (!b->folder && !S_ISREG(st.st_mode)) {
        return err_set(e, ERR_INVALID, "'%.200s' is neither a folder nor a file", path);
    }
    int rc = b->folder ? list_folder(b, e) : open_archive(b, (int64_t)st.st_size, e);
    if (rc == 0 && b->bytes > UPLOAD_DATA_BYTES) {
        err_set(e, ERR_INVALID, "'%.200s' is %.1f MiB packed, and at most %d MiB can be sent", path,
                (double)b->bytes / (1 << 20), UPLOAD_DATA_BYTES >> 20);
        rc = err_hint(e, "put it beneath a data root of the service instead (EVENSTEP_DATA)");
    }
    return rc;
}

void bundle_close(struct bundle *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free(b->files[i].path);
    }
    free(b->files);
    if (b->fd >= 0) {
        close(b->fd);
    }
    buf_release(&b->head);
    memset(b, 0, sizeof *b);
    b->fd = -1;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The file that was sent is as long as its head says, or the archive would be torn. */
static int end_file(struct bundle *b, struct err *e)
{
    char more;
    bool longer = b->folder && read(b->fd, &more, 1) != 0;
    close(b->fd);
    b->fd = -1;
    return longer ? err_set(e, ERR_DATA, "'%.200s' was changed while it was sent",
                            b->files[b->next - 1].path)
                  : 0;
}

static int begin_file(struct bundle *b, struct err *e)
{
    char path[2 * PATH_MAX];
    const struct bundle_file *f = &b->files[b->next++];
    snprintf(path, sizeof path, "%s/%s", b->from, f->path);
    b->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (b->fd < 0) {
        return err_errno(e, ERR_INVALID, "cannot read '%.200s'", path);
    }
    buf_reset(&b->head);
    b->head_read = 0;
    tar_head(&b->head, f->path, false, (size_t)f->bytes);
    b->left = f->bytes;
    b->zeros = (int64_t)tar_fill((size_t)f->bytes) + (b->next == b->n ? TAR_END_BYTES : 0);
    return b->head.failed ? err_set(e, ERR_MEMORY, "memory ran out") : 0;
}

static int64_t read_file(struct bundle *b, char *to, size_t n, struct err *e)
{
    ssize_t got = read(b->fd, to, (int64_t)n < b->left ? n : (size_t)b->left);
    const char *name = b->folder ? b->files[b->next - 1].path : b->from;
    if (got < 0) {
        return err_errno(e, ERR_INVALID, "cannot read '%.200s'", name);
    }
    if (got == 0) {
        return err_set(e, ERR_DATA, "'%.200s' was changed while it was sent", name);
    }
    b->left -= got;
    return got;
}

int64_t bundle_read(struct bundle *b, char *to, size_t n, struct err *e)
{
    for (;;) {
        size_t head = b->head.len - b->head_read;
        if (head > 0) {
            n = n < head ? n : head;
            memcpy(to, b->head.data + b->head_read, n);
            b->head_read += n;
            return (int64_t)n;
        }
        if (b->left > 0) {
            return read_file(b, to, n, e);
        }
        if (b->fd >= 0 && end_file(b, e) < 0) {
            return -(int64_t)e->code;
        }
        if (b->zeros > 0) {
            n = (int64_t)n < b->zeros ? n : (size_t)b->zeros;
            memset(to, 0, n);
            b->zeros -= (int64_t)n;
            return (int64_t)n;
        }
        if (b->next == b->n) {
            return 0;
        }
        if (begin_file(b, e) < 0) {
            return -(int64_t)e->code;
        }
    }
}
