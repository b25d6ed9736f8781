/* See mapped.h. A missing page raises SIGBUS in the thread that touches it. The handler puts zeros
 * in place of that page and all following pages of the mapping, marks the mapping as torn, and
 * returns, so that the thread continues. Users of the values call mapped_check() afterwards. A
 * SIGBUS at any other address goes to the previous handler.
 */
#include "worker/data/files/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/data/files/direct.h"

enum { MOST = 256 }; /* mappings at a time */

static _Atomic(struct mapped *) mappings[MOST]; /* the handler reads them without a lock */
static struct sigaction before;

/* ---- pages that are not there ---------------------------------------------------------------- */

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)info->si_addr / page * page;
    for (int i = 0; i < MOST; i++) {
        struct mapped *m = atomic_load(&mappings[i]);
        uintptr_t first = m ? (uintptr_t)m->at : 0;
        if (m && at >= first && at < first + m->bytes &&
            mmap((void *)at, first + m->bytes - at, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
            atomic_store(&m->torn, true);
            return;
        }
    }
    sigaction(SIGBUS, &before, NULL); /* the access is repeated, and then reaches that handler */
}

/* Called for every mapping, because a library may have replaced our handler since. */
static void catch_sigbus(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction ours = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
    pthread_mutex_lock(&lock);
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_sigbus) {
        before = now;
        sigaction(SIGBUS, &ours, NULL);
    }
    pthread_mutex_unlock(&lock);
}

static int enlist(struct mapped *m, struct err *e)
{
    catch_sigbus();
    for (int i = 0; i < MOST; i++) {
        struct mapped *none = NULL;
        if (atomic_compare_exchange_strong(&mappings[i], &none, m)) {
            return 0;
        }
    }
    return err_set(e, ERR_MEMORY, "cannot map '%s': %d files are mapped already", m->name, MOST);
}

static void strike_off(struct mapped *m)
{
    for (int i = 0; i < MOST; i++) {
        struct mapped *it = m;
        atomic_compare_exchange_strong(&mappings[i], &it, NULL);
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct mapped *make(const char *name, struct err *e)
{
    struct mapped *m = calloc(1, sizeof(*m));
    if (!m) {
        err_set(e, ERR_MEMORY, "cannot map '%s': memory ran out", name);
        return NULL;
    }
    m->fd = m->direct = -1;
    m->users = 1;
    m->at = (const uint8_t *)"";
    snprintf(m->name, sizeof(m->name), "%s", name);
    return m;
}

static int map_file(struct mapped *m, const char *path, struct err *e)
{
    struct stat st;
    m->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (m->fd < 0 || fstat(m->fd, &st) < 0) {
        return err_errno(e, ERR_IO, "cannot open '%s'", m->name);
    }
    m->changed = st.st_mtim;
    if (st.st_size == 0) {
        return 0;
    }
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, m->fd, 0);
    if (at == MAP_FAILED) {
        return err_errno(e, ERR_MEMORY, "cannot map '%s'", m->name);
    }
    m->at = at;
    m->bytes = (size_t)st.st_size;
    return enlist(m, e);
}

struct mapped *mapped_open(const char *path, const char *name, struct err *e)
{
    struct mapped *m = make(name, e);
    if (m && map_file(m, path, e) < 0) {
        mapped_close(m);
        m = NULL;
    }
    return m;
}

struct mapped *mapped_memory(void *bytes, size_t n, const char *name, struct err *e)
{
    struct mapped *m = make(name, e);
    if (!m) {
        free(bytes);
        return NULL;
    }
    m->at = bytes;
    m->bytes = n;
    return m;
}

struct mapped *mapped_share(struct mapped *m)
{
    m->users++;
    return m;
}

void mapped_close(struct mapped *m)
{
    if (!m || --m->users > 0) {
        return;
    }
    if (m->fd < 0) {
        if (m->bytes > 0) {
            free((void *)(uintptr_t)m->at);
        }
    } else {
        strike_off(m);
        if (m->bytes > 0) {
            munmap((void *)(uintptr_t)m->at, m->bytes);
        }
        close(m->fd);
        if (m->direct >= 0) {
            close(m->direct);
        }
    }
    free(m);
}

/* ---- while it is used ------------------------------------------------------------------------ */

int mapped_check(const struct mapped *m, struct err *e)
{
    struct stat st;
    if (m->fd < 0) {
        return 0;
    }
    if (fstat(m->fd, &st) < 0) {
        return err_errno(e, ERR_IO, "cannot read '%s' any more", m->name);
    }
    if ((size_t)st.st_size < m->bytes) {
        return err_set(e, ERR_DATA,
                       "'%s' was shortened from %zu to %lld bytes while the job reads it", m->name,
                       m->bytes, (long long)st.st_size);
    }
    if (atomic_load(&m->torn)) {
        return err_set(e, ERR_IO, "'%s' could not be read: a part of it is missing", m->name);
    }
    if (st.st_mtim.tv_sec != m->changed.tv_sec || st.st_mtim.tv_nsec != m->changed.tv_nsec) {
        return err_set(e, ERR_DATA, "'%s' was changed while the job reads it", m->name);
    }
    return 0;
}

void mapped_shuffled(const struct mapped *m)
{
    if (m->fd >= 0 && m->bytes > 0) {
        posix_fadvise(m->fd, 0, 0, POSIX_FADV_RANDOM);
        madvise((void *)(uintptr_t)m->at, m->bytes, MADV_RANDOM);
        madvise((void *)(uintptr_t)m->at, m->bytes, MADV_DONTNEED);
    }
}

/* Advice on the file starts the reads sooner than advice on its mapping does. */
void mapped_ahead(const struct mapped *m, const uint8_t *at, size_t bytes)
{
    if (m->fd >= 0) {
        posix_fadvise(m->fd, at - m->at, (off_t)bytes, POSIX_FADV_WILLNEED);
    }
}

bool mapped_direct(struct mapped *m, const uint8_t *at, size_t bytes, struct direct *d)
{
    if (m->direct == -1) {
        m->direct = direct_open(m->fd);
        m->direct = m->direct < 0 ? -2 : m->direct;
    }
    return m->direct >= 0 && direct_ask(d, m->direct, at - m->at, bytes, at);
}

void mapped_once(struct mapped *m, const uint8_t *at, size_t bytes, uint8_t *to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from = (size_t)(at - m->at), done = 0,
           first = from / page * page, end = (from + bytes + page - 1) / page * page;
    ssize_t n = 1;
    while (done < bytes && n > 0) {
        n = pread(m->fd, to + done, bytes - done, (off_t)(from + done));
        done += n > 0 ? (size_t)n : 0;
        n = n < 0 && errno == EINTR ? 1 : n;
    }
    if (done < bytes) {
        memset(to + done, 0, bytes - done);
        atomic_store(&m->torn, true);
    }
    posix_fadvise(m->fd, (off_t)first, (off_t)(end - first), POSIX_FADV_DONTNEED);
}
