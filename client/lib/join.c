/* Joining: sends the description, gets the block, and puts the first parameters into it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/session.h"

static int check(const struct es_about *about)
{
    const struct session *s = &es_session;

    if (about->abi != ES_ABI) {
        return es_fail("cannot join: the program was built for ABI %d of libevenstep, this is %d",
                       about->abi, ES_ABI);
    }
    if (s->forked) {
        return es_usable("es_join");
    }
    if (s->joined) {
        return es_fail(
            "cannot join: this process has joined already; one process is one program "
            "of the run");
    }
    if (about->n_params < 1 || !about->params || about->global_batch < 1 || about->samples < 0 ||
        about->n_stats < 0) {
        return es_fail(
            "cannot join: a program has at least one parameter (here %d) and a global "
            "batch of at least 1 (here %" PRId64 ")",
            about->n_params, about->global_batch);
    }
    return 0;
}

/* Do the rank's figures fit into the block, which has this many bytes? */
static int check_welcome(const struct wire_message *m, const struct es_about *about, int64_t bytes)
{
    int64_t params = m->welcome.n_params * (int64_t)sizeof(float);

    if (m->type != WIRE_WELCOME || m->welcome.magic != WIRE_MAGIC) {
        return es_fail("cannot join: what answers at EVENSTEP_SOCKET is not a rank of Evenstep");
    }
    if (m->welcome.version != WIRE_VERSION) {
        return es_fail("cannot join: the rank speaks version %u of the protocol, this program %u",
                       m->welcome.version, WIRE_VERSION);
    }
    if (m->welcome.n_params != floats_in(about->params, about->n_params) ||
        m->welcome.n_stats != floats_in(about->stats, about->n_stats)) {
        return es_fail("cannot join: the rank counts %" PRId64 " parameters, the program %" PRId64,
                       m->welcome.n_params, floats_in(about->params, about->n_params));
    }
    if (m->welcome.block_bytes > bytes || m->welcome.params < (int64_t)sizeof(struct wire_shared) ||
        m->welcome.grads < 0 || m->welcome.params + params > bytes ||
        m->welcome.grads + params > bytes ||
        m->welcome.stats + m->welcome.n_stats * (int64_t)sizeof(float) > bytes ||
        m->welcome.indices + m->welcome.slots * m->welcome.global_batch * 8 > bytes ||
        m->welcome.buckets + m->welcome.n_buckets * (int64_t)sizeof(struct wire_bucket) > bytes ||
        ((m->flags & WIRE_KEEP) && wire_keep_at(m) < (int64_t)sizeof(struct wire_shared))) {
        return es_fail("cannot join: the rank's block of %" PRId64 " bytes is too small", bytes);
    }
    return 0;
}

/* Bytes of a file; negative: there is none. Avoids fstat, which would tie the library to glibc
 * 2.33. */
static int64_t size_of(int fd)
{
    return fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
}

static int map_block(struct session *s, const struct es_about *about, int fd)
{
    int64_t bytes = size_of(fd);

    if (bytes < 0) {
        return es_fail("cannot join: the rank sent no block");
    }
    if (check_welcome(&s->welcome, about, bytes) < 0) {
        return -1;
    }
    s->block = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return s->block != MAP_FAILED
               ? 0
               : es_fail("cannot join: the block of %" PRId64 " bytes cannot be mapped: %s", bytes,
                         strerror(errno));
}

