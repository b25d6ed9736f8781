/* See manifest.h. The key is the SHA-256 over bytes, name and length of every file, in the order of
 * names. Two hosts with the same files therefore get the same key; an added or renamed file changes
 * it.
 */
#include "worker/data/files/manifest.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/hex.h"
#include "worker/data/dataset.h"

enum { PATH_BYTES = 4096, LEVELS = 2, CHUNK = 1 << 20 };

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **items; /* [n], each owned */
    int n, room;
};

static int add_name(struct names *out, const char *name, const char *dir, struct err *e)
{
    if (out->n == OFFER_FILES) {
        return err_set(e, ERR_TOO_LARGE,
                       "'%s' has more than %d files; it is not sent to other hosts", dir,
                       OFFER_FILES);
    }
    if (out->n == out->room) {
        int room = out->room ? 2 * out->room : 64;
        char **more = realloc(out->items, (size_t)room * sizeof(*more));
        out->items = more ? more : out->items;
        out->room = more ? room : out->room;
    }
    char *own = out->n < out->room ? strdup(name) : NULL;
    if (!own) {
        return err_set(e, ERR_MEMORY, "cannot list a data set: memory ran out");
    }
    out->items[out->n++] = own;
    return 0;
}

/* Names below dir/sub and, `levels` deep, below its folders. */
static int collect(struct names *out, const char *dir, const char *sub, int levels, struct err *e)
{
    char path[PATH_BYTES], name[OFFER_NAME];
    int rc = 0;
    if (snprintf(path, sizeof(path), "%s/%s", dir, sub) >= PATH_BYTES) {
        return err_set(e, ERR_TOO_LARGE, "the path of a data set is too long");
    }
    DIR *d = opendir(path);
    if (!d) {
        return err_errno(e, ERR_IO, "cannot read the folder '%s'", path);
    }
    for (const struct dirent *f; rc == 0 && (f = readdir(d));) {
        struct stat st;
        snprintf(name, sizeof(name), "%s%s%s", sub, *sub ? "/" : "", f->d_name);
        if (f->d_name[0] == '.' || snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_BYTES ||
            stat(path, &st) != 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode) && levels > 0) {
            rc = collect(out, dir, name, levels - 1, e);
        } else if (S_ISREG(st.st_mode)) {
            rc = add_name(out, name, dir, e);
        }
    }
    closedir(d);
    return rc;
}

int manifest_open(const char *roots, const char *path, const char *name, struct err *e)
{
    char dir[PATH_BYTES], file[PATH_BYTES];
    int rc = dataset_find(roots, path, dir, e);
    if (rc < 0 || (rc = dataset_resolve(roots, dir, name, file, e)) < 0) {
        return rc;
    }
    if (rc == RESOLVED_NOTHING) {
        return err_set(e, ERR_NOT_FOUND, "the file '%s' of data set '%s' has gone", name, path);
    }
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? err_errno(e, ERR_IO, "cannot open '%s'", file) : fd;
}

struct hashing {
    EVP_MD_CTX *md;
    char *buffer;             /* [CHUNK] */
    void (*alive)(void *ctx); /* called now and then */
    void *ctx;
};

static int64_t hash_file(const struct hashing *h, int fd)
{
    int64_t bytes = 0;
    for (ssize_t n; (n = read(fd, h->buffer, CHUNK)) > 0; bytes += n) {
        EVP_DigestUpdate(h->md, h->buffer, (size_t)n);
        h->alive(h->ctx);
    }
    return bytes;
}

static int hash_one(const struct hashing *h, struct offer *out, const char *roots, const char *path,
                    const char *name, struct err *e)
{
    char head[640];
    int fd = manifest_open(roots, path, name, e);
    if (fd < 0) {
        return fd;
    }
    int64_t bytes = hash_file(h, fd);
    int n = snprintf(head, sizeof(head), "%s\n%lld\n", name, (long long)bytes);
    close(fd);
    EVP_DigestUpdate(h->md, head, (size_t)n);
    return offer_add(out, name, bytes, e);
}

static int hash_all(struct offer *out, const struct names *names, const char *roots,
                    const char *path, void (*alive)(void *ctx), void *ctx, struct err *e)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    char *buffer = malloc(CHUNK);
    const struct hashing hashing = {md, buffer, alive, ctx};
    unsigned char sum[EVP_MAX_MD_SIZE];
    int rc = md && buffer && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot list a data set: memory ran out");
    for (int i = 0; rc == 0 && i < names->n; i++) {
        rc = hash_one(&hashing, out, roots, path, names->items[i], e);
    }
    if (rc == 0) {
        EVP_DigestFinal_ex(md, sum, NULL);
        hex_of(out->key, sum, 32);
    }
    EVP_MD_CTX_free(md);
    free(buffer);
    return rc;
}

int manifest_make(struct offer *out, const char *roots, const char *path, void (*alive)(void *ctx),
                  void *ctx, struct err *e)
{
    struct names names = {0};
    char dir[PATH_BYTES];
    int rc = dataset_find(roots, path, dir, e);
    if (rc >= 0 && (rc = collect(&names, dir, "", LEVELS, e)) >= 0) {
        if (names.n > 0) {
            qsort(names.items, (size_t)names.n, sizeof(names.items[0]), by_text);
        }
        rc = hash_all(out, &names, roots, path, alive, ctx, e);
    }
    for (int i = 0; i < names.n; i++) {
        free(names.items[i]);
    }
    free(names.items);
    return rc;
}
