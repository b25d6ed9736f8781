/* A stand-in rank for the tests of libevenstep: the other end of its socket, step by step. The
 * program runs in a child of the test, and its return value is the exit status, 0 for success.
 */
#ifndef TESTS_UNIT_CLIENT_STANDIN_H
#define TESTS_UNIT_CLIENT_STANDIN_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/include/evenstep.h"
#include "client/protocol.h"

#define SLOTS 4
#define BATCH 8

struct standin {
    char path[64];
    int listener, fd, block_fd, bucket_floats;
    uint32_t welcomes; /* flags of WELCOME */
    pid_t program;
    uint8_t *block;
    float *params, *grads;
    int64_t *indices;         /* [SLOTS][BATCH] */
    struct wire_message join; /* and what it described: */
    char description[4096];
};

static inline void standin_run(struct standin *r, int (*program)(void))
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    memset(r, 0, sizeof(*r));
    r->bucket_floats = 2;
    snprintf(r->path, sizeof(r->path), "/tmp/evenstep-unit-%d", (int)getpid());
    unlink(r->path);
    memcpy(at.sun_path, r->path, strlen(r->path));
    r->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(r->listener, 1), 0);
    r->program = fork();
    if (r->program == 0) {
        close(r->listener);
        setenv("EVENSTEP_SOCKET", r->path, 1);
        _exit(program());
    }
    r->fd = accept(r->listener, NULL, NULL);
    assert_true(r->fd >= 0);
}

static inline struct wire_message standin_get(struct standin *r, int type, int *file)
{
    struct wire_message m = {0};
    char room[CMSG_SPACE(2 * sizeof(int))];
    struct iovec bytes = {&m, sizeof(m)};
    struct msghdr head = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *c;

    assert_int_equal(recvmsg(r->fd, &head, 0), sizeof(m));
    assert_int_equal(m.type, type);
    c = CMSG_FIRSTHDR(&head);
    if (file) {
        *file = -1;
        if (c) {
            memcpy(file, CMSG_DATA(c), sizeof(int));
        }
    }
    return m;
}

static inline void standin_put(struct standin *r, struct wire_message m, int file)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } u;
    struct iovec bytes = {&m, sizeof(m)};
    struct msghdr head = {.msg_iov = &bytes, .msg_iovlen = 1};

    if (file >= 0) {
        head.msg_control = u.room;
        head.msg_controllen = sizeof(u.room);
        u.align = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&u.align), &file, sizeof(int));
    }
    assert_int_equal(sendmsg(r->fd, &head, MSG_NOSIGNAL), sizeof(m));
}

static inline void standin_say(struct standin *r, int type, uint32_t flags)
{
    standin_put(r, (struct wire_message){.type = (uint32_t)type, .flags = flags}, -1);
}

/* Slice `number` of count samples, number * 100 and the following ones. */
static inline void standin_slice(struct standin *r, int64_t number, int64_t count, uint32_t flags)
{
    struct wire_message m = {.type = WIRE_SLICE, .flags = flags};

    m.slice.number = number;
    m.slice.count = m.slice.step_count = count;
    m.slice.slot = number < 0 ? 0 : (int)(number % SLOTS);
    for (int64_t i = 0; i < count; i++) {
        r->indices[m.slice.slot * BATCH + i] = number * 100 + i;
    }
    standin_put(r, m, -1);
}

static inline struct wire_shared *shared(struct standin *r)
{
    return (struct wire_shared *)r->block;
}

/* Answers JOIN with a block of n_params floats, in buckets of r->bucket_floats, the last ones
 * first. */
static inline void standin_welcome(struct standin *r, int64_t n_params, uint32_t version)
{
    struct wire_message m = {.type = WIRE_WELCOME, .flags = r->welcomes};
    int file;

    r->join = standin_get(r, WIRE_JOIN, &file);
    assert_true(file >= 0 && pread(file, r->description, sizeof(r->description) - 1, 0) > 0);
    close(file);
    m.welcome.magic = WIRE_MAGIC;
    m.welcome.version = version;
    m.welcome.rank = 1;
    m.welcome.workers = 3;
    m.welcome.global_batch = BATCH;
    m.welcome.n_params = n_params;
    m.welcome.params = 128;
    m.welcome.grads = 1024;
    m.welcome.stats = 2048;
    m.welcome.buckets = 3072;
    m.welcome.indices = 4096;
    m.welcome.n_buckets = (int)(n_params / r->bucket_floats);
    m.welcome.slots = SLOTS;
    m.welcome.ahead = SLOTS - 1;
    m.welcome.block_bytes = 8192;
    r->block_fd = memfd_create("block", MFD_CLOEXEC);
    assert_int_equal(ftruncate(r->block_fd, 8192), 0);
    r->block = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, r->block_fd, 0);
    atomic_store(&shared(r)->begun, -1);
    atomic_store(&shared(r)->granted, -1);
    atomic_store(&shared(r)->copied, -1);
    shared(r)->kept[0] = 2.5; /* of a process before this one */
    r->params = (float *)(r->block + 128);
    r->grads = (float *)(r->block + 1024);
    r->indices = (int64_t *)(r->block + 4096);
    for (int i = 0; i < m.welcome.n_buckets; i++) {
        ((struct wire_bucket *)(r->block + 3072))[i] = (struct wire_bucket){
            .first = n_params - r->bucket_floats * (i + 1), .count = r->bucket_floats};
    }
    standin_put(r, m, r->block_fd);
}

static inline int standin_exit(struct standin *r)
{
    int status;

    assert_int_equal(waitpid(r->program, &status, 0), r->program);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static inline void standin_end(struct standin *r)
{
    if (r->fd >= 0) {
        close(r->fd);
    }
    close(r->listener);
    unlink(r->path);
    if (r->block) {
        munmap(r->block, 8192);
        close(r->block_fd);
    }
}

#endif
