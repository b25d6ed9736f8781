/* The document of an evaluated model (job/documents/results/scored.c): which samples are the worst,
 * and that it is read as written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/documents/results/scored.h"

static void the_greatest_losses_are_kept_in_their_order(void **state)
{
    (void)state;
    struct scored s = {0};
    for (int i = 0; i < 40; i++) {
        scored_add_worst(&s, i, 0, 1, i * 7 % 40); /* each loss once */
    }
    assert_int_equal(s.n_worst, SCORED_WORST);
    for (int i = 0; i < SCORED_WORST; i++) {
        assert_true(s.worst[i].loss == 39 - i && s.worst[i].sample * 7 % 40 == 39 - i);
    }
    scored_add_worst(&s, 99, 0, 1, 39); /* of equal ones the first stays before it */
    assert_true(s.worst[0].sample != 99 && s.worst[1].sample == 99 && s.worst[2].loss == 38);
    scored_add_worst(&s, 100, 0, 1, 1);
    assert_true(s.n_worst == SCORED_WORST && s.worst[SCORED_WORST - 1].sample != 100);
}

static void what_was_written_is_read_again(void **state)
{
    (void)state;
    int64_t counts[4] = {5, 2, 1, 8};
    struct scored s = {.model = "m",
                       .format = "images",
                       .path = "p",
                       .part = "test",
                       .digest = "d",
                       .device = "cpu",
                       .parameters = 7,
                       .samples = 16,
                       .loss = 0.5,
                       .classes = 2,
                       .confusion = counts};
    struct scored again;
    struct err e = {0};
    scored_add_worst(&s, 3, 1, 0, 2.5);
    s.worst[0].picture = json_pack("{s:i}", "height", 4);
    json_t *j = scored_json(&s);
    assert_int_equal(scored_read(&again, j, &e), 0);
    assert_memory_equal(again.confusion, counts, sizeof counts);
    assert_true(again.classes == 2 && again.n_worst == 1 && again.worst[0].sample == 3);
    assert_true(again.worst[0].label == 1 && again.worst[0].answer == 0);
    assert_true(again.worst[0].loss == 2.5);
    assert_true(json_equal(again.worst[0].picture, s.worst[0].picture));
    json_decref(s.worst[0].picture);
    scored_release(&again);
    json_decref(j);
}

static void a_refusal_says_why_and_of_what_kind_it_is(void **state)
{
    (void)state;
    struct err why = {0}, e = {0};
    err_set(&why, ERR_DATA, "the file is torn");
    err_hint(&why, "fetch it again");
    json_t *torn = scored_refusal(&why), *answer = json_pack("{s:i}", "samples", 3);
    assert_true(scored_is_refusal(torn, ERR_NOT_FOUND, &e));
    assert_true(e.code == ERR_DATA && strcmp(e.message, why.message) == 0);
    assert_string_equal(e.hint, why.hint);
    err_set(&why, ERR_IO, "the disk is gone");
    json_t *gone = scored_refusal(&why);
    assert_true(scored_is_refusal(gone, ERR_NOT_FOUND, &e) && e.code == ERR_NOT_FOUND);
    assert_false(scored_is_refusal(answer, ERR_NOT_FOUND, &e));
    json_decref(torn);
    json_decref(gone);
    json_decref(answer);
}

/* The answer quotes a path from the request, which may be cut within a character. */
static void a_refusal_with_bytes_that_are_no_text_says_why_all_the_same(void **state)
{
    static const char *const quoted[] = {"\xc0\xaf", "\xc3", "a\xff\xfe"};
    (void)state;
    for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
        struct err why = {0}, e = {0};
        err_set(&why, ERR_NOT_FOUND, "there is no data set '%s'", quoted[i]);
        err_hint(&why, "%s", quoted[i]);
        json_t *j = scored_refusal(&why);
        assert_true(scored_is_refusal(j, ERR_NOT_FOUND, &e) && e.code == ERR_NOT_FOUND);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_greatest_losses_are_kept_in_their_order),
        cmocka_unit_test(what_was_written_is_read_again),
        cmocka_unit_test(a_refusal_says_why_and_of_what_kind_it_is),
        cmocka_unit_test(a_refusal_with_bytes_that_are_no_text_says_why_all_the_same),
    };
    return cmocka_run_group_tests_name("scored", tests, NULL, NULL);
}
