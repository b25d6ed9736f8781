/* See direct.h.
 *
 *            head                     head + n
 *   ring  │ taken │ read │ read │ under way │ noted │   free …
 *
 * A read begins and ends at a block: `skip` bytes of its buffer are before what was asked for. */
#include "worker/data/files/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"

enum { BLOCK = 4096, AT_ONCE = 64 };
enum state { NOTED, UNDER_WAY, READ, FAILED };

struct slot {
    enum state state;
    const void *key; /* NULL: already taken */
    size_t skip, bytes;
    struct iocb read;
};

struct direct {
    aio_context_t context;
    int most, head, n; /* number of slots; the oldest in use; how many are in use */
    int noted;         /* the newest of them that have not been started */
    size_t room;       /* bytes of a buffer */
    uint8_t *buffers;  /* [most][room], at blocks */
    struct slot *slots;
};

struct direct *direct_new(int most, size_t bytes)
{
    struct direct *d = calloc(1, sizeof(*d));
    if (!d) {
        return NULL;
    }
    d->most = most;
    d->room = (bytes + 2 * BLOCK - 2) / BLOCK * BLOCK;
    d->slots = calloc((size_t)most, sizeof(*d->slots));
    d->buffers = aligned_alloc(BLOCK, (size_t)most * d->room);
    if (!d->slots || !d->buffers || syscall(SYS_io_setup, most, &d->context) < 0) {
        free(d->slots);
        free(d->buffers);
        free(d);
        return NULL;
    }
    return d;
}

void direct_free(struct direct *d)
{
    if (d) {
        syscall(SYS_io_destroy, d->context); /* waits */
        free(d->slots);
        free(d->buffers);
        free(d);
    }
}

int direct_open(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* the same file even if it was renamed */
    return open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

static struct slot *slot_at(struct direct *d, int i)
{
    return &d->slots[(d->head + i) % d->most];
}

static uint8_t *buffer_of(const struct direct *d, const struct slot *s)
{
    return d->buffers + (size_t)(s - d->slots) * d->room;
}

/* Notes which reads have ended; waits for at least one. */
static void reap(struct direct *d)
{
    struct io_event done[AT_ONCE];
    long n = syscall(SYS_io_getevents, d->context, 1, AT_ONCE, done, NULL);
    BUG_ON(n < 0 && errno != EINTR);
    for (long i = 0; i < n; i++) {
        struct slot *s = &d->slots[done[i].data];
        bool whole = done[i].res >= (int64_t)(s->skip + s->bytes);
        s->state = whole ? READ : FAILED;
    }
}

static void wait_for(struct direct *d, const struct slot *s)
{
    while (s->state == UNDER_WAY) {
        reap(d);
    }
}

/* Removes the oldest from the ring. */
static void drop(struct direct *d)
{
    wait_for(d, slot_at(d, 0)); /* the kernel writes into its buffer until then */
    d->head = (d->head + 1) % d->most;
    d->n--;
}

bool direct_ask(struct direct *d, int fd, off_t from, size_t bytes, const void *key)
{
    off_t first = from / BLOCK * BLOCK;
    size_t skip = (size_t)(from - first), all = (skip + bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (d->n == d->most && !slot_at(d, 0)->key) {
        drop(d);
    }
    if (d->n == d->most || all > d->room) {
        return false;
    }
    struct slot *s = slot_at(d, d->n++);
    *s = (struct slot){.key = key, .skip = skip, .bytes = bytes};
    s->read = (struct iocb){.aio_data = (uint64_t)(s - d->slots),
                            .aio_lio_opcode = IOCB_CMD_PREAD,
                            .aio_fildes = (uint32_t)fd,
                            .aio_buf = (uint64_t)(uintptr_t)buffer_of(d, s),
                            .aio_nbytes = all,
                            .aio_offset = first};
    d->noted++;
    return true;
}

void direct_begin(struct direct *d)
{
    while (d->noted > 0) {
        struct iocb *reads[AT_ONCE];
        int first = d->n - d->noted, n = d->noted < AT_ONCE ? d->noted : AT_ONCE;
        for (int i = 0; i < n; i++) {
            reads[i] = &slot_at(d, first + i)->read;
        }
        long begun = syscall(SYS_io_submit, d->context, n, reads);
        for (int i = 0; i < n && i < begun; i++) {
            slot_at(d, first + i)->state = UNDER_WAY;
        }
        if (begun <= 0) { /* this one cannot be read so */
            slot_at(d, first)->state = FAILED;
        }
        d->noted -= begun > 0 ? (int)begun : 1;
    }
}

void direct_forget(struct direct *d)
{
    direct_begin(d);
    while (d->n > 0) {
        drop(d);
    }
}

const uint8_t *direct_take(struct direct *d, const void *key)
{
    int i = 0;
    direct_begin(d);
    while (i < d->n && slot_at(d, i)->key != key) {
        i++;
    }
    if (i == d->n) {
        return NULL;
    }
    for (; i > 0; i--) {
        drop(d);
    }
    struct slot *s = slot_at(d, 0);
    wait_for(d, s);
    s->key = NULL;
    return s->state == READ ? buffer_of(d, s) + s->skip : NULL;
}
