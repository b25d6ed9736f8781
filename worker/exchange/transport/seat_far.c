/* See seat_far.h. */
#include "worker/exchange/transport/seat_far.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/clock.h"

enum { WAITING_MOST = 64 };
static const double retry_seconds = 0.02;
/* The kernel holds a connection without data back for so long, so a peer that connects and says
 * nothing delays nobody. */
static const int silence_seconds = 30;
static const struct timeval hello_patience = {.tv_usec = 50000}, knock_patience = {.tv_sec = 2};

struct packet { /* the hello, as it is sent */
    uint32_t rank, seat;
    struct sign_key proof;
};

/* ---- proofs ---------------------------------------------------------------------------------- */

static void sign_visit(const struct seat_far *f, const char *what, const struct seat_visit *v,
                       struct sign_key *out)
{
    char text[160];
    struct sign_key key = f->among;
    if (v->door == f->keeper) {
        f->key_of(f->ctx, v->hello.rank, &key);
    }
    int n = snprintf(text, sizeof text, "%s %s door %d rank %d seat %d", what, v->attempt, v->door,
                     (int)v->hello.rank, (int)v->hello.seat);
    sign_bytes(&key, text, (size_t)n, out);
}

void seat_far_prove(const struct seat_far *f, const struct seat_visit *v, struct sign_key *out)
{
    sign_visit(f, "welcome", v, out);
}

/* ---- the door -------------------------------------------------------------------------------- */

static bool listen_at(int fd, const struct seat_far *f, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silence_seconds, sizeof silence_seconds);
    return inet_pton(AF_INET, f->address, &at.sin_addr) == 1 &&
           bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, WAITING_MOST) == 0;
}

static int port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    return getsockname(fd, (struct sockaddr *)&at, &n) == 0 ? ntohs(at.sin_port) : 0;
}

int seat_far_open(const struct seat_far *f, struct err *e)
{
    char where[DOCUMENT_DOOR];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool open = false;
    for (int port = f->first_port; fd >= 0 && !open && port <= f->last_port; port++) {
        open = listen_at(fd, f, port);
    }
    if (!open) {
        err_errno(e, ERR_IO, "cannot wait for a worker at %s", f->address);
        if (fd >= 0) {
            close(fd);
        }
        return -ERR_IO;
    }
    snprintf(where, sizeof where, "%s:%d", f->address, port_of(fd));
    f->tell(f->ctx, where);
    return fd;
}

static void prepare(int fd)
{
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

static bool says_hello(const struct seat_far *f, int fd, struct seat_visit *v)
{
    struct packet p;
    struct sign_key proof;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hello_patience, sizeof hello_patience);
    if (recv(fd, &p, sizeof p, MSG_WAITALL) != sizeof p) {
        return false;
    }
    v->hello.rank = (int32_t)ntohl(p.rank);
    v->hello.seat = (int32_t)ntohl(p.seat);
    if (v->hello.rank < 0 || v->hello.rank >= f->keeper) {
        return false;
    }
    sign_visit(f, "hello", v, &proof);
    return sign_same(&proof, &p.proof);
}

int seat_far_answer(const struct seat_far *f, int door, struct seat_visit *v)
{
    int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    while (fd >= 0 && !says_hello(f, fd, v)) {
        close(fd);
        fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    }
    if (fd >= 0) {
        prepare(fd);
    }
    return fd;
}

/* ---- the newcomer ---------------------------------------------------------------------------- */

static bool address_of(const char *where, struct sockaddr_in *out)
{
    char host[DOCUMENT_DOOR];
    unsigned port;
    memset(out, 0, sizeof *out);
    out->sin_family = AF_INET;
    if (sscanf(where, "%63[0-9.]:%u", host, &port) != 2 || port > UINT16_MAX) {
        return false;
    }
    out->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

static bool knock_once(const struct seat_far *f, int fd, const struct seat_visit *v)
{
    char where[DOCUMENT_DOOR];
    struct sockaddr_in at;
    struct packet p = {.rank = htonl((uint32_t)v->hello.rank),
                       .seat = htonl((uint32_t)v->hello.seat)};
    sign_visit(f, "hello", v, &p.proof);
    if (fd < 0 || !f->find(f->ctx, v->door, where) || !address_of(where, &at)) {
        return false;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &knock_patience, sizeof knock_patience);
    prepare(fd);
    return connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
           send(fd, &p, sizeof p, MSG_NOSIGNAL) == sizeof p;
}

int seat_far_knock(const struct seat_far *f, const struct seat_visit *v, double seconds,
                   struct err *e)
{
    double until = clock_now() + seconds;
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (knock_once(f, fd, v)) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
        if (clock_now() >= until) {
            return err_set(e, ERR_PEER, "no worker is let in by rank %d", v->door);
        }
        clock_sleep(retry_seconds);
    }
}
