/* Waiting for sockets (worker/exchange/transport/mpi_sockets.h), with a pipe instead of Open
 * MPI's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker/exchange/transport/mpi_sockets.h"

enum { READ = 0x02, WRITE = 0x04, LONG_SECONDS = 60 };
static int ends[2], listed;
static const int nothing;
static void *const fake = (void *)&nothing;

/* Events are the numbers of the pipe's ends; the first one is a timer's. */
static int each(const void *base, int (*one)(const void *base, const void *event, void *ctx),
                void *ctx)
{
    static const int numbers[] = {2, 0, 1};
    int rc = 0;
    for (int i = 0; i < listed && rc == 0; i++) {
        rc = one(base, &numbers[i < 2 ? i : 1], ctx);
    }
    return rc;
}

static int fd_of(const void *event)
{
    int number = *(const int *)event;
    return number == 2 ? -1 : ends[number];
}

static short events_of(const void *event)
{
    return *(const int *)event == 0 ? READ : WRITE;
}

static struct mpi_sockets make(void)
{
    struct mpi_sockets s = {.base = &fake, .each = each, .fd = fd_of, .events = events_of};
    s.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listed = 2;
    assert_int_equal(pipe(ends), 0);
    return s;
}

static void drop(struct mpi_sockets *s)
{
    close(ends[0]);
    close(ends[1]);
    mpi_sockets_close(s);
    assert_false(mpi_sockets_usable(s));
}

static void a_wait_ends_with_data_or_a_bell_or_the_time(void **state)
{
    struct mpi_sockets s = make();
    (void)state;
    assert_int_equal(mpi_sockets_wait(&s, 0.001), MPI_WOKEN_LATE);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(mpi_sockets_wait(&s, LONG_SECONDS), MPI_WOKEN_SOCKET);
    mpi_sockets_ring(&s);
    mpi_sockets_ring(&s);
    assert_int_equal(mpi_sockets_wait(&s, LONG_SECONDS), MPI_WOKEN_BELL);
    assert_int_equal(mpi_sockets_wait(&s, LONG_SECONDS), MPI_WOKEN_SOCKET); /* two rings are one */
    drop(&s);
}

static void messages_that_no_socket_tells_of_end_it(void **state)
{
    struct mpi_sockets s = make();
    (void)state;
    for (int i = 0; i < 20; i++) { /* a few by chance are none */
        for (int late = 0; late < 3; late++) {
            assert_int_equal(mpi_sockets_wait(&s, 0), MPI_WOKEN_LATE);
            mpi_sockets_moved(&s);
            mpi_sockets_moved(&s); /* several messages of one wait count once */
        }
        assert_int_equal(write(ends[1], "x", 1), 1);
        assert_int_equal(mpi_sockets_wait(&s, LONG_SECONDS), MPI_WOKEN_SOCKET);
        mpi_sockets_moved(&s);
        char c;
        assert_int_equal(read(ends[0], &c, 1), 1);
        assert_true(mpi_sockets_usable(&s));
    }
    for (int late = 0; late < 4; late++) {
        assert_true(mpi_sockets_usable(&s));
        assert_int_equal(mpi_sockets_wait(&s, 0), MPI_WOKEN_LATE);
        mpi_sockets_moved(&s);
    }
    assert_false(mpi_sockets_usable(&s));
    assert_int_equal(mpi_sockets_wait(&s, LONG_SECONDS), MPI_WOKEN_BLIND);
    drop(&s);
}

static void more_sockets_than_it_lists_are_not_waited_for(void **state)
{
    struct mpi_sockets s = make();
    (void)state;
    listed = MPI_SOCKETS + 1; /* with the timer */
    assert_int_equal(mpi_sockets_wait(&s, 0), MPI_WOKEN_LATE);
    listed++;
    assert_int_equal(mpi_sockets_wait(&s, LONG_SECONDS), MPI_WOKEN_BLIND);
    assert_false(mpi_sockets_usable(&s));
    drop(&s);
}

static void without_mpi_there_are_none(void **state)
{
    struct mpi_sockets s;
    (void)state;
    assert_false(mpi_sockets_open(&s)); /* the library is linked, but was not initialized */
    assert_false(mpi_sockets_usable(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_with_data_or_a_bell_or_the_time),
        cmocka_unit_test(messages_that_no_socket_tells_of_end_it),
        cmocka_unit_test(more_sockets_than_it_lists_are_not_waited_for),
        cmocka_unit_test(without_mpi_there_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
