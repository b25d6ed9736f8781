/* Messages to the rank and from it: one packet each, files beside them. A wait spins for a few
 * microseconds where the last ones ended that soon, and sleeps else; signals do not end it. When
 * the rank is gone, what it said last (REFUSED) is the error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/session.h"

#define SPIN_NS 15000 /* CPU time a wait may spend before it sleeps */
#define SOON_NS 40000 /* a wait that ended within this would have gained by spinning */
#define SPINS 8       /* waits that spin in vain until spinning is given up */
#define FAREWELL 64   /* messages to read at most for a REFUSED when the rank has closed */

int talk_connect(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof(to.sun_path)) {
        return es_fail("cannot join: EVENSTEP_SOCKET is longer than %zu bytes: '%s'",
                       sizeof(to.sun_path) - 1, path);
    }
    memcpy(to.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return es_fail("cannot join: no socket: %s", strerror(errno));
    }
    while (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
        if (errno != EINTR) {
            es_fail("cannot join: the rank does not answer at EVENSTEP_SOCKET '%s': %s", path,
                    strerror(errno));
            close(fd);
            return -1;
        }
    }
    return fd;
}

/* The packet for sendmsg and recvmsg, with room for two files. */
struct packet {
    struct msghdr head;
    struct iovec bytes;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } files;
};

static void packet_init(struct packet *p, struct wire_message *m, int n_files)
{
    memset(p, 0, sizeof(*p));
    p->bytes = (struct iovec){.iov_base = m, .iov_len = sizeof(*m)};
    p->head.msg_iov = &p->bytes;
    p->head.msg_iovlen = 1;
    if (n_files > 0) {
        p->head.msg_control = p->files.room;
        p->head.msg_controllen = CMSG_SPACE((size_t)n_files * sizeof(int));
    }
}

