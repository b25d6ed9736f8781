/* See packet.h. */
#include "worker/program/child/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- packets --------------------------------------------------------------------------------- */

bool packet_send(int socket, const struct wire_message *m, const int *fds)
{
    char room[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec one = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof(*m)};
    struct msghdr h = {.msg_iov = &one, .msg_iovlen = 1};
    size_t n = 0;
    while (fds && n < 2 && fds[n] >= 0) {
        n++;
    }
    if (n > 0) {
        h.msg_control = room;
        h.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(socket, &h, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof(*m);
}

/* As recvmsg, at once. That the other end had packets of ours unread as it closed is told once,
 * before what it said last. */
static ssize_t receive(int socket, struct msghdr *h, int flags)
{
    ssize_t got;
    do {
        got = recvmsg(socket, h, flags | MSG_DONTWAIT);
    } while (got < 0 && errno == ECONNRESET);
    return got;
}

bool packet_waits(int socket)
{
    char any;
    struct iovec one = {.iov_base = &any, .iov_len = 1};
    struct msghdr h = {.msg_iov = &one, .msg_iovlen = 1};
    return receive(socket, &h, MSG_PEEK) > 0;
}

enum packet_taken packet_take(int socket, struct wire_message *m, int *fd)
{
    char room[CMSG_SPACE(4 * sizeof(int))];
    struct iovec one = {.iov_base = m, .iov_len = sizeof(*m)};
    struct msghdr h = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    *fd = -1;
    ssize_t got = receive(socket, &h, MSG_CMSG_CLOEXEC);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? PACKET_NONE : PACKET_ENDED;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
        size_t n = c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        for (size_t i = 0; i < n; i++) {
            int each;
            memcpy(&each, CMSG_DATA(c) + i * sizeof(int), sizeof(each));
            if (*fd < 0) {
                *fd = each;
            } else {
                close(each);
            }
        }
    }
    return got == (ssize_t)sizeof(*m) ? PACKET_TAKEN : PACKET_ENDED;
}

void packet_refuse(int socket, const char *why)
{
    struct wire_message m = {.type = WIRE_REFUSED};
    int fds[2] = {packet_memfd(why, strlen(why)), -1};
    packet_send(socket, &m, fds);
    if (fds[0] >= 0) {
        close(fds[0]);
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

int packet_memfd(const void *bytes, size_t n)
{
    int fd = memfd_create("evenstep", MFD_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < n) {
        ssize_t wrote = pwrite(fd, (const char *)bytes + done, n - done, (off_t)done);
        if (wrote <= 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return fd;
}

bool packet_read(int fd, char *out, size_t n)
{
    size_t have = 0;
    while (have < n) {
        ssize_t got = pread(fd, out + have, n - have, (off_t)have);
        if (got <= 0 && errno != EINTR) {
            return false;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    return true;
}

char *packet_text(int fd, size_t most, size_t *n)
{
    struct stat is;
    if (fd < 0 || fstat(fd, &is) < 0 || is.st_size < 0 || (size_t)is.st_size > most) {
        return NULL;
    }
    size_t have = (size_t)is.st_size;
    char *text = malloc(have + 1);
    if (text && !packet_read(fd, text, have)) {
        free(text);
        return NULL;
    }
    if (text) {
        text[have] = '\0';
        *n = have;
    }
    return text;
}
