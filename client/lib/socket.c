/* Messages to and from the rank: one packet each, with files attached. A wait sleeps at once: the
 * rank takes longer to answer than a wait could spin for the CPU time that sleeping costs. Signals
 * do not end a wait. If the rank is gone, its last word (REFUSED) is the error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/session.h"

#define FAREWELL 64 /* most messages to read for a REFUSED after the rank has closed */

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

/* Attaches a file, which stays the caller's. */
static void put_file(struct packet *p, int fd)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(&p->head);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
}

/* As recvmsg, but a signal does not end it. If the rank closed with packets unread, the first call
 * reports that, before its last words. */
static ssize_t await(const struct session *s, struct packet *p)
{
    ssize_t n;

    do {
        n = recvmsg(s->fd, &p->head, MSG_CMSG_CLOEXEC);
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
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

/* es_fail with the sentence in a received file. */
static int refused(int fd)
{
    char text[768];
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return es_fail("the rank refuses the program: %s", n > 0 ? text : "it does not say why");
}

static int send_later(struct session *s);

int talk_receive(struct session *s, struct wire_message *m, int fds[2])
{
    struct packet p;
    int mine[2] = {-1, -1}, rc;
    ssize_t n;

    if (s->inside) {
        alone_receive(s->inside, m);
        return m->type == WIRE_SLICE ? slices_keep(s, m) : 0;
    }
    if (send_later(s) < 0) {
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
    } else if (m->type == WIRE_SLICE || (m->flags & WIRE_WITH_SLICE)) {
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

/* The rank has closed its socket; its reason may still be unread. */
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

static int write_failed(struct session *s)
{
    return errno == EPIPE || errno == ECONNRESET
               ? farewell(s)
               : es_fail("cannot write to the rank: %s", strerror(errno));
}

/* Sends both packets in one call, so that a sleeping rank wakes up once. */
static int send_both(struct session *s, struct packet *first, struct packet *second)
{
    struct mmsghdr heads[2] = {{.msg_hdr = first->head}, {.msg_hdr = second->head}};
    int at = 0;

    while (at < 2) {
        int sent = sendmmsg(s->fd, heads + at, (unsigned)(2 - at), MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            return write_failed(s);
        }
        at += sent > 0 ? sent : 0;
    }
    return 0;
}

static int send_one(struct session *s, const struct packet *p)
{
    while (sendmsg(s->fd, &p->head, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR) {
            return write_failed(s);
        }
    }
    return 0;
}

int talk_send(struct session *s, const struct wire_message *m, int fd)
{
    struct wire_message first = s->later, second = *m;
    struct packet packets[2];

    if (s->inside) {
        alone_send(s->inside, m);
        return 0;
    }
    packet_init(&packets[1], &second, fd < 0 ? 0 : 1);
    if (fd >= 0) {
        put_file(&packets[1], fd);
    }
    if (first.type == 0) {
        return send_one(s, &packets[1]);
    }
    s->later.type = 0;
    packet_init(&packets[0], &first, 0);
    return send_both(s, &packets[0], &packets[1]);
}

static int send_later(struct session *s)
{
    struct wire_message m = s->later;

    s->later.type = 0;
    return m.type == 0 ? 0 : talk_send(s, &m, -1);
}

int talk_later(struct session *s, const struct wire_message *m)
{
    if (s->inside) {
        return talk_send(s, m, -1);
    }
    if (send_later(s) < 0) {
        return -1;
    }
    s->later = *m;
    return 0;
}

bool talk_take_back(struct session *s, int type)
{
    bool there = s->later.type == (uint32_t)type && s->later.flags == 0;

    s->later.type = there ? 0 : s->later.type;
    return there;
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

int talk_message(struct session *s, const struct wire_message *m, const char *text, size_t n)
{
    int fd, rc;

    if (s->inside) {
        return talk_send(s, m, -1);
    }
    fd = talk_memfd(text, n);
    if (fd < 0) {
        return -1;
    }
    rc = talk_send(s, m, fd);
    close(fd);
    return rc;
}

int talk_text(struct session *s, int type, uint32_t flags, const char *text, size_t n)
{
    struct wire_message m = {.type = (uint32_t)type, .flags = flags};

    return talk_message(s, &m, text, n);
}
