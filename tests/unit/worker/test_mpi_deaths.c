/* Ends of connections are hidden only from Open MPI: other code in this process that reads and
 * writes gets the kernel's answers. (tests/survival tests that they are hidden.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "worker/exchange/transport/mpi_deaths.h"

static void test_others_hear_of_an_end(void **state)
{
    int ends[2];
    char text[] = "abc", got[4] = "";
    const struct iovec out = {text, 3}, in = {got, 3};
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    mpi_deaths_outlive();
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
    assert_int_equal(-1, readv(ends[0], &in, 1));
    assert_int_equal(EAGAIN, errno);
    assert_int_equal(3, writev(ends[1], &out, 1));
    assert_int_equal(3, readv(ends[0], &in, 1));
    assert_string_equal("abc", got);
    close(ends[1]);
    assert_int_equal(0, readv(ends[0], &in, 1));
    assert_int_equal(-1, writev(ends[0], &out, 1));
    assert_int_equal(EPIPE, errno);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_others_hear_of_an_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
