/* See received.h. An incoming data set is DIR/.KEY.part, under the lock DIR/.KEY.lock; it gets its
 * name once it is complete.
 *
 * Names of files come from another host. They consist of letters, digits and a few signs, in at
 * most two folders, and no part of them begins with a dot, so none leads out of DIR.
 */
#include "worker/data/files/received.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/process/proc.h"

enum {
    PATH_BYTES = 4096,
    KEY_CHARS = 64,
    NAME_MOST = 600,
    FOLDERS_MOST = 2,
    SYNCED_FILES = 64 /* by themselves; more of them all together */
};

struct incoming {
    const struct received *home;
    char key[KEY_CHARS + 1], part[PATH_BYTES], final[PATH_BYTES];
    int lock;
    bool writes;
    FILE *file;
    int files;
};

static bool valid_key(const char *key)
{
    return strlen(key) == KEY_CHARS && key[strspn(key, "0123456789abcdef")] == 0;
}

static bool valid_name(const char *name)
{
    int folders = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        bool begins = p == (const unsigned char *)name || p[-1] == '/';
        bool letter = isalnum(*p) || *p >= 0x80 || strchr("-_+ ()[]{}&',=@#%!~", *p) ||
                      (*p == '.' && !begins);
        if (*p == '/' ? begins || ++folders > FOLDERS_MOST : !letter) {
            return false;
        }
    }
    size_t n = strlen(name);
    return n > 0 && n < NAME_MOST && name[n - 1] != '/';
}

bool received_find(const struct received *r, const char *key, char *out)
{
    struct stat st;
    if (!r->dir || !valid_key(key) ||
        snprintf(out, PATH_BYTES, "%s/%s", r->dir, key) >= PATH_BYTES || stat(out, &st) != 0 ||
        !S_ISDIR(st.st_mode)) {
        return false;
    }
    utimensat(AT_FDCWD, out, NULL, 0);
    return true;
}

void received_drop(const struct received *r, const char *key)
{
    char path[PATH_BYTES];
    if (received_find(r, key, path)) {
        proc_remove_tree(path, NULL);
    }
}

/* ---- room ------------------------------------------------------------------------------------ */

/* The bytes of all complete data sets except `key`; puts the least recently used one into
 * oldest[KEY_CHARS + 1] ("": none). */
static int64_t survey(const struct received *r, const char *key, char *oldest)
{
    DIR *d = opendir(r->dir);
    int64_t bytes = 0;
    struct timespec least = {0};
    oldest[0] = 0;
    for (const struct dirent *f; d && (f = readdir(d));) {
        char path[PATH_BYTES];
        struct stat st;
        if (!valid_key(f->d_name) || strcmp(f->d_name, key) == 0 ||
            snprintf(path, sizeof(path), "%s/%s", r->dir, f->d_name) >= PATH_BYTES ||
            stat(path, &st) != 0) {
            continue;
        }
        bytes += proc_tree_bytes(path);
        bool older = st.st_mtim.tv_sec < least.tv_sec ||
                     (st.st_mtim.tv_sec == least.tv_sec && st.st_mtim.tv_nsec < least.tv_nsec);
        if (!oldest[0] || older) {
            snprintf(oldest, KEY_CHARS + 1, "%s", f->d_name);
            least = st.st_mtim;
        }
    }
    if (d) {
        closedir(d);
    }
    return bytes;
}

static int make_room(const struct received *r, const char *key, int64_t bytes, struct err *e)
{
    char oldest[KEY_CHARS + 1];
    if (bytes > r->limit_bytes) {
        err_set(e, ERR_TOO_LARGE,
                "the data set has %lld MB, and this host keeps at most %lld MB of received ones",
                (long long)(bytes / 1000000), (long long)(r->limit_bytes / 1000000));
        return err_hint(
            e, "raise the agent's --data-limit, or put the data set beneath its EVENSTEP_DATA");
    }
    while (survey(r, key, oldest) + bytes > r->limit_bytes && oldest[0]) {
        log_info("data", "a received data set makes room", "key=%.12s", oldest);
        received_drop(r, oldest);
    }
    return 0;
}

/* ---- arriving -------------------------------------------------------------------------------- */

