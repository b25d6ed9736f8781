/* Messages of a worker that joins a running attempt (worker/exchange/transport/seat_links.h); both
 * ends are in this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/exchange/transport/seat_links.h"

enum { LARGE = 3 << 20, TURNS = 100000 };

struct pair {
    struct seat_link *a, *b;
};

static struct pair make(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    return (struct pair){seat_link_new(ends[0]), seat_link_new(ends[1])};
}

static void drop(struct pair *p)
{
    seat_link_free(p->a);
    seat_link_free(p->b);
}

/* Moves both ends until it is done. */
static void finish(struct pair *p, struct transport_req *r)
{
    int rc = COMM_UNDER_WAY;
    for (int i = 0; i < TURNS && rc == COMM_UNDER_WAY; i++) {
        seat_link_pump(p->a);
        seat_link_pump(p->b);
        rc = seat_link_test(r);
    }
    assert_int_equal(rc, COMM_DONE);
}

static void messages_come_by_their_tags_and_in_order(void **state)
{
    struct pair p = make();
    struct transport_req r, sent[3];
    char got[8] = "";
    (void)state;
    assert_int_equal(seat_link_send(p.a, 7, "one", 4, &sent[0]), 0);
    assert_int_equal(seat_link_send(p.a, 9, "other", 6, &sent[1]), 0);
    assert_int_equal(seat_link_send(p.a, 7, "two", 4, &sent[2]), 0);
    seat_link_recv(p.b, 9, got, sizeof got, &r);
    finish(&p, &r);
    assert_string_equal(got, "other");
    assert_int_equal(r.bytes, 6);
    seat_link_recv(p.b, 7, got, sizeof got, &r);
    finish(&p, &r);
    assert_string_equal(got, "one");
    seat_link_recv(p.b, 7, got, sizeof got, &r);
    finish(&p, &r);
    assert_string_equal(got, "two");
    assert_int_equal(seat_link_test(&sent[2]), COMM_DONE);
    assert_false(seat_link_has(p.b, 7));
    seat_link_send(p.a, 7, "", 0, &sent[0]); /* the list of those that wait is whole again */
    seat_link_recv(p.b, 7, got, sizeof got, &r);
    finish(&p, &r);
    assert_int_equal(r.bytes, 0);
    drop(&p);
}

static void large_ones_pass_in_both_directions_at_once(void **state)
{
    struct pair p = make();
    struct transport_req in[2], out[2];
    char *a = malloc(LARGE), *b = malloc(LARGE), *at_a = malloc(LARGE), *at_b = malloc(LARGE);
    (void)state;
    assert_true(a && b && at_a && at_b);
    for (int i = 0; i < LARGE; i++) {
        a[i] = (char)(i * 7);
        b[i] = (char)(i * 13);
    }
    seat_link_send(p.a, 1, a, LARGE, &out[0]);
    seat_link_send(p.b, 1, b, LARGE, &out[1]);
    assert_int_equal(seat_link_test(&out[0]), COMM_UNDER_WAY); /* the socket holds less */
    seat_link_recv(p.a, 1, at_a, LARGE, &in[0]);
    seat_link_recv(p.b, 1, at_b, LARGE, &in[1]);
    finish(&p, &in[0]);
    finish(&p, &in[1]);
    finish(&p, &out[0]);
    assert_memory_equal(at_a, b, LARGE);
    assert_memory_equal(at_b, a, LARGE);
    drop(&p);
    free(a);
    free(b);
    free(at_a);
    free(at_b);
}

static void what_is_too_large_for_its_room_is_an_error(void **state)
{
    struct pair p = make();
    struct transport_req r, sent;
    char got[2];
    (void)state;
    seat_link_send(p.a, 1, "long", 5, &sent);
    seat_link_recv(p.b, 1, got, sizeof got, &r);
    assert_int_equal(seat_link_test(&r), -ERR_CONFLICT);
    drop(&p);
}

/* As with a rank of MPI that died: no other rank fails because of it. */
static void one_that_is_gone_takes_everything_and_gives_nothing(void **state)
{
    struct pair p = make();
    struct transport_req r, sent;
    char got[8];
    (void)state;
    seat_link_free(p.b);
    p.b = NULL;
    seat_link_recv(p.a, 1, got, sizeof got, &r);
    assert_int_equal(seat_link_test(&r), COMM_UNDER_WAY);
    assert_true(seat_link_is_broken(p.a));
    assert_int_equal(seat_link_send(p.a, 1, "lost", 5, &sent), 0);
    assert_int_equal(seat_link_test(&sent), COMM_DONE);
    drop(&p);
}

/* ---- the door -------------------------------------------------------------------------------- */

static void who_is_expected_is_let_in(void **state)
{
    struct seat_links keeper, worker;
    int wrong[3] = {0, 1, 0}, right[3] = {0, 2, 0}, rank;
    char attempt[64], got[4];
    const struct seat_knock first = {3, geteuid(), 1, 20}, second = {3, geteuid(), 2, 20};
    struct transport_req r;
    struct err e = {0};
    (void)state;
    snprintf(attempt, sizeof attempt, "evenstep-test/%d", (int)getpid());
    assert_int_equal(seat_links_init(&keeper, 3, 4, &e), 0);
    assert_int_equal(seat_links_admit(&keeper, right, 3), -1); /* it has no door */
    seat_links_name(&keeper, attempt, geteuid());
    assert_int_equal(seat_links_admit(&keeper, right, 3), -1); /* nobody is there */
    assert_int_equal(seat_links_init(&worker, 1, 4, &e), 0);
    seat_links_name(&worker, attempt, geteuid());
    assert_int_equal(seat_links_reach(&worker, &second, &e), 0);
    assert_int_equal(seat_links_admit(&keeper, wrong, 3), -1);  /* another process than expected */
    assert_int_equal(seat_links_reach(&worker, &first, &e), 0); /* it died as it waited */
    assert_int_equal(seat_links_reach(&worker, &second, &e), 0);
    assert_int_equal(seat_links_admit(&keeper, right, 3), 1);
    assert_non_null(seat_links_to(&keeper, 1));
    assert_null(seat_links_to(&keeper, 0));
    seat_link_send(seat_links_to(&worker, 3), 5, "hey", 4, &r);
    struct seat_link *from = seat_links_with(&keeper, 5, &rank);
    assert_non_null(from);
    assert_int_equal(rank, 1);
    seat_link_recv(from, 5, got, sizeof got, &r);
    assert_int_equal(seat_link_test(&r), COMM_DONE);
    assert_string_equal(got, "hey");
    seat_links_release(&worker);
    seat_links_release(&keeper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_by_their_tags_and_in_order),
        cmocka_unit_test(large_ones_pass_in_both_directions_at_once),
        cmocka_unit_test(what_is_too_large_for_its_room_is_an_error),
        cmocka_unit_test(one_that_is_gone_takes_everything_and_gives_nothing),
        cmocka_unit_test(who_is_expected_is_let_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
