/* Bodies in files: see upload.h. */
#include "http/content/upload.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Opens a file and removes its name at once, where the file system has no files without a name. */
static int open_nameless(const char *dir)
{
    char path[PATH_MAX];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        snprintf(path, sizeof(path), "%.4000s/.upload-XXXXXX", dir);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0) {
            unlink(path);
        }
    }
    return fd;
}

int upload_open(struct upload *u, const char *dir, int64_t most, atomic_int *count, struct err *e)
{
    *u = (struct upload){.count = count, .most = most};
    if (atomic_fetch_add(count, 1) >= UPLOADS_MOST) {
        err_set(e, ERR_UNAVAILABLE, "%d uploads are under way", UPLOADS_MOST);
        return err_hint(e, "try again in some seconds");
    }
    int fd = open_nameless(dir);
    u->file = fd >= 0 ? fdopen(fd, "w+b") : NULL;
    if (!u->file) {
        int rc = err_errno(e, ERR_IO, "cannot keep an upload in '%s'", dir);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    return 0;
}

int upload_add(struct upload *u, const void *bytes, size_t n, struct err *e)
{
    u->bytes += (int64_t)n;
    if (u->bytes > u->most) {
        return err_set(e, ERR_TOO_LARGE, "the body is larger than %lld bytes", (long long)u->most);
    }
    return fwrite(bytes, 1, n, u->file) == n ? 0 : err_errno(e, ERR_IO, "cannot keep this upload");
}

FILE *upload_file(struct upload *u, struct err *e)
{
    if (fflush(u->file) != 0 || fseek(u->file, 0, SEEK_SET) != 0) {
        err_errno(e, ERR_IO, "cannot keep this upload");
        return NULL;
    }
    return u->file;
}

void upload_close(struct upload *u)
{
    if (u->file) {
        fclose(u->file);
    }
    if (u->count) {
        atomic_fetch_sub(u->count, 1);
    }
    *u = (struct upload){0};
}
