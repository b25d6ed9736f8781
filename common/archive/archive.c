/* A user's folder as one file: see archive.h. One pass hashes and unpacks. The names are kept until
 * the end, because the digest depends on their order. */
#include "common/archive/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/hex.h"
#include "common/process/proc.h"
#include "common/archive/tar.h"

enum { HASH_BYTES = 32 }; /* SHA-256 */

struct file {
    char *name; /* owned */
    bool executable;
    int64_t bytes;
    unsigned char hash[HASH_BYTES];
};

struct pass {
    const char *into; /* or NULL */
    struct archive *out;
    struct file *files; /* [room], of which `n` are in use; owned */
    int n, room;
    EVP_MD_CTX *md;
    int fd;         /* of the file being unpacked; -1: none */
    int64_t left;   /* bytes of the file that are still to come */
    size_t kept;    /* bytes of the manifest read so far */
    bool manifests; /* the file is the manifest */
};

bool archive_is_digest(const char *text)
{
    return strlen(text) == ARCHIVE_HEX - 1 && strspn(text, "0123456789abcdef") == ARCHIVE_HEX - 1;
}

/* ---- one file -------------------------------------------------------------------------------- */

static int end_file(struct pass *p, struct err *e)
{
    struct file *f = &p->files[p->n - 1];
    EVP_DigestFinal_ex(p->md, f->hash, NULL);
    p->manifests = false;
    int fd = p->fd;
    p->fd = -1;
    return fd >= 0 && close(fd) != 0 ? err_errno(e, ERR_IO, "cannot write '%s'", f->name) : 0;
}

static int create(struct pass *p, const struct file *f, struct err *e)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", p->into, f->name) >= sizeof path) {
        return err_set(e, ERR_TOO_LARGE, "cannot unpack '%s': its path is too long", f->name);
    }
    char *slash = strrchr(path, '/');
    *slash = '\0';
    int rc = proc_mkdirs(path, 0700, e);
    *slash = '/';
    if (rc < 0) {
        return rc;
    }
    p->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                 f->executable ? 0700 : 0600);
    return p->fd < 0 ? err_errno(e, ERR_IO, "cannot unpack '%s'", f->name) : 0;
}

static int begin_manifest(struct pass *p, int64_t bytes, struct err *e)
{
    if (bytes > ARCHIVE_MANIFEST_BYTES) {
        return err_set(e, ERR_TOO_LARGE, "the file '%s' has more than %d bytes", ARCHIVE_MANIFEST,
                       ARCHIVE_MANIFEST_BYTES);
    }
    free(p->out->manifest); /* an earlier entry of this name; reported at the end */
    p->out->manifest = calloc(1, (size_t)bytes + 1);
    p->manifests = p->out->manifest != NULL;
    p->kept = 0;
    return p->manifests ? 0 : err_set(e, ERR_MEMORY, "cannot read the archive: memory ran out");
}

/* A slot for one more file. NULL: memory ran out. */
static struct file *next_file(struct pass *p)
{
    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 256;
        struct file *files = realloc(p->files, (size_t)room * sizeof *files);
        if (!files) {
            return NULL;
        }
        p->files = files;
        p->room = room;
    }
    return &p->files[p->n];
}

static int on_entry(void *ctx, const struct tar_entry *entry, struct err *e)
{
    struct pass *p = ctx;
    int rc = 0;
    if (entry->folder) {
        return 0;
    }
    struct file *f = next_file(p);
    if (!f) {
        return err_set(e, ERR_MEMORY, "cannot read the archive: memory ran out");
    }
    *f = (struct file){
        .name = strdup(entry->name), .executable = entry->executable, .bytes = entry->bytes};
    if (!f->name || EVP_DigestInit_ex(p->md, EVP_sha256(), NULL) != 1) {
        free(f->name);
        return err_set(e, ERR_MEMORY, "cannot read the archive: memory ran out");
    }
    p->n++;
    p->left = entry->bytes;
    p->out->bytes += entry->bytes;
    if (strcmp(f->name, ARCHIVE_MANIFEST) == 0) {
        rc = begin_manifest(p, entry->bytes, e);
    }
    if (rc == 0 && p->into) {
        rc = create(p, f, e);
    }
    return rc == 0 && p->left == 0 ? end_file(p, e) : rc;
}

