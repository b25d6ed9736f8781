/* Documents of hosts and of the keeper before training: the offer of a data set, joining a cluster
 * (job/documents). */
#include "tests/unit/job/documents.h"

#include "job/documents/hosts/host_beat.h"
#include "job/documents/hosts/joining.h"
#include "job/documents/ranks/offer.h"

/* ---- the keeper's offer ---------------------------------------------------------------------- */

static int read_offer(const json_t *j, struct err *e)
{
    struct offer o;
    int rc = offer_read(&o, j, e);
    offer_release(&o);
    return rc;
}

static void an_offer_is_read_as_it_was_written(void **state)
{
    static const struct wrong wrongs[] = {
        {"key", NULL, "the keeper's offer of its data set is not valid: /key: is missing"},
        {"files/1/name", "''",
         "the keeper's offer of its data set is not valid: /files/1/name: must be a text of 1 to "
         "599 bytes"},
        {"files/0/bytes", "-1",
         "the keeper's offer of its data set is not valid: /files/0/bytes: must be a whole number, "
         "0 to 9223372036854775807"},
    };
    struct offer o = {.digest = "abcd", .key = "ef01"}, got;
    struct err e = {0};
    (void)state;
    assert_read(offer_add(&o, "a", 2, &e), &e);
    assert_read(offer_add(&o, "sub/c", 3, &e), &e);
    json_t *j = sent(offer_json(&o));
    assert_read(offer_read(&got, j, &e), &e);
    assert_true(got.bytes == 5 && got.n_files == 2 && got.files[1].bytes == 3);
    assert_string_equal(got.files[1].name, "sub/c");
    assert_same(offer_json(&got), json_incref(j));
    offer_release(&got);
    offer_release(&o);
    EACH_SAYS(j, wrongs, read_offer);
}

static void an_offer_may_say_why_there_is_none(void **state)
{
    struct offer o = {.error = "cannot read it"}, got;
    struct err e = {0};
    json_t *j = sent(offer_json(&o));
    (void)state;
    assert_read(offer_read(&got, j, &e), &e);
    assert_string_equal(got.error, "cannot read it");
    assert_true(!got.digest[0] && got.n_files == 0);
    offer_release(&got);
    json_decref(j);
}

/* ---- joining --------------------------------------------------------------------------------- */

static void joining_is_read_as_it_was_written(void **state)
{
    json_t *versions = json_pack("{s:s}", "evenstep", "1"), *nodes = json_pack("[s]", "n1");
    struct joining_ask ask = {.host = "h",
                              .instance = "i",
                              .address = "10.0.0.2",
                              .network = "10.0.0.0/24",
                              .versions = versions,
                              .nodes = nodes,
                              .faulty = true,
                              .message = "no device",
                              .hint = "give it one"},
                       asked, nothing;
    json_t *j = sent(joining_ask_json(&ask)), *none = json_object();
    (void)state;
    joining_ask_read(&asked, j);
    assert_string_equal(asked.network, "10.0.0.0/24");
    assert_string_equal(asked.hint, "give it one");
    assert_same(joining_ask_json(&asked), json_incref(j));
    joining_ask_read(&nothing, none); /* anybody may ask: missing fields are empty */
    assert_true(!nothing.host[0] && !nothing.nonce[0] && !nothing.nodes && !nothing.faulty);
    json_decref(none);
    json_decref(j);
    json_decref(versions);
    json_decref(nodes);
}

static void a_host_is_read_as_it_was_written(void **state)
{
    json_t *versions = json_pack("{s:s}", "evenstep", "1"), *nodes = json_pack("[s]", "n1"),
           *load = json_pack("{s:f}", "one", 0.5), *gpus = json_array(),
           *refused = json_pack("{s:i}", "forged", 2), *none = json_object();
    struct host_beat told = {.name = "h",
                             .instance = "i",
                             .address = "10.0.0.2",
                             .network = "10.0.0.0/24",
                             .versions = versions,
                             .nodes = nodes,
                             .load = load,
                             .gpus = gpus,
                             .refused = refused,
                             .daemons = 3},
                     got;
    json_t *j = sent(host_beat_json(&told));
    (void)state;
    host_beat_read(&got, j);
    assert_same(host_beat_json(&got), json_incref(j));
    assert_true(got.daemons == 3 && !got.lost && strcmp(got.address, "10.0.0.2") == 0);
    host_beat_aged(j, 4.5, true);
    host_beat_read(&got, j);
    assert_true(got.lost);
    host_beat_read(&got, none);
    assert_true(!got.name[0] && !got.instance[0] && !got.nodes && !got.load && !got.lost);
    json_decref(none);
    json_decref(j);
    json_decref(versions);
    json_decref(nodes);
    json_decref(load);
    json_decref(gpus);
    json_decref(refused);
}

static void an_answer_to_joining_is_a_key_or_a_reason(void **state)
{
    struct joining_answer yes = {.accepted = true, .coordinator = "c", .salt = "s", .key = "k"},
                          no = {.message = "another version", .hint = "install it"}, got;
    json_t *accepted = sent(joining_answer_json(&yes)), *refused = sent(joining_answer_json(&no));
    (void)state;
    joining_answer_read(&got, accepted);
    assert_true(got.accepted && strcmp(got.key, "k") == 0 && !got.message[0]);
    joining_answer_read(&got, refused);
    assert_true(!got.accepted && strcmp(got.hint, "install it") == 0 && !got.key[0]);
    json_decref(accepted);
    json_decref(refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_offer_is_read_as_it_was_written),
        cmocka_unit_test(an_offer_may_say_why_there_is_none),
        cmocka_unit_test(joining_is_read_as_it_was_written),
        cmocka_unit_test(a_host_is_read_as_it_was_written),
        cmocka_unit_test(an_answer_to_joining_is_a_key_or_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