struct incoming *received_begin(const struct received *r, const char *key, int64_t bytes,
                                struct err *e)
{
    struct incoming *in = calloc(1, sizeof(*in));
    char lock[PATH_BYTES];
    if (!in || !r->dir || !valid_key(key)) {
        err_set(e, in ? ERR_UNSUPPORTED : ERR_MEMORY, "cannot receive a data set: %s",
                !in ? "memory ran out" : "this host has no folder for it");
        free(in);
        return NULL;
    }
    in->home = r;
    in->lock = -1;
    snprintf(in->key, sizeof(in->key), "%s", key);
    bool fits = snprintf(in->final, PATH_BYTES, "%s/%s", r->dir, key) < PATH_BYTES &&
                snprintf(in->part, PATH_BYTES, "%s/.%s.part", r->dir, key) < PATH_BYTES &&
                snprintf(lock, PATH_BYTES, "%s/.%s.lock", r->dir, key) < PATH_BYTES;
    int rc = fits ? proc_mkdirs(r->dir, 0700, e)
                  : err_set(e, ERR_TOO_LARGE, "the path of received data sets is too long");
    if (rc == 0 && (in->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0) {
        rc = err_errno(e, ERR_IO, "cannot open '%s'", lock);
    }
    in->writes = rc == 0 && flock(in->lock, LOCK_EX | LOCK_NB) == 0 && access(in->final, F_OK) != 0;
    if (rc == 0 && in->writes) {
        proc_remove_tree(in->part, NULL); /* left by a process that was killed */
        rc = make_room(r, key, bytes, e);
    }
    if (rc < 0) {
        received_end(in, rc, NULL);
        return NULL;
    }
    return in;
}

bool received_writes(const struct incoming *in)
{
    return in->writes;
}

/* Syncs a file before the folder gets its name: after a power cut the cache must not hold a file of
 * zeros. If there are very many files, received_end() syncs the later ones. */
static int close_file(struct incoming *in, struct err *e)
{
    FILE *f = in->file;
    in->file = NULL;
    bool safe = !f || (fflush(f) == 0 && (++in->files > SYNCED_FILES || fdatasync(fileno(f)) == 0));
    return f && (fclose(f) != 0 || !safe)
               ? err_errno(e, ERR_IO, "cannot write a received file in '%s'", in->part)
               : 0;
}

int received_file(struct incoming *in, const char *name, struct err *e)
{
    char path[PATH_BYTES + NAME_MOST + 16];
    if (!valid_name(name)) {
        return err_set(e, ERR_FORBIDDEN, "'%.80s' is not a valid name of a received file", name);
    }
    if (!in->writes) {
        return 0;
    }
    int rc = close_file(in, e);
    if (rc < 0) {
        return rc;
    }
    snprintf(path, sizeof(path), "%s/" RECEIVED_PATH "/%s", in->part, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    rc = proc_mkdirs(path, 0700, e);
    *slash = '/';
    if (rc == 0 && !(in->file = fopen(path, "wbx"))) {
        rc = err_errno(e, ERR_IO, "cannot make '%s'", path);
    }
    return rc;
}

int received_write(struct incoming *in, const void *bytes, size_t n, struct err *e)
{
    if (!in->writes || fwrite(bytes, 1, n, in->file) == n) {
        return 0;
    }
    return err_errno(e, ERR_IO, "cannot write a received file in '%s'", in->part);
}

/* Syncs the files that close_file() did not. */
static int sync_rest(const struct incoming *in, struct err *e)
{
    if (in->files <= SYNCED_FILES) {
        return 0;
    }
    int fd = open(in->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && syncfs(fd) == 0
                 ? 0
                 : err_errno(e, ERR_IO, "cannot write the received files in '%s'", in->part);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

int received_end(struct incoming *in, int rc, struct err *e)
{
    int closed = close_file(in, rc < 0 ? NULL : e); /* whatever came before */
    if (rc >= 0 && (rc = closed) >= 0) {
        rc = sync_rest(in, e);
    }
    if (in->writes) {
        if (rc == 0 && rename(in->part, in->final) != 0) {
            rc = err_errno(e, ERR_IO, "cannot keep the received data set as '%s'", in->final);
        }
        if (rc < 0) {
            proc_remove_tree(in->part, NULL);
        }
    } else if (rc == 0 && in->lock >= 0) {
        flock(in->lock, LOCK_EX); /* until the writing rank of this host has ended */
    }
    if (in->lock >= 0) {
        close(in->lock);
    }
    free(in);
    return rc;
}