static int read_state(struct session *s, int fd, size_t *n)
{
    int64_t bytes = size_of(fd);

    *n = 0;
    if (!(s->welcome.flags & WIRE_HAS_STATE)) {
        return 0;
    }
    if (bytes < 0 || !(s->state = malloc((size_t)bytes + 1))) {
        return es_fail("cannot join: the rank sent no state to go on from");
    }
    while (*n < (size_t)bytes) {
        ssize_t got = pread(fd, (char *)s->state + *n, (size_t)bytes - *n, (off_t)*n);

        if (got <= 0 && errno != EINTR) {
            return es_fail("cannot join: the state to go on from cannot be read");
        }
        *n += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int say_join(struct session *s, const struct es_about *about)
{
    struct wire_message m = {.type = WIRE_JOIN};
    const char *incarnation = getenv("EVENSTEP_INCARNATION");
    char *text;
    size_t n;
    int fd, rc;

    if (describe(about, &text, &n) < 0) {
        return -1;
    }
    fd = talk_memfd(text, n);
    free(text);
    if (fd < 0) {
        return -1;
    }
    m.join.magic = WIRE_MAGIC;
    m.join.version = WIRE_VERSION;
    m.join.pid = getpid();
    m.join.incarnation = incarnation ? (int32_t)strtol(incarnation, NULL, 10) : 0;
    rc = talk_send(s, &m, fd);
    close(fd);
    return rc;
}

static int join_rank(struct session *s, const struct es_about *about, size_t *state_bytes)
{
    int fds[2] = {-1, -1}, rc = -1;

    s->fd = talk_connect(getenv("EVENSTEP_SOCKET"));
    if (s->fd < 0) {
        return -1;
    }
    if (say_join(s, about) == 0 && talk_receive(s, &s->welcome, fds) == 0 &&
        map_block(s, about, fds[0]) == 0 && read_state(s, fds[1], state_bytes) == 0) {
        rc = 0;
    }
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    return rc;
}

/* Copies the tensors' first values; true if every tensor has some. */
static bool copy_initial(float *to, const struct es_tensor *t, int n)
{
    bool all = true;

    for (int i = 0; i < n; i++) {
        if (t[i].initial) {
            memcpy(to, t[i].initial, (size_t)floats_of(&t[i]) * sizeof(float));
        } else {
            all = false;
        }
        to += floats_of(&t[i]);
    }
    return all;
}

static void fill_run(const struct session *s, size_t state_bytes, struct es_run *run)
{
    const struct wire_message *m = &s->welcome;

    *run = (struct es_run){
        .rank = m->welcome.rank,
        .workers = m->welcome.workers,
        .resumed = (m->flags & WIRE_RESUMED) != 0,
        .ahead = m->welcome.ahead,
        .global_batch = m->welcome.global_batch,
        .epoch = m->welcome.epoch,
        .step = m->welcome.step,
        .seed = m->welcome.seed,
        .n_params = m->welcome.n_params,
        .n_stats = m->welcome.n_stats,
        .params = (float *)(s->block + m->welcome.params),
        .grads = (float *)(s->block + m->welcome.grads),
        .stats = (float *)(s->block + m->welcome.stats),
        .state = s->state,
        .state_bytes = state_bytes,
    };
}

PUBLIC int es_join(const struct es_about *about, struct es_run *run)
{
    struct session *s = &es_session;
    size_t state_bytes = 0;

    if (check(about) < 0) {
        return -1;
    }
    if (es_alone()) {
        s->inside = alone_new(about, &s->welcome, &s->block);
        if (!s->inside) {
            return -1;
        }
    } else if (join_rank(s, about, &state_bytes) < 0) {
        return -1;
    }
    s->takes = !(s->welcome.flags & WIRE_OWN_GRADIENTS);
    s->has_state = about->has_state;
    s->sums = about->sums;
    if (slices_init(s) < 0 || buckets_init(s, about) < 0) {
        return -1;
    }
    s->joined = true;
    fill_run(s, state_bytes, run);
    if (copy_initial(run->params, about->params, about->n_params)) {
        copy_initial(run->stats, about->stats, about->n_stats);
        return es_start();
    }
    return 0;
}

/* For the third job of `evenstep run --check`: each parameter starts one rounding step from its
 * value. */
static void begin_beside(struct session *s)
{
    uint8_t *at = s->block + s->welcome.welcome.params;
    uint32_t bits, draw = 1;

    for (int64_t i = 0; i < s->welcome.welcome.n_params; i++, at += sizeof bits) {
        memcpy(&bits, at, sizeof bits);
        draw = draw * 1664525 + 1013904223;
        bits += bits << 1 == 0 ? 0 : draw >> 31 ? 1 : UINT32_MAX; /* zero stays zero, +0 or -0 */
        memcpy(at, &bits, sizeof bits);
    }
}

PUBLIC int es_start(void)
{
    struct session *s = &es_session;
    struct wire_message m = {.type = WIRE_READY};

    if (es_usable("es_start") < 0) {
        return -1;
    }
    if (s->started) {
        return es_fail("es_start: the run has started already");
    }
    if (getenv("CHECK_ROUNDING") && !(s->welcome.flags & WIRE_RESUMED)) {
        begin_beside(s);
    }
    if (talk_send(s, &m, -1) < 0 || talk_expect(s, &m, WIRE_START, "es_start") < 0) {
        return -1;
    }
    s->started = true;
    return 0;
}
