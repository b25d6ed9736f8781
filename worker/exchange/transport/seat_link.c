/* See seat_link.h.
 *
 *   frame   tag │ bytes │ body        one after the other, in both directions
 *
 * A message to send is copied; it is done when the kernel has its last byte. A message that comes
 * is kept whole until a receive of its tag asks for it. */
#include "worker/exchange/transport/seat_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IMPL_LINK, IMPL_ROOM, IMPL_TAG, IMPL_END };
enum { AT_ONCE = 16 << 20 }; /* bytes that a turn of the thread moves each way */

struct frame_head {
    uint32_t tag, none;
    uint64_t bytes;
};

struct frame {
    struct frame *next;
    struct frame_head head;
    char body[];
};

static const uint64_t frame_most = (uint64_t)1 << 31;

struct seat_link {
    _Atomic int fd; /* -1: broken */
    /* Out: out[out_from..out_to) is to be sent. `sent` bytes have been sent since the start. */
    char *out;
    size_t out_from, out_to, out_room;
    uint64_t sent, queued;
    /* In: the frame that is coming, and the complete frames, oldest first. */
    struct sign_key expected, proof; /* what must come before the first frame, and what comes */
    size_t proof_left;               /* bytes of the proof that have not come yet */
    struct frame_head head;
    size_t got; /* bytes of the head, then of the body, that have come */
    struct frame *coming, *first, **last;
};

struct seat_link *seat_link_new(int fd)
{
    struct seat_link *l = calloc(1, sizeof *l);
    if (l) {
        l->fd = fd;
        l->last = &l->first;
    }
    return l;
}

static void break_off(struct seat_link *l)
{
    if (l->fd >= 0) {
        close(l->fd);
    }
    l->fd = -1;
    free(l->coming);
    l->coming = NULL;
    free(l->out); /* the link itself lives as long as the rank's transport */
    l->out = NULL;
    l->out_from = l->out_to = l->out_room = 0;
}

void seat_link_free(struct seat_link *l)
{
    if (!l) {
        return;
    }
    break_off(l);
    while (l->first) {
        struct frame *next = l->first->next;
        free(l->first);
        l->first = next;
    }
    free(l);
}

