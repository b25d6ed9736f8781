/* The socket to the program: see link.h. */
#include "worker/program/child/link.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "worker/program/child/describe.h"
#include "worker/program/child/packet.h"

/* A process that says nothing and uses less of a CPU than this share is idle, unless it or a
 * process that it has started waits for a core. */
static const double idle_share = 0.02;

/* ---- faults ---------------------------------------------------------------------------------- */

static int died(struct link *l, struct err *e)
{
    char how[400];
    l->gone = true;
    return err_set(e, ERR_PEER, "%s %s", l->who, child_epitaph(l->child, how, sizeof(how)));
}

/* The socket is closed: the process has ended, or will end within a moment. */
static int lost(struct link *l, struct err *e)
{
    char lines[300];
    l->gone = true;
    for (int i = 0; i < 100 && !child_ended(l->child); i++) {
        clock_sleep(0.01);
    }
    return child_ended(l->child)
               ? died(l, e)
               : err_set(e, ERR_PEER, "%s closed its connection but did not end; %s", l->who,
                         child_last_lines(l->child, lines, sizeof(lines)));
}

/* Its last lines, of which the newest are its stacks. */
static const char *dump(struct link *l, char *lines, size_t bytes)
{
    l->gone = true;
    kill(l->child->pid, l->stack_signal > 0 ? l->stack_signal : SIGABRT);
    clock_sleep(0.5); /* its stacks are written */
    return child_last_lines(l->child, lines, bytes);
}

static int hangs(struct link *l, struct err *e)
{
    char lines[300];
    err_set(e, ERR_TIMEOUT, "%s has neither reported nor computed for %g s; %s", l->who,
            l->patience, dump(l, lines, sizeof(lines)));
    err_hint(e, "its stacks are in the rank's log; 'program.patience_seconds' gives it longer");
    return -ERR_TIMEOUT;
}

/* It computes, but for too long. */
static int overdue(struct link *l, struct err *e)
{
    char lines[300];
    err_set(e, ERR_TIMEOUT, "%s has not come to the end of %s in time; %s", l->who, l->task,
            dump(l, lines, sizeof(lines)));
    err_hint(e, "its stacks are in the rank's log; 'program.patience_seconds' gives it longer");
    return -ERR_TIMEOUT;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The program receives nothing any more. What it has sent is received first. */
static int unheard(struct link *l, struct err *e)
{
    return packet_waits(l->fd) ? 0 : lost(l, e);
}

/* All packets that wait, in one call. */
static int send_later(struct link *l, struct err *e)
{
    struct mmsghdr heads[LINK_LATER] = {0};
    struct iovec one[LINK_LATER];
    int n = l->n_later;
    for (int i = 0; i < n; i++) {
        one[i] = (struct iovec){.iov_base = &l->later[i], .iov_len = sizeof(l->later[i])};
        heads[i].msg_hdr = (struct msghdr){.msg_iov = &one[i], .msg_iovlen = 1};
    }
    l->n_later = 0;
    for (int at = 0; at < n;) {
        int sent = sendmmsg(l->fd, heads + at, (unsigned)(n - at), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return unheard(l, e);
        }
        at += sent > 0 ? sent : 0;
    }
    return 0;
}

/* A GO takes along the slice that waits to be sent. */
static bool join_slice(struct link *l, const struct wire_message *m)
{
    struct wire_message *last = l->n_later > 0 ? &l->later[l->n_later - 1] : NULL;
    bool joins = last && last->type == WIRE_SLICE && m->type == WIRE_GO;
    if (joins) {
        last->type = WIRE_GO;
        last->flags |= m->flags | WIRE_WITH_SLICE;
    }
    return joins;
}

int link_later(struct link *l, const struct wire_message *m, struct err *e)
{
    if (join_slice(l, m)) {
        return 0;
    }
    int rc = l->n_later == LINK_LATER ? send_later(l, e) : 0;
    l->later[l->n_later++] = *m;
    return rc;
}

int link_send(struct link *l, const struct wire_message *m, const int *fds, struct err *e)
{
    int rc;
    if (!fds) {
        return (rc = link_later(l, m, e)) < 0 ? rc : send_later(l, e);
    }
    if ((rc = send_later(l, e)) < 0) {
        return rc;
    }
    return packet_send(l->fd, m, fds) ? 0 : unheard(l, e);
}

void link_refuse(struct link *l, const char *why)
{
    if (l->fd >= 0) {
        packet_refuse(l->fd, why);
    }
}

/* ---- a state that came with a message -------------------------------------------------------- */

int link_read_state(const struct link *l, int fd, struct own_state *out, struct err *e)
{
    struct stat is;
    int rc;
    if (fstat(fd, &is) < 0 || is.st_size < 0) {
        return err_errno(e, ERR_PEER, "the state of %s cannot be read", l->who);
    }
    if (is.st_size > OWN_STATE_MOST) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s gave a state of %.1f GB; a checkpoint takes at most %.1f GB of each",
                       l->who, (double)is.st_size / 1e9, (double)OWN_STATE_MOST / 1e9);
    }
    if (is.st_size == 0 || (rc = own_state_alloc(out, (size_t)is.st_size, e)) < 0) {
        return is.st_size == 0 ? 0 : rc;
    }
    if (!packet_read(fd, (char *)out->bytes, out->n)) {
        own_state_release(out);
        return err_set(e, ERR_PEER, "the state of %s cannot be read", l->who);
    }
    return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Measures the CPU time only where no wait has begun a moment ago: small steps wait thousands of
 * times a second. */
