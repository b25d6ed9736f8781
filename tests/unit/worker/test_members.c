/* Which ranks take part in lockstep steps, by what a rank has heard so far
 * (worker/exchange/lockstep/survival/members.c, docs/decisions/0062). */
#include "fixture.h"

#include "worker/exchange/lockstep/survival/members.h"

enum { W = 4 };

static struct { /* as a rank has heard it of the coordinator so far */
    int seats[W], lost[W], n_lost;
} told;

static int told_seats(void *ctx, int *out)
{
    (void)ctx;
    memcpy(out, told.seats, sizeof told.seats);
    return 1;
}

static int told_lost(void *ctx, int *out)
{
    (void)ctx;
    memcpy(out, told.lost, sizeof told.lost);
    return told.n_lost;
}

static void check_told(const struct members *m, int n_lost, int n_expected)
{
    struct comm c = {.workers = W};
    struct rank_env env = {.comm = &c, .seats = told_seats, .lost = told_lost};
    int lost[SPEC_WORKERS], seats[SPEC_WORKERS];
    assert_int_equal(members_find_lost(m, &env, lost), n_lost);
    assert_int_equal(members_lost(m, &env, 2), n_lost > 0);
    assert_true(n_lost == 0 || lost[0] == 2);
    assert_int_equal(members_find_expected(m, &env, seats), n_expected);
    assert_int_equal(seats[2], n_expected > 0 ? told.seats[2] : 0);
}

/* Rank 2 dies, is restarted, takes part, and dies again. A rank hears of it late, and once not at
 * all. */
static void who_is_lost_is_a_process_and_no_rank(void **state)
{
    (void)state;
    struct members m = {0};
    memset(&told, 0, sizeof told);
    check_told(&m, 0, 0);
    told.lost[0] = 2;
    told.n_lost = 1;
    check_told(&m, 1, 0);
    members_drop(&m, 2);
    assert_true(members_lack(&m, 2));
    check_told(&m, 0, 0);
    told.n_lost = 0;
    told.seats[2] = 1;
    check_told(&m, 0, 1);
    members_take(&m, 2, 1);
    assert_false(members_lack(&m, 2));
    check_told(&m, 0, 0);
    told.n_lost = 1;
    told.seats[2] = 0; /* from before it came back */
    check_told(&m, 0, 0);
    told.seats[2] = 1;
    check_told(&m, 1, 0);
    told.n_lost = 0;
    told.seats[2] = 2; /* the next process, of whose loss this rank has not heard */
    check_told(&m, 1, 0);
    members_drop(&m, 2);
    check_told(&m, 0, 1);
    told.seats[2] = 1; /* dropped by the keeper, but not yet given up by the coordinator */
    check_told(&m, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_lost_is_a_process_and_no_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