bool seat_link_is_broken(const struct seat_link *l)
{
    return l->fd < 0;
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

/* Did send() or recv(), which returned n, move bytes? Any failure but "would block" breaks the
 * link. */
static bool has_moved(struct seat_link *l, ssize_t n)
{
    bool would_block = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (n <= 0 && !would_block) {
        break_off(l);
    }
    return n > 0;
}

static bool push_out(struct seat_link *l)
{
    bool moved = false;
    uint64_t until = l->sent + AT_ONCE;
    while (l->fd >= 0 && l->out_from < l->out_to && l->sent < until) {
        ssize_t n =
            send(l->fd, l->out + l->out_from, l->out_to - l->out_from, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (!has_moved(l, n)) {
            break;
        }
        moved = true;
        l->out_from += (size_t)n;
        l->sent += (uint64_t)n;
    }
    return moved;
}

/* Where the next bytes go: to the proof, the head or the body. */
static char *place_in(struct seat_link *l, size_t *room)
{
    if (l->proof_left > 0) {
        *room = l->proof_left;
        return (char *)&l->proof + sizeof l->proof - l->proof_left;
    }
    if (!l->coming) {
        *room = sizeof l->head - l->got;
        return (char *)&l->head + l->got;
    }
    *room = (size_t)l->head.bytes - l->got;
    return l->coming->body + l->got;
}

/* Checks whether what came completes a head or a frame. */
static void take_in(struct seat_link *l)
{
    if (!l->coming && l->got == sizeof l->head) {
        l->got = 0;
        l->coming =
            l->head.bytes <= frame_most ? malloc(sizeof *l->coming + (size_t)l->head.bytes) : NULL;
        if (!l->coming) {
            break_off(l);
            return;
        }
        l->coming->head = l->head;
        l->coming->next = NULL;
    }
    if (l->coming && l->got == l->head.bytes) {
        *l->last = l->coming;
        l->last = &l->coming->next;
        l->coming = NULL;
        l->got = 0;
    }
}

static void take_proof(struct seat_link *l, size_t bytes)
{
    l->proof_left -= bytes;
    if (l->proof_left == 0 && !sign_same(&l->proof, &l->expected)) {
        break_off(l);
    }
}

static bool pull_in(struct seat_link *l)
{
    bool moved = false;
    size_t came = 0;
    while (l->fd >= 0 && came < AT_ONCE) {
        size_t room;
        char *at = place_in(l, &room);
        ssize_t n = recv(l->fd, at, room, MSG_DONTWAIT);
        if (!has_moved(l, n)) {
            break;
        }
        moved = true;
        came += (size_t)n;
        if (l->proof_left > 0) {
            take_proof(l, (size_t)n);
        } else {
            l->got += (size_t)n;
            take_in(l);
        }
    }
    return moved;
}

bool seat_link_pump(struct seat_link *l)
{
    bool out = push_out(l), in = pull_in(l);
    return out || in;
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool append(struct seat_link *l, const void *data, size_t bytes)
{
    if (l->out_from > 0 && l->out_from == l->out_to) {
        l->out_from = l->out_to = 0;
    }
    if (l->out_to + bytes > l->out_room) {
        size_t room = 2 * (l->out_to + bytes);
        char *out = realloc(l->out, room);
        if (!out) {
            return false;
        }
        l->out = out;
        l->out_room = room;
    }
    if (bytes > 0) {
        memcpy(l->out + l->out_to, data, bytes);
    }
    l->out_to += bytes;
    l->queued += bytes;
    return true;
}

bool seat_link_begin_with(struct seat_link *l, const struct sign_key *proof)
{
    bool there = append(l, proof, sizeof *proof);
    push_out(l);
    return there;
}

void seat_link_expect(struct seat_link *l, const struct sign_key *proof)
{
    l->expected = *proof;
    l->proof_left = sizeof *proof;
}

int seat_link_send(struct seat_link *l, int tag, const void *data, size_t bytes,
                   struct transport_req *r)
{
    struct frame_head head = {.tag = (uint32_t)tag, .bytes = bytes};
    memset(r, 0, sizeof *r);
    r->impl[IMPL_LINK] = (uint64_t)(uintptr_t)l;
    r->impl[IMPL_END] = l->queued;
    if (l->fd < 0) {
        return 0;
    }
    if (!append(l, &head, sizeof head) || !append(l, data, bytes)) {
        return -ERR_MEMORY;
    }
    r->impl[IMPL_END] = l->queued;
    push_out(l);
    return 0;
}

int seat_link_recv(struct seat_link *l, int tag, void *data, size_t bytes, struct transport_req *r)
{
    memset(r, 0, sizeof *r);
    r->at = data;
    r->impl[IMPL_LINK] = (uint64_t)(uintptr_t)l;
    r->impl[IMPL_ROOM] = bytes;
    r->impl[IMPL_TAG] = (uint64_t)tag + 1; /* 0: a message to send */
    return 0;
}

static struct frame **find(struct seat_link *l, int tag)
{
    struct frame **at = &l->first;
    while (*at && (*at)->head.tag != (uint32_t)tag) {
        at = &(*at)->next;
    }
    return at;
}

bool seat_link_has(struct seat_link *l, int tag)
{
    return *find(l, tag) != NULL;
}

static int take_frame(struct seat_link *l, struct frame **at, struct transport_req *r)
{
    struct frame *f = *at;
    if (f->head.bytes > r->impl[IMPL_ROOM]) {
        return -ERR_CONFLICT;
    }
    if (f->head.bytes > 0) {
        memcpy(r->at, f->body, (size_t)f->head.bytes);
    }
    r->bytes = (size_t)f->head.bytes;
    *at = f->next;
    l->last = f->next ? l->last : at;
    free(f);
    r->impl[IMPL_LINK] = 0; /* tested done */
    return COMM_DONE;
}

int seat_link_test(struct transport_req *r)
{
    struct seat_link *l = (struct seat_link *)(uintptr_t)r->impl[IMPL_LINK];
    if (!l) {
        return COMM_DONE;
    }
    seat_link_pump(l);
    if (r->impl[IMPL_TAG] == 0) {
        return l->fd < 0 || l->sent >= r->impl[IMPL_END] ? COMM_DONE : COMM_UNDER_WAY;
    }
    struct frame **at = find(l, (int)(r->impl[IMPL_TAG] - 1));
    return *at ? take_frame(l, at, r) : COMM_UNDER_WAY;
}