static void begin_wait(struct link *l)
{
    static const double moment = 0.1;
    double now = clock_now();
    if (now - l->silent_since > moment) {
        l->silent_since = now;
        l->cpu_then = child_cpu(l->child);
    }
}

/* Called every second of a wait. Negative: the process hangs, or is overdue. */
static int look(struct link *l, struct err *e)
{
    double now = clock_now(), cpu = child_cpu(l->child);
    double silent = now - l->silent_since;
    if (l->watch) {
        l->watch(l->watch_ctx);
    }
    bool works = cpu < 0 || cpu - l->cpu_then > idle_share * silent || child_works(l->child);
    if (!works && silent > l->patience) {
        return hangs(l, e);
    }
    if (l->until > 0 && now > l->until) {
        return overdue(l, e);
    }
    if (works) {
        begin_wait(l);
    }
    return 0;
}

/* Closing a socket with a packet unread would reset the connection, which the other end is told
 * before what was sent. */
static void drop_join(int socket)
{
    struct pollfd packet = {.fd = socket, .events = POLLIN};
    struct wire_message m;
    int fd = -1;
    if (poll(&packet, 1, 1000) == 1) {
        packet_take(socket, &m, &fd);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* What a wait found; negative: an error. */
enum found { FOUND_NOTHING, FOUND_SOMETHING };

/* A process connects. The first one becomes the link; any other is refused. */
static int meet(struct link *l, struct err *e)
{
    int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return errno == EAGAIN || errno == EINTR ? FOUND_NOTHING
                                                 : err_errno(e, ERR_IO, "cannot meet %s", l->who);
    }
    if (l->fd < 0) {
        l->fd = fd;
        return FOUND_SOMETHING;
    }
    log_warn("program", "a second process wanted to join", "who=\"%s\"", l->who);
    drop_join(fd);
    packet_refuse(
        fd,
        "the program of this rank has joined already: one process is the program, and what "
        "it forks does not join again");
    close(fd);
    return FOUND_NOTHING;
}

/* Until then a wait sleeps: for a second, or until `early`. */
static struct timespec next_look(const struct link *l)
{
    double left = l->early > 0 ? l->early - clock_now() : 1;
    left = left < 0 ? 0 : left;
    return left < 1 ? (struct timespec){.tv_nsec = (long)(1e9 * left)}
                    : (struct timespec){.tv_sec = 1};
}

/* Waits until the link has a packet, or, where there is no link yet, until a process connects; for
 * a second at most. Returns enum found, or a negative error. */
static int wait_once(struct link *l, struct err *e)
{
    const struct timespec most = next_look(l);
    struct pollfd fds[] = {{.fd = l->listener, .events = POLLIN},
                           {.fd = l->child->pidfd, .events = POLLIN},
                           {.fd = l->fd, .events = POLLIN}};
    bool joined = l->fd >= 0;
    int n = ppoll(fds, 3, &most, NULL);
    if (n < 0 && errno != EINTR) {
        return err_errno(e, ERR_IO, "cannot wait for %s", l->who);
    }
    if (n > 0 && fds[0].revents) {
        int met = meet(l, e);
        if (met != FOUND_NOTHING) {
            return met;
        }
    }
    if (joined && n > 0 && fds[2].revents) {
        return FOUND_SOMETHING; /* also what a process that has ended said last */
    }
    if (n > 0 && fds[1].revents && child_ended(l->child)) {
        return died(l, e);
    }
    if (n == 0 && l->early > 0 && clock_now() >= l->early) {
        l->early = 0;
        l->glance(l->glance_ctx);
        return FOUND_NOTHING;
    }
    return n > 0 ? FOUND_NOTHING : look(l, e);
}

int link_receive(struct link *l, struct wire_message *m, int *fd, struct err *e)
{
    int rc = send_later(l, e);
    if (rc < 0) {
        return rc;
    }
    enum packet_taken taken = packet_take(l->fd, m, fd);
    if (taken == PACKET_NONE && l->nap > 0) {
        clock_sleep(l->nap);
        taken = packet_take(l->fd, m, fd);
    }
    if (taken == PACKET_NONE) {
        begin_wait(l);
    }
    while (taken == PACKET_NONE) {
        if ((rc = wait_once(l, e)) < 0) {
            return rc;
        }
        taken = rc == FOUND_SOMETHING ? packet_take(l->fd, m, fd) : PACKET_NONE;
    }
    return taken == PACKET_ENDED ? lost(l, e) : 0;
}

int link_await_end(struct link *l, struct err *e)
{
    struct pollfd end = {.fd = l->child->pidfd, .events = POLLIN};
    begin_wait(l);
    while (!child_ended(l->child)) {
        if (poll(&end, 1, 1000) == 0) {
            int rc = look(l, e);
            if (rc < 0) {
                return rc;
            }
        }
    }
    return l->child->status == 0 ? 0 : died(l, e);
}

/* ---- joining --------------------------------------------------------------------------------- */

int link_open(struct link *l, struct child *child, int rank, const char *node, double patience,
              struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    *l = LINK_NONE;
    l->child = child;
    l->patience = patience;
    snprintf(l->who, sizeof(l->who), "the program of rank %d on '%.60s'", rank, node);
    if (own_folder_make(&l->folder, "/tmp", "evenstep-program-", e) < 0) {
        return err_prefix(e, "%s", l->who);
    }
    snprintf(l->path, sizeof(l->path), "%.80s/socket", l->folder.path);
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", l->path);
    l->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->listener < 0 || bind(l->listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(l->listener, 4) < 0) {
        return err_errno(e, ERR_IO, "cannot make a socket for %s", l->who);
    }
    return 0;
}

static int check_join(struct link *l, const struct wire_message *m, struct err *e)
{
    char why[200];
    if (m->type != WIRE_JOIN || m->join.magic != WIRE_MAGIC) {
        return err_set(e, ERR_PEER, "%s speaks another protocol than ours", l->who);
    }
    if (m->join.version != WIRE_VERSION) {
        snprintf(why, sizeof(why), "the program speaks version %u of the protocol, the rank %d",
                 m->join.version, WIRE_VERSION);
        link_refuse(l, why);
        err_set(e, ERR_PEER, "%s speaks version %u of the protocol, and this rank version %d",
                l->who, m->join.version, WIRE_VERSION);
        err_hint(e, "the program found another libevenstep than the one that belongs to the rank");
        return -ERR_PEER;
    }
    return 0;
}

int link_accept(struct link *l, struct wire_message *join, char **description, size_t *n,
                struct err *e)
{
    int rc = 0, fd = -1;
    begin_wait(l);
    while (l->fd < 0 && rc >= 0) {
        rc = wait_once(l, e);
        if (rc < 0 && child_ended(l->child) && l->child->status == 0) {
            err_prefix(e, "it never joined");
            err_hint(e, "does it call evenstep.prepare, or es_join?");
        }
    }
    *description = NULL;
    if (rc < 0 || (rc = link_receive(l, join, &fd, e)) < 0 || (rc = check_join(l, join, e)) < 0) {
        return rc;
    }
    *description = packet_text(fd, DESCRIPTION_BYTES, n);
    if (fd >= 0) {
        close(fd);
    }
    return *description ? 0 : err_set(e, ERR_PEER, "%s joined without a description", l->who);
}

void link_close(struct link *l)
{
    if (l->fd >= 0) {
        close(l->fd);
    }
    if (l->listener >= 0) {
        close(l->listener);
    }
    own_folder_remove(&l->folder);
    *l = LINK_NONE;
}
