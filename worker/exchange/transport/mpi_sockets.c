/* Waiting for Open MPI's sockets: see mpi_sockets.h. Nothing of MPI or libevent is included: the
 * functions are found by name, with the signatures that libevent 2.1 documents. Each wait lists the
 * sockets again: a connection opens at the first message to a rank, and Open MPI waits for writing
 * only while a socket is full. */
#include "worker/exchange/transport/mpi_sockets.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_READ = 0x02, EVENT_WRITE = 0x04 }; /* EV_READ and EV_WRITE of libevent */
enum { MISSES = 4 }; /* a single one may be chance: the message came just as the time was up */

struct list {
    const struct mpi_sockets *of;
    struct pollfd fds[MPI_SOCKETS + 1]; /* the bell first */
    int n;
};

bool mpi_sockets_open(struct mpi_sockets *s)
{
    memset(s, 0, sizeof *s);
    s->base = dlsym(RTLD_DEFAULT, "opal_sync_event_base");
    *(void **)&s->each = dlsym(RTLD_DEFAULT, "event_base_foreach_event");
    *(void **)&s->fd = dlsym(RTLD_DEFAULT, "event_get_fd");
    *(void **)&s->events = dlsym(RTLD_DEFAULT, "event_get_events");
    s->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!s->base || !*s->base || !s->each || !s->fd || !s->events || s->bell < 0) {
        mpi_sockets_close(s);
        return false;
    }
    return true;
}

void mpi_sockets_close(struct mpi_sockets *s)
{
    if (s->bell >= 0) {
        close(s->bell);
    }
    s->bell = -1;
    s->base = NULL;
}

bool mpi_sockets_usable(const struct mpi_sockets *s)
{
    return s->base != NULL;
}

static int add_socket(const void *base, const void *event, void *ctx)
{
    struct list *l = ctx;
    int fd = l->of->fd(event), events = l->of->events(event);
    (void)base;
    if (fd < 0 || !(events & (EVENT_READ | EVENT_WRITE))) {
        return 0; /* a timer, or a signal */
    }
    if (l->n > MPI_SOCKETS) {
        return -1;
    }
    short wanted =
        (short)((events & EVENT_READ ? POLLIN : 0) | (events & EVENT_WRITE ? POLLOUT : 0));
    l->fds[l->n++] = (struct pollfd){.fd = fd, .events = wanted};
    return 0;
}

enum mpi_woken mpi_sockets_wait(struct mpi_sockets *s, double seconds)
{
    struct list l;
    uint64_t rings;
    struct timespec most = {.tv_sec = (time_t)seconds};
    most.tv_nsec = (long)((seconds - (double)most.tv_sec) * 1e9);
    l.of = s;
    l.fds[0] = (struct pollfd){.fd = s->bell, .events = POLLIN};
    l.n = 1;
    if (!s->base || s->each(*s->base, add_socket, &l) != 0) {
        s->base = NULL;
        return s->last = MPI_WOKEN_BLIND;
    }
    int ready = ppoll(l.fds, (nfds_t)l.n, &most, NULL);
    bool rung = ready > 0 && l.fds[0].revents && read(s->bell, &rings, sizeof rings) > 0;
    return s->last = rung ? MPI_WOKEN_BELL : ready > 0 ? MPI_WOKEN_SOCKET : MPI_WOKEN_LATE;
}

void mpi_sockets_moved(struct mpi_sockets *s)
{
    if (s->last == MPI_WOKEN_SOCKET) {
        s->missed = 0;
    } else if (s->last == MPI_WOKEN_LATE && ++s->missed == MISSES) {
        s->base = NULL;
    }
    s->last = MPI_WOKEN_BLIND;
}

void mpi_sockets_ring(struct mpi_sockets *s)
{
    uint64_t one = 1;
    ssize_t written = write(s->bell, &one, sizeof one); /* fails only if it rings already */
    (void)written;
}