/* A file that goes along; it stays the caller's. */
static void put_file(struct packet *p, int fd)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(&p->head);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* As recvmsg, on a socket from which something comes soon or late. */
static ssize_t await(struct session *s, struct packet *p)
{
    int64_t begun = now_ns();
    ssize_t n;

    while (s->spins > 0) {
        n = recvmsg(s->fd, &p->head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
            s->spins = SPINS;
            return n;
        }
        if (now_ns() - begun > SPIN_NS) {
            s->spins--;
            break;
        }
    }
    do {
        n = recvmsg(s->fd, &p->head, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (now_ns() - begun < SOON_NS) {
        s->spins = SPINS;
    }
    return n;
}

static void take_files(struct packet *p, int fds[2])
{
    struct cmsghdr *c;

    fds[0] = fds[1] = -1;
    for (c = CMSG_FIRSTHDR(&p->head); c; c = CMSG_NXTHDR(&p->head, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t bytes = c->cmsg_len - CMSG_LEN(0);

            memcpy(fds, CMSG_DATA(c), bytes < 2 * sizeof(int) ? bytes : 2 * sizeof(int));
        }
    }
}

static void close_files(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

/* es_fail with the sentence that came in a file. */
static int refused(int fd)
{
    char text[768];
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return es_fail("the rank refuses the program: %s", n > 0 ? text : "it does not say why");
}

static int send_all(struct session *s, const struct wire_message *m, int fd);

int talk_receive(struct session *s, struct wire_message *m, int fds[2])
{
    struct packet p;
    int mine[2] = {-1, -1}, rc;
    ssize_t n;

    if (s->inside) {
        alone_receive(s->inside, m);
        return m->type == WIRE_SLICE ? slices_keep(s, m) : 0;
    }
    if (s->n_later > 0 && send_all(s, NULL, -1) < 0) {
        return -1;
    }
    packet_init(&p, m, 2);
    n = await(s, &p);
    if (n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE))) {
        return es_fail("the rank of this program has ended: its socket is closed");
    }
    if (n < 0) {
        return es_fail("cannot read from the rank: %s", strerror(errno));
    }
    take_files(&p, mine);
    rc = 0;
    if (n != sizeof(*m)) {
        rc = es_fail("the rank sent %zd bytes in place of a message of %zu: another version?", n,
                     sizeof(*m));
    } else if (m->type == WIRE_REFUSED) {
        rc = refused(mine[0]);
    } else if (m->type == WIRE_SLICE) {
        rc = slices_keep(s, m);
    } else if (fds) {
        memcpy(fds, mine, sizeof(mine));
        return 0;
    }
    close_files(mine);
    return rc;
}

int talk_expect(struct session *s, struct wire_message *m, int type, const char *during)
{
    do {
        if (talk_receive(s, m, NULL) < 0) {
            return -1;
        }
    } while (m->type == WIRE_SLICE);
    if (m->flags & WIRE_STOP) {
        s->over = true;
    }
    return m->type == (uint32_t)type
               ? 0
               : es_fail("%s: the rank sent message %u where %d was due", during, m->type, type);
}

/* The rank has closed its socket: the reason may lie there unread. */
static int farewell(struct session *s)
{
    struct wire_message m;

    for (int i = 0; i < FAREWELL; i++) {
        if (talk_receive(s, &m, NULL) < 0) {
            return -1;
        }
    }
    return es_fail("the rank of this program has ended: its socket is closed");
}

/* The packets that wait, and *m behind them unless it is NULL, in one call: whoever sleeps at the
 * other end is woken once. */
static int send_all(struct session *s, const struct wire_message *m, int fd)
{
    struct packet packets[TALK_LATER + 1];
    struct mmsghdr heads[TALK_LATER + 1];
    struct wire_message copy;
    int n = s->n_later, at = 0;

    for (int i = 0; i < n; i++) {
        packet_init(&packets[i], &s->later[i], 0);
    }
    if (m) {
        copy = *m;
        packet_init(&packets[n], &copy, fd < 0 ? 0 : 1);
        if (fd >= 0) {
            put_file(&packets[n], fd);
        }
        n++;
    }
    for (int i = 0; i < n; i++) {
        heads[i].msg_hdr = packets[i].head;
    }
    s->n_later = 0;
    while (at < n) {
        int sent = sendmmsg(s->fd, heads + at, (unsigned)(n - at), MSG_NOSIGNAL);

        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            return farewell(s);
        }
        if (sent < 0 && errno != EINTR) {
            return es_fail("cannot write to the rank: %s", strerror(errno));
        }
        at += sent > 0 ? sent : 0;
    }
    return 0;
}

int talk_send(struct session *s, const struct wire_message *m, int fd)
{
    if (s->inside) {
        alone_send(s->inside, m);
        return 0;
    }
    return send_all(s, m, fd);
}

int talk_later(struct session *s, const struct wire_message *m)
{
    if (s->inside || s->n_later == TALK_LATER) {
        return talk_send(s, m, -1);
    }
    s->later[s->n_later++] = *m;
    return 0;
}

int talk_memfd(const void *bytes, size_t n)
{
    int fd = memfd_create("evenstep", MFD_CLOEXEC);
    size_t at = 0;

    if (fd < 0) {
        return es_fail("no memory for a message of %zu bytes: %s", n, strerror(errno));
    }
    while (at < n) {
        ssize_t wrote = write(fd, (const char *)bytes + at, n - at);

        if (wrote < 0 && errno != EINTR) {
            es_fail("no memory for a message of %zu bytes: %s", n, strerror(errno));
            close(fd);
            return -1;
        }
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    return fd;
}

int talk_text(struct session *s, int type, const char *text, size_t n)
{
    struct wire_message m = {.type = (uint32_t)type};
    int fd, rc;

    if (s->inside) {
        return talk_send(s, &m, -1);
    }
    fd = talk_memfd(text, n);
    if (fd < 0) {
        return -1;
    }
    rc = talk_send(s, &m, fd);
    close(fd);
    return rc;
}
