/* Facts that a turn could not process are read again (coordinator/monitor/feed.h). They count then,
 * and those before them still count once. */
#include "tests/unit/coordinator/world.h"

#include "coordinator/monitor/feed.h"

static struct fact fact_of(int64_t number)
{
    return (struct fact){.from = {.attempt = 1, .rank = 0}, .number = number};
}

static void facts_that_are_read_again_count_again(void **state)
{
    static const char *const names[] = {"n1"};
    struct world *w = *state;
    const struct feed_config config = {.store = w->store,
                                       .job = "00000000000000f1",
                                       .job_dir = w->place->dir,
                                       .workers = 1,
                                       .ranks = 2,
                                       .attempt = 1,
                                       .names = names};
    const struct fact first = fact_of(7), second = fact_of(8);
    struct feed f;
    char before[STORE_PLACE];
    OK(feed_open(&f, &config, &err_));
    feed_begin_facts(&f, before);
    assert_true(feed_is_new(&f, &first));
    feed_begin_facts(&f, before);
    assert_true(feed_is_new(&f, &second));
    assert_false(feed_is_new(&f, &second));
    feed_again(&f, before);
    assert_false(feed_is_new(&f, &first));
    assert_true(feed_is_new(&f, &second));
    feed_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(facts_that_are_read_again_count_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
