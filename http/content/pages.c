/* See pages.h. The lock is not held while a file is read, so two requests may read the same file
 * once each.
 */
#include "http/content/pages.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/content/text.h"

enum { SLOTS = 256, PATH_BYTES = 512, FILE_BYTES = 2 << 20 };

struct pages {
    pthread_mutex_t lock; /* of everything below */
    struct page {
        char path[PATH_BYTES];
        struct text *text; /* a reference, or NULL */
    } slots[SLOTS];
    int next; /* the slot that is overwritten next */
};

struct pages *pages_new(void)
{
    struct pages *p = calloc(1, sizeof(*p));
    if (p) {
        pthread_mutex_init(&p->lock, NULL);
    }
    return p;
}

void pages_free(struct pages *p)
{
    for (int i = 0; p && i < SLOTS; i++) {
        text_drop(p->slots[i].text);
    }
    if (p) {
        pthread_mutex_destroy(&p->lock);
        free(p);
    }
}

/* The slot of a path, or NULL. */
static struct page *find(struct pages *p, const char *path)
{
    for (int i = 0; i < SLOTS; i++) {
        if (p->slots[i].text && strcmp(p->slots[i].path, path) == 0) {
            return &p->slots[i];
        }
    }
    return NULL;
}

static struct text *read_file(int fd, size_t size, const char *type, const char *etag)
{
    char *bytes = malloc(size + 1);
    ssize_t got = bytes ? pread(fd, bytes, size + 1, 0) : -1;
    if (got != (ssize_t)size) { /* the file was changed meanwhile */
        free(bytes);
        return NULL;
    }
    struct text *text = text_new(type, bytes, size);
    if (text) {
        snprintf(text->etag, sizeof(text->etag), "%s", etag);
    }
    return text;
}

static void keep(struct pages *p, const char *path, struct text *text)
{
    pthread_mutex_lock(&p->lock);
    struct page *at = find(p, path);
    if (!at) {
        at = &p->slots[p->next];
        p->next = (p->next + 1) % SLOTS;
        snprintf(at->path, sizeof(at->path), "%s", path);
    }
    text_drop(at->text);
    at->text = text_ref(text);
    pthread_mutex_unlock(&p->lock);
}

struct text *pages_get(struct pages *p, const char *path, int fd, const struct stat *st,
                       const char *type, const char *etag)
{
    struct text *found = NULL;
    if (st->st_size > FILE_BYTES || strlen(path) >= PATH_BYTES) {
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    const struct page *at = find(p, path);
    if (at && strcmp(at->text->etag, etag) == 0) { /* the ETag is made of size and time */
        found = text_ref(at->text);
    }
    pthread_mutex_unlock(&p->lock);
    if (!found && (found = read_file(fd, (size_t)st->st_size, type, etag))) {
        keep(p, path, found);
    }
    return found;
}
