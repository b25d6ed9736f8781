/* The files and folders of a daemon: see proc.h. */
#include "common/process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void proc_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static void sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder ? 1 : 0] = 0;
    } else {
        memcpy(folder, ".", 2);
    }
    proc_sync_folder(folder);
}

int proc_mkdirs(const char *path, mode_t mode, struct err *e)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) {
        return err_set(e, ERR_IO, "cannot make folder '%s': its name is too long", path);
    }
    for (char *p = part + 1;; p++) {
        if (*p == '/' || *p == 0) {
            char end = *p;
            *p = 0;
            if (mkdir(part, mode) == 0) {
                sync_folder_of(part); /* so that files in it survive a power cut */
            } else if (errno != EEXIST) {
                return err_errno(e, ERR_IO, "cannot make folder '%s'", part);
            }
            *p = end;
            if (!end) {
                return 0;
            }
        }
    }
}

static int write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, bytes, n);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            return -1;
        }
        bytes += w;
        n -= (size_t)w;
    }
    return 0;
}

int proc_write_file(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e)
{
    char temporary[PATH_MAX];
    snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) {
        return err_errno(e, ERR_IO, "cannot write '%s'", path);
    }
    int saved = 0;
    if (write_all(fd, bytes, n) != 0 || fsync(fd) != 0) {
        saved = errno;
    }
    if (close(fd) != 0 && !saved) {
        saved = errno;
    }
    if (!saved && rename(temporary, path) != 0) {
        saved = errno;
    }
    if (saved) {
        unlink(temporary);
        errno = saved;
        return err_errno(e, ERR_IO, "cannot write '%s'", path);
    }
    sync_folder_of(path);
    return 0;
}

char *proc_read_file(const char *path, size_t max, size_t *n, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "cannot read '%s'", path);
        return NULL;
    }
    struct stat st;
    char *data = NULL;
    size_t size = 4096, len = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size > 0 && /* size 0: a file of /proc */
        (size_t)st.st_size < max) {
        size = (size_t)st.st_size + 1;
    }
    for (;;) {
        char *grown = realloc(data, size + 1);
        if (!grown) {
            err_set(e, ERR_MEMORY, "cannot read '%s': memory ran out", path);
            goto fail;
        }
        data = grown;
        ssize_t r = read(fd, data + len, size - len);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            err_errno(e, ERR_IO, "cannot read '%s'", path);
            goto fail;
        }
        if (r == 0) {
            break;
        }
        len += (size_t)r;
        if (len > max) {
            err_set(e, ERR_TOO_LARGE, "cannot read '%s': it has more than %zu bytes", path, max);
            goto fail;
        }
        if (len == size) {
            size *= 2;
        }
    }
    close(fd);
    data[len] = 0;
    if (n) {
        *n = len;
    }
    return data;
fail:
    free(data);
    close(fd);
    return NULL;
}

static double number_in(const char *text, const char *word)
{
    size_t n = strlen(word);
    double v = NAN;
    for (const char *at = text; at && isnan(v);) {
        if (strncmp(at, word, n) == 0) {
            char *end;
            double found = strtod(at + n, &end);
            v = end > at + n ? found : NAN;
        }
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return v;
}

void proc_numbers(const char *path, const char *const *words, int n, double *out)
{
    char *text = proc_read_file(path, 1 << 16, NULL, NULL);
    for (int i = 0; i < n; i++) {
        out[i] = number_in(text, words[i]);
    }
    free(text);
}

double proc_number(const char *path, const char *word)
{
    double v;
    proc_numbers(path, &word, 1, &v);
    return v;
}

static int remove_at(int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if ((errno != EISDIR && errno != EPERM) || depth > 64) {
        return -1;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    int rc = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc |= remove_at(dirfd(d), entry->d_name, depth + 1);
        }
    }
    closedir(d);
    return rc ? rc : unlinkat(parent, name, AT_REMOVEDIR);
}

int proc_remove_tree(const char *path, struct err *e)
{
    return remove_at(AT_FDCWD, path, 0) == 0 ? 0 : err_errno(e, ERR_IO, "cannot remove '%s'", path);
}

static int64_t bytes_at(int parent, const char *name, int depth)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0;
    }
    int64_t bytes = (int64_t)st.st_blocks * 512;
    int fd = S_ISDIR(st.st_mode) && depth <= 64
                 ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) {
            close(fd);
        }
        return bytes;
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            bytes += bytes_at(dirfd(d), entry->d_name, depth + 1);
        }
    }
    closedir(d);
    return bytes;
}

int64_t proc_tree_bytes(const char *path)
{
    return bytes_at(AT_FDCWD, path, 0);
}
