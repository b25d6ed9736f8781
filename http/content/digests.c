/* SHA-256 of artifacts, remembered by path, size and time: a model is hashed once, not with each
 * view of a job's page. The lock is not held while a file is read, so two requests may hash the
 * same file once each; both get the same answer.
 */
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/hex.h"
#include "http/content/files.h"

enum { SLOTS = 256, BLOCK = 256 << 10 };

struct digest {
    char path[512];
    off_t size;
    struct timespec time;
    char hex[65];
};

struct digests {
    pthread_mutex_t lock; /* of everything below */
    struct digest slots[SLOTS];
    int next; /* the slot to overwrite next */
};

struct digests *digests_new(void)
{
    struct digests *d = calloc(1, sizeof(*d));
    if (d) {
        pthread_mutex_init(&d->lock, NULL);
    }
    return d;
}

void digests_free(struct digests *d)
{
    if (d) {
        pthread_mutex_destroy(&d->lock);
        free(d);
    }
}

static int hash_fd(int fd, char out[65])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    ssize_t got = -1;
    char *block = malloc(BLOCK);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (block && ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL)) {
        while ((got = read(fd, block, BLOCK)) > 0) {
            EVP_DigestUpdate(ctx, block, (size_t)got);
        }
        EVP_DigestFinal_ex(ctx, hash, &n);
    }
    EVP_MD_CTX_free(ctx);
    free(block);
    hex_of(out, hash, n);
    return got == 0 && n == 32 ? 0 : -1;
}

static bool same(const struct digest *at, const char *path, const struct stat *st)
{
    return at->size == st->st_size && at->time.tv_sec == st->st_mtim.tv_sec &&
           at->time.tv_nsec == st->st_mtim.tv_nsec && strcmp(at->path, path) == 0;
}

int digests_get(struct digests *d, const char *path, char out[65], struct err *e)
{
    struct stat st;
    bool found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int failed = err_errno(e, ERR_NOT_FOUND, "cannot read '%s'", path);
        if (fd >= 0) {
            close(fd);
        }
        return failed;
    }
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < SLOTS && !found; i++) {
        if (same(&d->slots[i], path, &st)) {
            memcpy(out, d->slots[i].hex, 65);
            found = true;
        }
    }
    pthread_mutex_unlock(&d->lock);
    int hashed = found ? 0 : hash_fd(fd, out);
    close(fd);
    if (hashed < 0) {
        return err_errno(e, ERR_IO, "cannot read '%s'", path);
    }
    if (!found && strlen(path) < sizeof(d->slots[0].path)) {
        pthread_mutex_lock(&d->lock);
        struct digest *at = &d->slots[d->next];
        d->next = (d->next + 1) % SLOTS;
        snprintf(at->path, sizeof(at->path), "%s", path);
        at->size = st.st_size;
        at->time = st.st_mtim;
        memcpy(at->hex, out, 65);
        pthread_mutex_unlock(&d->lock);
    }
    return 0;
}
