/* How the two ends of a link meet (seat_link.h): at an abstract socket name of this host, which
 * leaves no file and disappears with its process. Each end asks the kernel which user the other one
 * is. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "worker/exchange/transport/seat_link.h"

enum { WAITING_MOST = 64 };
static const double retry_seconds = 0.02;
static const struct timeval hello_patience = {.tv_usec = 50000};

static socklen_t address(const char *name, struct sockaddr_un *out)
{
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int seat_door_open(const char *name, struct err *e)
{
    struct sockaddr_un at;
    socklen_t n = address(name, &at);
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door < 0 || bind(door, (struct sockaddr *)&at, n) < 0 || listen(door, WAITING_MOST) < 0) {
        err_errno(e, ERR_IO, "cannot wait for a worker at '%s'", name);
        if (door >= 0) {
            close(door);
        }
        return -ERR_IO;
    }
    return door;
}

static bool is_of(int fd, uid_t user, uid_t other)
{
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 &&
           (who.uid == user || who.uid == other);
}

static bool says_hello(int fd, unsigned user, unsigned other, struct seat_hello *out)
{
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hello_patience, sizeof hello_patience);
    return is_of(fd, user, other) && recv(fd, out, sizeof *out, MSG_WAITALL) == sizeof *out;
}

int seat_door_answer(int door, unsigned user, unsigned other, struct seat_hello *out)
{
    int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    while (fd >= 0 && !says_hello(fd, user, other, out)) {
        close(fd);
        fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    }
    return fd;
}

/* Of a door, the kernel tells which user opened it. */
static bool knock_once(int fd, const char *name, uid_t user, const struct seat_hello *hello)
{
    struct sockaddr_un at;
    socklen_t n = address(name, &at);
    return fd >= 0 && connect(fd, (struct sockaddr *)&at, n) == 0 && is_of(fd, user, user) &&
           send(fd, hello, sizeof *hello, MSG_NOSIGNAL) == sizeof *hello;
}

int seat_door_knock(const char *name, unsigned user, const struct seat_hello *hello, double seconds,
                    struct err *e)
{
    double until = clock_now() + seconds;
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (knock_once(fd, name, user, hello)) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
        if (clock_now() >= until) {
            return err_set(e, ERR_PEER, "no worker is let in at '%s'", name);
        }
        clock_sleep(retry_seconds);
    }
}
