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
    int most, folders; /* how many folders there may be, and how many were made */
    struct err clash;  /* why the first file could not be unpacked whose name is taken */
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

static int too_many_folders(const struct pass *p, struct err *e)
{
    return err_set(e, ERR_TOO_LARGE, "the archive has more than %d folders", p->most);
}

/* Makes a folder in which a file lies, but not more of them than the archive may have: a name of
 * 500 bytes can stand for 250. One that is there is not made, nor is one where a file is. */
static int make_folder(struct pass *p, const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) == 0 || errno != ENOENT) {
        return 0;
    }
    return ++p->folders > p->most ? too_many_folders(p, e) : proc_mkdirs(path, 0700, e);
}

/* Makes the folders of `path`, from `into` on. */
static int make_folders(struct pass *p, char *path, struct err *e)
{
    int rc = 0;
    for (char *slash = strchr(path + strlen(p->into), '/'); rc == 0 && slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        rc = make_folder(p, path, e);
        *slash = '/';
    }
    return rc;
}

/* A name that another entry has taken is no error here: check_names finds it and reports both. */
static int create(struct pass *p, const struct file *f, struct err *e)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", p->into, f->name) >= sizeof path) {
        return err_set(e, ERR_TOO_LARGE, "cannot unpack '%s': its path is too long", f->name);
    }
    int rc = make_folders(p, path, e);
    if (rc < 0) {
        return rc;
    }
    p->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                 f->executable ? 0700 : 0600);
    if (p->fd < 0 && (errno == EEXIST || errno == ENOTDIR)) {
        err_errno(&p->clash, ERR_IO, "cannot unpack '%s'", f->name);
        return 0;
    }
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

/* How many first bytes of the name of file i are those of the file before it. */
static size_t shared_with_before(const struct pass *p, int i)
{
    const char *name = p->files[i].name, *before = i > 0 ? p->files[i - 1].name : "";
    size_t n = 0;
    while (name[n] && name[n] == before[n]) {
        n++;
    }
    return n;
}

/* Counts the folders of file i that the file before it is not in, and says whether one of them is
 * itself a file. Names are in order, so what two files share lies side by side. */
static bool is_beneath_file(struct pass *p, int i, int *folders)
{
    char above[TAR_NAME];
    size_t shared = shared_with_before(p, i);
    bool beneath = false;
    snprintf(above, sizeof above, "%s", p->files[i].name);
    for (char *slash = strchr(above + shared, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const struct file key = {.name = above};
        beneath = beneath || bsearch(&key, p->files, (size_t)p->n, sizeof *p->files, by_name);
        *slash = '/';
        ++*folders;
    }
    return beneath;
}

static int check_names(struct pass *p, struct jsonx_problems *problems, struct err *e)
{
    char pointer[200];
    int folders = 0;
    for (int i = 0; i < p->n; i++) {
        const char *name = p->files[i].name;
        jsonx_join(pointer, sizeof pointer, "", name);
        if (i > 0 && strcmp(name, p->files[i - 1].name) == 0) {
            jsonx_problem(problems, pointer, "the entry '%.200s' occurs twice", name);
        } else if (is_beneath_file(p, i, &folders)) {
            jsonx_problem(problems, pointer,
                          "the entry '%.200s' is beneath one that is a plain file", name);
        }
    }
    return folders > p->most ? too_many_folders(p, e) : 0;
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
    int rc = check_names(p, problems, e);
    if (rc == 0 && problems->count == 0 && p->clash.code) { /* on a disk that takes A for a */
        *e = p->clash;
        rc = -(int)e->code;
    }
    if (rc == 0 && problems->count == 0) {
        sum_up(p);
    }
    return rc;
}

int archive_read(FILE *from, const char *into, int most, struct archive *out,
                 struct jsonx_problems *problems, struct err *e)
{
    struct pass p = {.into = into, .out = out, .most = most, .fd = -1};
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
