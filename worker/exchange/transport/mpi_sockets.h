/* The sockets that Open MPI waits for, so that the communication thread can sleep until data comes
 * instead of polling.
 *
 * MPI has no call for this. Open MPI keeps the events of its TCP transport in an event base of
 * libevent, whose functions list them. Both are looked up in the running process. Where they are
 * missing (another MPI, a build with a libevent of its own), the caller polls. A message by shared
 * memory or InfiniBand makes no socket readable. So each wait is short, and after a few waits that
 * missed a message the thread only polls. */
#ifndef WORKER_EXCHANGE_MPI_SOCKETS_H
#define WORKER_EXCHANGE_MPI_SOCKETS_H

#include <stdbool.h>

enum { MPI_SOCKETS = 1024 }; /* a wait includes at most so many */
enum mpi_woken { MPI_WOKEN_BLIND, MPI_WOKEN_LATE, MPI_WOKEN_SOCKET, MPI_WOKEN_BELL };

struct mpi_sockets {
    void *const *base; /* Open MPI's variable; NULL: there is nothing to wait for */
    int (*each)(const void *base, int (*one)(const void *base, const void *event, void *ctx),
                void *ctx);
    int (*fd)(const void *event);
    short (*events)(const void *event);
    int bell;
    enum mpi_woken last; /* how the last wait ended, until something moved */
    int missed;          /* messages in a row that no socket announced */
};

/* Call it after MPI_Init. False: this library does not show its sockets. */
bool mpi_sockets_open(struct mpi_sockets *s);
void mpi_sockets_close(struct mpi_sockets *s);
bool mpi_sockets_usable(const struct mpi_sockets *s);
/* Waits until a socket can be read (or written, if the library waits for that), the bell rings, or
 * `seconds` have passed. MPI_WOKEN_BLIND: waiting is not possible, now or later. Called by the
 * thread that calls MPI. */
enum mpi_woken mpi_sockets_wait(struct mpi_sockets *s, double seconds);
/* Says that the library had a message after a wait. If no socket announced it, waits are not
 * reliable. */
void mpi_sockets_moved(struct mpi_sockets *s);
/* Ends the wait under way, or the next one. Any thread. */
void mpi_sockets_ring(struct mpi_sockets *s);

#endif