static int on_data(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct pass *p = ctx;
    EVP_DigestUpdate(p->md, bytes, n);
    if (p->manifests) {
        memcpy(p->out->manifest + p->kept, bytes, n);
        p->kept += n;
    }
    if (p->fd >= 0 && write(p->fd, bytes, n) != (ssize_t)n) {
        return err_errno(e, ERR_IO, "cannot write '%s'", p->files[p->n - 1].name);
    }
    p->left -= (int64_t)n;
    return p->left == 0 ? end_file(p, e) : 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

/* Is one of the folders in this file's path itself a file? */
static bool is_beneath_file(const struct pass *p, const char *name)
{
    char above[TAR_NAME];
    snprintf(above, sizeof above, "%s", name);
    for (char *slash = strrchr(above, '/'); slash; slash = strrchr(above, '/')) {
        *slash = '\0';
        const struct file key = {.name = above};
        if (bsearch(&key, p->files, (size_t)p->n, sizeof *p->files, by_name)) {
            return true;
        }
    }
    return false;
}

static void check_names(const struct pass *p, struct jsonx_problems *problems)
{
    char pointer[200];
    for (int i = 0; i < p->n; i++) {
        const char *name = p->files[i].name;
        jsonx_join(pointer, sizeof pointer, "", name);
        if (i > 0 && strcmp(name, p->files[i - 1].name) == 0) {
            jsonx_problem(problems, pointer, "the entry '%.200s' occurs twice", name);
        } else if (is_beneath_file(p, name)) {
            jsonx_problem(problems, pointer,
                          "the entry '%.200s' is beneath one that is a plain file", name);
        }
    }
}

static void sum_up(struct pass *p)
{
    char line[ARCHIVE_HEX + 32 + TAR_NAME], hex[ARCHIVE_HEX];
    unsigned char hash[HASH_BYTES];
    EVP_DigestInit_ex(p->md, EVP_sha256(), NULL);
    for (int i = 0; i < p->n; i++) {
        const struct file *f = &p->files[i];
        hex_of(hex, f->hash, HASH_BYTES);
        int n = snprintf(line, sizeof line, "%s %c %lld %s\n", hex, f->executable ? 'x' : '-',
                         (long long)f->bytes, f->name);
        EVP_DigestUpdate(p->md, line, (size_t)n);
    }
    EVP_DigestFinal_ex(p->md, hash, NULL);
    hex_of(p->out->digest, hash, HASH_BYTES);
    p->out->files = p->n;
}

static int finish(struct pass *p, struct jsonx_problems *problems, struct err *e)
{
    if (p->n == 0) {
        return problems->count > 0 ? 0 : err_set(e, ERR_DATA, "the archive has no file");
    }
    qsort(p->files, (size_t)p->n, sizeof *p->files, by_name);
    check_names(p, problems);
    if (problems->count == 0) {
        sum_up(p);
    }
    return 0;
}

int archive_read(FILE *from, const char *into, int most, struct archive *out,
                 struct jsonx_problems *problems, struct err *e)
{
    struct pass p = {.into = into, .out = out, .fd = -1};
    const struct tar_sink sink = {&p, on_entry, on_data};
    memset(out, 0, sizeof *out);
    p.md = EVP_MD_CTX_new();
    int rc = p.md ? tar_read(from, most, &sink, problems, e)
                  : err_set(e, ERR_MEMORY, "cannot read the archive: memory ran out");
    if (rc == 0) {
        rc = finish(&p, problems, e);
    }
    if (p.fd >= 0) {
        close(p.fd);
    }
    for (int i = 0; i < p.n; i++) {
        free(p.files[i].name);
    }
    free(p.files);
    EVP_MD_CTX_free(p.md);
    return rc;
}

int archive_unpack(const char *path, const char *digest, const char *into, struct err *e)
{
    struct archive a;
    struct jsonx_problems problems = {0};
    FILE *from = fopen(path, "rbe");
    if (!from) {
        return err_errno(e, ERR_NOT_FOUND, "cannot open the program's archive '%s'", path);
    }
    int rc = archive_read(from, into, ARCHIVE_PROGRAM_FILES, &a, &problems, e);
    if (rc == 0 && strcmp(a.digest, digest) != 0) {
        rc = err_set(e, ERR_DATA, "the program's archive '%s' does not have the digest %.12s…",
                     path, digest);
    }
    fclose(from);
    archive_release(&a);
    jsonx_problems_release(&problems);
    return rc;
}

void archive_release(struct archive *a)
{
    free(a->manifest);
    a->manifest = NULL;
}
