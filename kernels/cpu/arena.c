/* Working memory of programs: everything that a program needs only while it runs is in an arena,
 * which it takes for one run and returns.
 *
 *   program 128 ─┐                      a worker has one arena, as large as its largest program
 *   program  96 ─┼─► arena ◄─ one run   needs; the device of a virtual cluster has as many as run
 *   program  64 ─┘                      at once
 *
 * A worker keeps programs of several sizes and switches between them. Memory that was never touched
 * costs most when a minibatch changes: the kernel clears each page, and on a virtual machine its
 * host must find one first. So a new size uses the memory of another one, and the thread that
 * prepares a program touches what is new.
 *
 * An arena holds what the last run of some other program left. Nothing may be read before it was
 * written.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/cpu.h"

enum { LARGE_PAGE = 2 << 20 };

void *cpu_aligned(size_t bytes)
{
    bool large = bytes >= LARGE_PAGE;
    void *memory = NULL;
    if (posix_memalign(&memory, large ? LARGE_PAGE : 64, bytes) != 0) {
        return NULL;
    }
    if (large) {
        madvise(memory, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    }
    return memory;
}

/* ---- all under the lock ---------------------------------------------------------------------- */

/* Adds an arena. Half of its size again is reserved as addresses, without memory, for a larger
 * program. */
static struct cpu_arena *add(struct cpu_arenas *a, size_t bytes)
{
    struct cpu_arena *one = calloc(1, sizeof(*one));
    size_t room = bytes + bytes / 2;
    char *memory = one ? cpu_aligned(room) : NULL;
    if (!memory) {
        free(one);
        return NULL;
    }
    *one = (struct cpu_arena){a->first, room, memory, false};
    a->first = one;
    a->n++;
    return one;
}

/* Finds the smallest arena that is large enough. */
static struct cpu_arena *find(struct cpu_arenas *a, size_t bytes, bool or_taken)
{
    struct cpu_arena *best = NULL;
    for (struct cpu_arena *one = a->first; one; one = one->next) {
        if (one->bytes >= bytes && (or_taken || !one->taken) &&
            (!best || one->bytes < best->bytes)) {
            best = one;
        }
    }
    return best;
}

/* Frees the smallest arenas beyond the number that ever ran at once. */
static void trim(struct cpu_arenas *a)
{
    while (a->n > a->most_taken) {
        struct cpu_arena *least = find(a, 0, false), **at = &a->first;
        if (!least) {
            return;
        }
        while (*at != least) {
            at = &(*at)->next;
        }
        *at = least->next;
        a->n--;
        free(least->memory);
        free(least);
    }
}

/* ---- what programs call ---------------------------------------------------------------------- */

int cpu_arenas_init(struct cpu_arenas *a)
{
    memset(a, 0, sizeof(*a));
    a->most_taken = 1;
    return pthread_mutex_init(&a->lock, NULL) == 0 ? 0 : -ERR_MEMORY;
}

void cpu_arenas_release(struct cpu_arenas *a)
{
    a->most_taken = 0;
    trim(a);
    pthread_mutex_destroy(&a->lock);
}

bool cpu_arenas_prepare(struct cpu_arenas *a, size_t bytes)
{
    pthread_mutex_lock(&a->lock);
    bool there = find(a, bytes, true);
    struct cpu_arena *fresh = there ? NULL : add(a, bytes);
    if (fresh) {
        fresh->taken = true; /* while it is touched */
    }
    pthread_mutex_unlock(&a->lock);
    if (fresh) {
        memset(fresh->memory, 0, bytes);
        pthread_mutex_lock(&a->lock);
        fresh->taken = false;
        pthread_mutex_unlock(&a->lock);
    }
    return there || fresh;
}

struct cpu_arena *cpu_arena_take(struct cpu_arenas *a, size_t bytes)
{
    pthread_mutex_lock(&a->lock);
    struct cpu_arena *one = find(a, bytes, false);
    one = one ? one : add(a, bytes);
    if (one) {
        one->taken = true;
        a->taken++;
        a->most_taken = a->taken > a->most_taken ? a->taken : a->most_taken;
    }
    pthread_mutex_unlock(&a->lock);
    return one;
}

void cpu_arena_return(struct cpu_arenas *a, struct cpu_arena *one)
{
    pthread_mutex_lock(&a->lock);
    one->taken = false;
    a->taken--;
    trim(a);
    pthread_mutex_unlock(&a->lock);
}
