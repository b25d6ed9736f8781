/* Workers that join over a network (worker/exchange/transport/seat_far.h): either end refuses a
 * process without the key. All ends are in this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "worker/exchange/transport/seat_links.h"

enum { WORKERS = 3, KEEPER = WORKERS, RANKS };
static const int seats[WORKERS] = {0, 2, 0}; /* worker 1's is taken for the second time */

static char doors[RANKS][DOCUMENT_DOOR];

/* One end; others find it by what it tells. */
struct end {
    struct seat_links links;
    struct sign_key own; /* of the keeper: what it thinks that worker 1 has */
    int rank;
};

static void key_of(void *ctx, int worker, struct sign_key *out)
{
    (void)worker;
    *out = ((struct end *)ctx)->own;
}

static void tell(void *ctx, const char *door)
{
    snprintf(doors[((struct end *)ctx)->rank], DOCUMENT_DOOR, "%s", door);
}

static bool find(void *ctx, int rank, char *out)
{
    (void)ctx;
    snprintf(out, DOCUMENT_DOOR, "%s", doors[rank]);
    return doors[rank][0];
}

static void begin(struct end *d, int rank, const char *attempt)
{
    memset(d, 0, sizeof *d);
    d->rank = rank;
    assert_int_equal(seat_links_init(&d->links, rank, RANKS, NULL), 0);
    seat_links_name(&d->links, attempt, geteuid());
    d->links.far = (struct seat_far){.used = true,
                                     .address = "127.0.0.1",
                                     .keeper = KEEPER,
                                     .ctx = d,
                                     .key_of = key_of,
                                     .tell = tell,
                                     .find = find};
}

static void end(struct end *d)
{
    seat_links_release(&d->links);
    doors[d->rank][0] = '\0';
}

/* What has been sent arrives within moments; waits for it. */
static int admit(struct end *d)
{
    int rank = -1;
    for (int i = 0; i < 100 && rank < 0; i++) {
        rank = seat_links_admit(&d->links, seats, WORKERS);
        clock_sleep(0.001);
    }
    return rank;
}

static int reach(struct end *newcomer, int rank)
{
    const struct seat_knock k = {rank, geteuid(), 2, 20};
    struct err e = {0};
    return seat_links_reach(&newcomer->links, &k, &e);
}

/* Sends "hey" from `from`, which is linked to `to`; false: one of them breaks the link. */
static bool passes(struct end *from, struct end *to)
{
    struct transport_req r;
    struct seat_link *out = seat_links_to(&from->links, to->rank),
                     *in = seat_links_to(&to->links, from->rank);
    char got[4] = "";
    seat_link_send(out, 5, "hey", 4, &r);
    seat_link_recv(in, 5, got, sizeof got, &r);
    for (int i = 0; i < 1000 && !seat_link_is_broken(in); i++) {
        seat_link_pump(out);
        if (seat_link_test(&r) == COMM_DONE) {
            return strcmp(got, "hey") == 0;
        }
        clock_sleep(0.001);
    }
    return false;
}

static void who_has_the_key_is_let_in(void **state)
{
    struct end keeper, other, newcomer;
    (void)state;
    begin(&keeper, KEEPER, "evenstep/a/1");
    begin(&other, 0, "evenstep/a/1");
    begin(&newcomer, 1, "evenstep/a/1");
    newcomer.links.far.among.bytes[3] = other.links.far.among.bytes[3] = 7;
    keeper.own.bytes[0] = newcomer.own.bytes[0] = 1;
    seat_links_open_door(&keeper.links);
    seat_links_open_door(&other.links);
    assert_int_equal(seat_links_admit(&keeper.links, seats, WORKERS), -1); /* nobody is there */
    assert_int_equal(reach(&newcomer, KEEPER), 0);
    assert_int_equal(admit(&keeper), 1);
    assert_int_equal(reach(&newcomer, 0), 0); /* by the key that the ranks have in common */
    assert_int_equal(admit(&other), 1);
    assert_true(passes(&newcomer, &keeper) && passes(&keeper, &newcomer));
    assert_true(passes(&newcomer, &other) && passes(&other, &newcomer));
    end(&keeper);
    end(&other);
    end(&newcomer);
}

static void who_has_another_key_or_comes_of_another_attempt_is_not(void **state)
{
    struct end keeper, newcomer;
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        begin(&keeper, KEEPER, "evenstep/a/1");
        begin(&newcomer, 1, wrong ? "evenstep/a/2" : "evenstep/a/1");
        keeper.own.bytes[0] = (unsigned char)!wrong;
        seat_links_open_door(&keeper.links);
        assert_int_equal(reach(&newcomer, KEEPER), 0); /* it stands there */
        assert_int_equal(admit(&keeper), -1);
        end(&keeper);
        end(&newcomer);
    }
}

