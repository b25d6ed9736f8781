/* A program's folder as one tar archive: see pack.h. */
#include "cli/run/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/files.h"
#include "cli/run/tar.h"
#include "common/text/buf.h"
#include "common/process/proc.h"

enum { LARGEST = 5 };

static double mib(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* ", a.bin (40.0 MiB), b.bin (30.0 MiB)" */
static void name_largest(const struct files *f, char *out, size_t size)
{
    size_t below = (size_t)-1, used = 0;
    const struct file *last = NULL;
    out[0] = '\0';
    for (int shown = 0; shown < LARGEST; shown++) {
        const struct file *next = NULL;
        for (const struct file *one = f->list; one < f->list + f->n; one++) {
            bool later = one->bytes < below || (one->bytes == below && one > last);
            next = later && (!next || one->bytes > next->bytes) ? one : next;
        }
        if (!next || used + 40 > size) {
            return;
        }
        below = next->bytes;
        last = next;
        used += (size_t)snprintf(out + used, size - used, "%s%.60s (%.1f MiB)", shown ? ", " : "",
                                 next->path, mib(next->bytes));
    }
}

static int check_size(const struct files *f, struct err *e)
{
    char largest[400];
    size_t bytes = TAR_END_BYTES;
    for (size_t i = 0; i < f->n; i++) {
        bytes += tar_bytes(f->list[i].path, f->list[i].bytes);
    }
    if (bytes <= PACK_BYTES_MOST) {
        return 0;
    }
    name_largest(f, largest, sizeof largest);
    err_set(e, ERR_TOO_LARGE,
            "the program's folder is %.1f MiB packed, and at most %d MiB can be sent; its largest "
            "files: %s",
            mib(bytes), PACK_BYTES_MOST >> 20, largest);
    return err_hint(e,
                    "data stay on the nodes, beneath $EVENSTEP_DATA; a line of .evenstepignore "
                    "leaves a file or folder out");
}

static int add_files(struct buf *out, const struct files *f, struct err *e)
{
    char path[2 * PATH_MAX];
    for (size_t i = 0; i < f->n; i++) {
        size_t n = 0;
        snprintf(path, sizeof path, "%s/%s", f->folder, f->list[i].path);
        char *bytes = proc_read_file(path, PACK_BYTES_MOST, &n, e);
        if (!bytes) {
            err_prefix(e, "cannot pack the program");
            return err_hint(e, "a line of .evenstepignore leaves the file out");
        }
        tar_add(out, f->list[i].path, f->list[i].executable, bytes, n);
        free(bytes);
    }
    tar_end(out);
    return out->failed ? err_set(e, ERR_TOO_LARGE, "the program's folder grew while it was packed")
                       : 0;
}

/* Leaves out a folder that is within this one. */
static void leave_folder_out(struct ignore *ignored, const char *folder, const char *other)
{
    char real[PATH_MAX], top[PATH_MAX], pattern[PATH_MAX + 2];
    size_t n = realpath(folder, top) ? strlen(top) : 0;
    if (other && n && realpath(other, real) && strncmp(real, top, n) == 0 && real[n] == '/') {
        snprintf(pattern, sizeof pattern, "%s/", real + n);
        ignore_add(ignored, pattern);
    }
}

/* Takes what was found. */
static int pack_files(struct pack *p, const struct files *f, struct err *e)
{
    struct buf out;
    buf_init(&out, PACK_BYTES_MOST);
    int rc = check_size(f, e);
    if (rc == 0 && (rc = add_files(&out, f, e)) == 0) {
        p->files = f->n;
        p->by_git = f->by_git;
        p->bytes = buf_take(&out, &p->n);
        rc = p->bytes ? 0 : err_set(e, ERR_MEMORY, "cannot pack the program: memory ran out");
    }
    buf_release(&out);
    return rc;
}

int pack_folder(struct pack *p, const char *folder, const char *main, const char *leave_out,
                struct err *e)
{
    struct ignore ignored;
    struct files files = {.list = NULL};
    memset(p, 0, sizeof *p);
    int rc = ignore_init(&ignored, folder, e);
    if (rc == 0) {
        leave_folder_out(&ignored, folder, leave_out);
        rc = files_find(&files, folder, &ignored, e);
    }
    if (rc == 0 && !files_get(&files, main)) {
        err_set(e, ERR_INVALID, "'%.200s' itself would not be packed: %s leaves it out", main,
                files.by_git ? "git or .evenstepignore" : ".evenstepignore");
        if (files.by_git) {
            err_hint(e, "`git check-ignore -v` says by which line; --folder packs another folder");
        }
        rc = -(int)ERR_INVALID;
    }
    rc = rc == 0 ? pack_files(p, &files, e) : rc;
    files_release(&files);
    ignore_release(&ignored);
    return rc;
}

int pack_file(struct pack *p, const char *folder, const char *main, struct err *e)
{
    struct files files = {.list = NULL};
    memset(p, 0, sizeof *p);
    int rc = files_one(&files, folder, main, e);
    rc = rc == 0 ? pack_files(p, &files, e) : rc;
    files_release(&files);
    return rc;
}

bool pack_mentions(const struct pack *p, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= p->n; i++) {
        if (strncasecmp(p->bytes + i, word, n) == 0) {
            return true;
        }
    }
    return false;
}

void pack_release(struct pack *p)
{
    free(p->bytes);
    memset(p, 0, sizeof *p);
}
