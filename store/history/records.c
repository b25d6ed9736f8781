/* Files of records of equal length: see records.h. */
#include "store/history/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/history/meta.h"

enum { PATH_BYTES = HISTORY_PATH + 32 };

static void path_of(char out[PATH_BYTES], const char *dir, const char *name)
{
    snprintf(out, PATH_BYTES, "%s/%s.bin", dir, name);
}

/* The number of whole records in the file. */
static int64_t count_in(int fd, size_t bytes)
{
    struct stat st;
    return fd >= 0 && bytes > 0 && fstat(fd, &st) == 0 ? (int64_t)((size_t)st.st_size / bytes) : 0;
}

static bool read_step(const struct records *r, int64_t i, int64_t *step)
{
    off_t at = (off_t)((size_t)i * r->bytes);
    return pread(r->fd, step, sizeof *step, at) == (ssize_t)sizeof *step;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int open_file(struct records *r, const char *dir, int flags, struct err *e)
{
    char path[PATH_BYTES];
    path_of(path, dir, r->name);
    r->fd = open(path, O_RDWR | O_CLOEXEC | flags, 0644);
    return r->fd >= 0 || (errno == ENOENT && !(flags & O_CREAT))
               ? 0
               : err_errno(e, ERR_IO, "cannot open '%s'", path);
}

int records_open(struct records *r, const char *dir, const char *name, size_t bytes, struct err *e)
{
    *r = (struct records){.name = name, .bytes = bytes, .fd = -1};
    int rc = open_file(r, dir, 0, e);
    r->count = count_in(r->fd, bytes);
    return rc;
}

void records_close(struct records *r)
{
    if (r->fd >= 0) {
        close(r->fd);
    }
    r->fd = -1;
}

int records_create(struct records *r, const char *dir, struct err *e)
{
    return r->fd >= 0 ? 0 : open_file(r, dir, O_CREAT, e);
}

int records_append(struct records *r, const char *dir, const void *record, struct err *e)
{
    int rc = records_create(r, dir, e);
    if (rc < 0) {
        return rc;
    }
    off_t at = (off_t)((size_t)r->count * r->bytes);
    if (pwrite(r->fd, record, r->bytes, at) != (ssize_t)r->bytes) {
        return err_errno(e, ERR_IO, "cannot write '%s/%s.bin'", dir, r->name);
    }
    r->count++;
    r->dirty = true;
    return 0;
}

int records_supersede(const struct records *r, json_t *meta, int64_t version, struct err *e)
{
    struct spans more = {0};
    int64_t step;
    int rc = 0;
    for (int64_t i = 0; i < r->count && rc == 0; i++) {
        if (read_step(r, i, &step) && step > version) {
            rc = spans_add(&more, i, i + 1, e);
        }
    }
    if (rc >= 0) {
        rc = history_meta_add_dead(meta, r->name, &more, e);
    }
    spans_release(&more);
    return rc;
}

static int find_alive(struct spans *alive, const char *name, int64_t count, const json_t *meta,
                      struct err *e)
{
    struct spans dead = {0};
    int rc = history_meta_dead(meta, name, &dead, e);
    rc = rc < 0 ? rc : spans_alive(&dead, 0, count, alive, e);
    spans_release(&dead);
    return rc;
}

int records_last(const struct records *r, const json_t *meta, int64_t *step, struct err *e)
{
    struct spans alive = {0};
    int rc = find_alive(&alive, r->name, r->count, meta, e);
    if (rc < 0 || alive.n == 0 || !read_step(r, alive.items[alive.n - 1].b - 1, step)) {
        *step = -1;
    }
    spans_release(&alive);
    return rc;
}

int records_sync(struct records *r, const char *dir, struct err *e)
{
    if (r->dirty && fdatasync(r->fd)) {
        return err_errno(e, ERR_IO, "cannot sync '%s/%s.bin'", dir, r->name);
    }
    r->dirty = false;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_spans(struct records_read *out, int fd, size_t bytes, const struct spans *alive,
                      const char *path, struct err *e)
{
    out->all = malloc((size_t)spans_total(alive) * bytes + 1);
    if (!out->all) {
        return err_set(e, ERR_MEMORY, "cannot read the history: memory ran out");
    }
    for (int i = 0; i < alive->n; i++) {
        size_t first = (size_t)alive->items[i].a, n = (size_t)alive->items[i].b - first;
        if (pread(fd, out->all + (size_t)out->n * bytes, n * bytes, (off_t)(first * bytes)) !=
            (ssize_t)(n * bytes)) {
            return err_errno(e, ERR_IO, "cannot read '%s'", path);
        }
        out->n += (int64_t)n;
    }
    return 0;
}

int records_read(struct records_read *out, const char *dir, const char *name, size_t bytes,
                 const json_t *meta, struct err *e)
{
    char path[PATH_BYTES];
    struct spans alive = {0};
    path_of(path, dir, name);
    *out = (struct records_read){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = find_alive(&alive, name, count_in(fd, bytes), meta, e);
    rc = rc < 0 ? rc : read_spans(out, fd, bytes, &alive, path, e);
    if (fd >= 0) {
        close(fd);
    }
    spans_release(&alive);
    return rc;
}

void records_release(struct records_read *r)
{
    free(r->all);
    *r = (struct records_read){0};
}