static int dial(int rank)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    unsigned port;
    assert_int_equal(sscanf(doors[rank], "127.0.0.1:%u", &port), 1);
    at.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* A port scanner, and a client that sends anything. */
static void who_says_nothing_holds_nobody_up(void **state)
{
    struct end keeper, newcomer;
    (void)state;
    begin(&keeper, KEEPER, "evenstep/a/1");
    begin(&newcomer, 1, "evenstep/a/1");
    seat_links_open_door(&keeper.links);
    int silent = dial(KEEPER), loud = dial(KEEPER);
    assert_int_equal(send(loud, doors, 60, MSG_NOSIGNAL), 60);
    assert_int_equal(reach(&newcomer, KEEPER), 0);
    double began = clock_now();
    assert_int_equal(admit(&keeper), 1);
    assert_true(clock_now() < began + 5);
    close(silent);
    close(loud);
    end(&keeper);
    end(&newcomer);
}

/* A process that got the port of a rank that is gone is told nothing, and its messages are
 * ignored. */
static void an_answer_without_the_key_breaks_the_link(void **state)
{
    struct end impostor, newcomer;
    struct transport_req r;
    char got[4];
    (void)state;
    begin(&impostor, 0, "evenstep/a/1");
    begin(&newcomer, 1, "evenstep/a/1");
    impostor.links.far.among.bytes[5] = 1;
    seat_links_open_door(&impostor.links);
    assert_int_equal(reach(&newcomer, 0), 0);
    struct pollfd waits = {.fd = impostor.links.door_fd, .events = POLLIN};
    assert_int_equal(poll(&waits, 1, 5000), 1);
    int fd = accept(impostor.links.door_fd, NULL, NULL);
    struct seat_link *link = seat_links_to(&newcomer.links, 0);
    assert_int_equal(send(fd, doors, 60, MSG_NOSIGNAL), 60);
    seat_link_recv(link, 5, got, sizeof got, &r);
    for (int i = 0; i < 1000 && !seat_link_is_broken(link); i++) {
        assert_int_equal(seat_link_test(&r), COMM_UNDER_WAY);
        clock_sleep(0.001);
    }
    assert_true(seat_link_is_broken(link));
    close(fd);
    end(&impostor);
    end(&newcomer);
}

static void a_door_has_one_of_the_ports_that_are_given(void **state)
{
    struct end first, second, third;
    struct err e = {0};
    (void)state;
    begin(&first, 0, "evenstep/a/1");
    begin(&second, 1, "evenstep/a/1");
    begin(&third, 2, "evenstep/a/1");
    seat_links_open_door(&first.links);
    unsigned port;
    assert_int_equal(sscanf(doors[0], "127.0.0.1:%u", &port), 1);
    struct seat_far *far = &second.links.far;
    far->first_port = far->last_port = (int)port; /* it is taken */
    assert_true(seat_far_open(far, &e) < 0);
    end(&first);
    int fd = seat_far_open(far, &e);
    assert_true(fd >= 0);
    close(fd);
    end(&second);
    end(&third);
}

static int knock_at(struct end *newcomer, const char *where)
{
    struct seat_visit v = {.attempt = "evenstep/a/1", .door = 0, .hello = {.rank = 1, .seat = 2}};
    struct err e = {0};
    snprintf(doors[0], DOCUMENT_DOOR, "%s", where);
    int fd = seat_far_knock(&newcomer->links.far, &v, 0, &e);
    if (fd >= 0) {
        close(fd);
    }
    return fd;
}

/* News of a door comes over the store. */
static void what_is_no_address_and_port_is_no_door(void **state)
{
    static const char *const wrong[] = {"127.0.0.1", "localhost:%u", ":%u", "300.0.0.1:%u", ""};
    char where[DOCUMENT_DOOR];
    unsigned port;
    struct end other, newcomer;
    (void)state;
    begin(&other, 0, "evenstep/a/1");
    begin(&newcomer, 1, "evenstep/a/1");
    seat_links_open_door(&other.links);
    assert_int_equal(sscanf(doors[0], "127.0.0.1:%u", &port), 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(where, sizeof where, wrong[i], port);
        assert_true(knock_at(&newcomer, where) < 0);
    }
    snprintf(where, sizeof where, "127.0.0.1:%u", port + 65536); /* cut to 16 bits it is one */
    assert_true(knock_at(&newcomer, where) < 0);
    snprintf(where, sizeof where, "127.0.0.1:%u", port);
    assert_true(knock_at(&newcomer, where) >= 0);
    end(&other);
    end(&newcomer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_the_key_is_let_in),
        cmocka_unit_test(who_has_another_key_or_comes_of_another_attempt_is_not),
        cmocka_unit_test(who_says_nothing_holds_nobody_up),
        cmocka_unit_test(an_answer_without_the_key_breaks_the_link),
        cmocka_unit_test(a_door_has_one_of_the_ports_that_are_given),
        cmocka_unit_test(what_is_no_address_and_port_is_no_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
