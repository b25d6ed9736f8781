/* A rank's half of the talk with its program (worker/program/step), without either process. The
 * test is the program, at the other end of the socket. */
#ifndef TESTS_UNIT_WORKER_PROGRAM_ALONE_H
#define TESTS_UNIT_WORKER_PROGRAM_ALONE_H

#include "tests/unit/worker/fixture.h"

#include <math.h>
#include <sys/socket.h>

#include "worker/program/child/packet.h"
#include "worker/program/engine_parts.h"

static struct rank { /* and its program's end of the socket */
    struct jobspec *spec;
    struct telemetry telemetry;
    struct trainer_env env;
    struct program p;
    struct program_engine g;
    int program;
} rank;

enum { SLOTS = 4 };

/* In step 0, whose gradients the program has sent; its slice is the first of two. */
static inline void begin(void)
{
    int ends[2];
    memset(&rank, 0, sizeof rank);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    rank.spec = make_spec(
        "{\"program\": {\"command\": [\"train\"]}, \"workers\": 2, \"epochs\": 3, "
        "\"strategy\": {\"type\": \"sync\"}, "
        "\"batching\": {\"global_batch\": 16}}");
    rank.env = (struct trainer_env){.spec = rank.spec, .telemetry = &rank.telemetry};
    rank.p.link = LINK_NONE;
    rank.p.link.fd = ends[0];
    rank.p.link.child = &rank.p.child;
    snprintf(rank.p.link.who, sizeof rank.p.link.who, "the program of rank 1 on 'fast'");
    rank.p.slots = SLOTS;
    rank.g.p = &rank.p;
    rank.g.base.env = &rank.env;
    rank.g.doing = AWAITS_GO;
    metrics_init(&rank.g.metrics);
    rank.program = ends[1];
}

static inline void end(void)
{
    close(rank.p.link.fd);
    if (rank.program >= 0) {
        close(rank.program);
    }
    drop_spec(rank.spec);
}

/* ---- the program ----------------------------------------------------------------------------- */

static inline void program_says(const struct wire_message *m)
{
    assert_int_equal(send(rank.program, m, sizeof *m, 0), sizeof *m);
}

static inline void says(uint32_t type, uint32_t flags)
{
    struct wire_message m = {.type = type, .flags = flags};
    program_says(&m);
}

static inline void begins(int64_t number, uint32_t flags)
{
    struct wire_message m = {.type = WIRE_BEGIN, .flags = flags, .slice.number = number};
    program_says(&m);
}

static inline void ends_epoch(int64_t epoch)
{
    struct wire_message m = {.type = WIRE_EPOCH_END, .slice.epoch = epoch};
    program_says(&m);
}

static inline void says_text(uint32_t type, uint32_t flags, const char *text)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct wire_message m = {.type = type, .flags = flags};
    struct iovec one = {&m, sizeof m};
    struct msghdr h = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    int fd = packet_memfd(text, strlen(text));
    *c = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    assert_int_equal(sendmsg(rank.program, &h, 0), sizeof m);
    close(fd);
}

/* The next message to the program; type 0: none. */
static inline struct wire_message hears(void)
{
    struct wire_message m = {0};
    ssize_t got = recv(rank.program, &m, sizeof m, MSG_DONTWAIT);
    assert_true(got == (ssize_t)sizeof m || got < 0);
    return m;
}

static inline void heard(uint32_t type, uint32_t flags)
{
    struct wire_message m = hears();
    assert_int_equal(m.type, type);
    assert_int_equal(m.flags, flags);
}

#endif
