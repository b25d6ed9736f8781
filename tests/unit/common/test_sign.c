/* Signed messages (common/sign.c): sums that another program has computed (Python's hmac), every
 * refusal with its code, and that no single changed byte passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/process/proc.h"
#include "common/sign.h"

enum { NOW = 1767323045 };
static const int64_t now_ms = (int64_t)NOW * 1000;
static struct err e;

/* The bytes 0 to 31. */
static struct sign_key counted(void)
{
    struct sign_key key;
    for (int i = 0; i < SIGN_KEY; i++) {
        key.bytes[i] = (unsigned char)i;
    }
    return key;
}

static void assert_key(const struct sign_key *key, const char *expected)
{
    char hex[SIGN_HEX];
    sign_hex(key, hex);
    assert_string_equal(hex, expected);
}

static void assert_refused(json_t *body, enum err_code code, const char *part)
{
    assert_null(body);
    assert_int_equal(e.code, code);
    if (!strstr(e.message, part)) {
        fail_msg("'%s' is not in '%s'", part, e.message);
    }
    err_clear(&e);
}

static char *sealed(const struct sign_key *key)
{
    json_t *body = json_pack("{s:i}", "a", 1);
    char *text = sign_seal(key, "launch", body, &e);
    assert_non_null(text);
    json_decref(body);
    return text;
}

/* Python: hmac(hmac(key, b"rows\0"), bytes(range(5))) */
static void bytes_are_sealed_as_another_program_does_it(void **state)
{
    static const unsigned char bytes[] = {0, 1, 2, 3, 4};
    struct sign_key key = counted(), rows, beat, sum, other;
    (void)state;
    sign_derive(&key, "rows", "", &rows);
    sign_bytes(&rows, bytes, sizeof bytes, &sum);
    assert_key(&sum, "470e4fa0ea486dca47f62161afaf7398166a0665a95b3cafdec82412e51bbc4a");
    for (size_t i = 0; i < SIGN_KEY; i++) { /* no single byte may differ */
        other = sum;
        assert_true(sign_same(&other, &sum));
        other.bytes[i] ^= 1;
        assert_false(sign_same(&other, &sum));
    }
    sign_derive(&key, "beat", "", &beat);
    sign_bytes(&beat, bytes, sizeof bytes, &other);
    assert_false(sign_same(&other, &sum));
    sign_bytes(&rows, bytes, sizeof bytes - 1, &other);
    assert_false(sign_same(&other, &sum));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void keys_are_those_that_another_program_computes(void **state)
{
    struct sign_key secret, key;
    (void)state;
    sign_secret("only-for-this-test", &secret);
    assert_key(&secret, "014e5fb10cff4559275f79c2cf496c86fcc73babe4498eae8ea8cb32d6c05511");
    sign_derive(&secret, "join", "", &key);
    assert_key(&key, "6351a8ea7c367e7eb1fe0ff73abb470602e4e34df0249c04226d03b90680c0b8");
    sign_derive(&secret, "welcome", "ab", &key);
    assert_key(&key, "24c12c6cf982c45881d00cadf19dd22fcf783fe598ab68abe95504d56cbaf2a5");
}

/* The byte between them belongs to neither: "a" + "bc" is not "ab" + "c". */
static void label_and_data_do_not_run_into_each_other(void **state)
{
    struct sign_key secret = counted(), one, other;
    (void)state;
    sign_derive(&secret, "a", "bc", &one);
    sign_derive(&secret, "ab", "c", &other);
    assert_memory_not_equal(&one, &other, sizeof one);
}

static void random_keys_differ(void **state)
{
    struct sign_key a, b, none = {{0}};
    (void)state;
    assert_int_equal(sign_random(&a, &e), 0);
    assert_int_equal(sign_random(&b, &e), 0);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(a.bytes + SIGN_KEY - 8, none.bytes, 8);
}

static void hex_is_64_small_digits_and_nothing_else(void **state)
{
    static const char good[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    struct sign_key key, expected = counted();
    char text[SIGN_HEX + 1];
    (void)state;
    assert_int_equal(sign_unhex(good, &key, &e), 0);
    assert_memory_equal(&key, &expected, sizeof key);
    assert_key(&key, good);
    for (int i = 0; i < SIGN_HEX - 1; i++) {
        static const char wrong[] = {'g', 'A', ' ', '/', ':', '`', '\0'};
        for (size_t w = 0; w < sizeof wrong; w++) {
            snprintf(text, sizeof text, "%s", good);
            text[i] = wrong[w];
            assert_int_equal(sign_unhex(text, &key, &e), -ERR_SYNTAX);
        }
    }
    snprintf(text, sizeof text, "%s0", good);
    assert_int_equal(sign_unhex(text, &key, &e), -ERR_SYNTAX);
    err_clear(&e);
}

/* ---- the secret's file ----------------------------------------------------------------------- */

static char dir[64], path[100];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/secret", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return proc_remove_tree(dir, NULL);
}

static void write_secret(const char *text)
{
    assert_int_equal(proc_write_file(path, text, strlen(text), 0600, &e), 0);
}

static void a_secret_is_the_first_line_of_its_file(void **state)
{
    struct sign_key from_file, from_text;
    (void)state;
    write_secret("only-for-this-test\r\nmore\n");
    assert_int_equal(sign_read_secret(path, false, &from_file, &e), 0);
    sign_secret("only-for-this-test", &from_text);
    assert_memory_equal(&from_file, &from_text, sizeof from_text);
}

static void a_secret_has_at_least_16_characters(void **state)
{
    struct sign_key key;
    (void)state;
    write_secret("0123456789abcde\n");
    assert_int_equal(sign_read_secret(path, true, &key, &e), -ERR_INVALID);
    assert_non_null(strstr(e.message, "less than 16 characters"));
    write_secret("0123456789abcdef\n");
    assert_int_equal(sign_read_secret(path, true, &key, &e), 0);
    err_clear(&e);
}

static void a_secret_that_is_not_there_is_made_only_where_that_is_asked_for(void **state)
{
    struct sign_key made, again;
    struct stat st;
    (void)state;
    assert_int_equal(sign_read_secret(path, false, &made, &e), -ERR_NOT_FOUND);
    assert_non_null(strstr(e.message, "cannot read the cluster's secret"));
    assert_int_equal(access(path, F_OK), -1);
    err_clear(&e);
    assert_int_equal(sign_read_secret(path, true, &made, &e), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, SIGN_HEX); /* 64 digits and a newline */
    assert_int_equal(sign_read_secret(path, true, &again, &e), 0);
    assert_memory_equal(&made, &again, sizeof made);
}

static void a_secret_that_cannot_be_made_is_an_error(void **state)
{
    struct sign_key key;
    (void)state;
    snprintf(path, sizeof path, "%s/nowhere/secret", dir);
    assert_int_equal(sign_read_secret(path, true, &key, &e), -ERR_IO);
    assert_non_null(strstr(e.message, "/nowhere/secret"));
    err_clear(&e);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void a_sealed_message_is_the_sum_of_its_text_and_the_text(void **state)
{
    struct sign_key key = counted();
    char *text = sealed(&key);
    (void)state;
    assert_string_equal(text,
                        "74e86dfc1ae99965d861aba0cb26b9da944e509f0d5a031e80d9c90b220cf507\n"
                        "{\"a\":1,\"kind\":\"launch\"}");
    json_t *body = sign_open(&key, "launch", text, &e);
    assert_int_equal(json_integer_value(json_object_get(body, "a")), 1);
    json_decref(body);
    free(text);
}

static void no_changed_byte_passes(void **state)
{
    struct sign_key key = counted();
    char *text = sealed(&key);
    (void)state;
    for (size_t i = 0; text[i]; i++) {
        text[i] ^= 1;
        enum err_code code = i == SIGN_HEX - 1 ? ERR_SYNTAX : ERR_FORBIDDEN;
        assert_refused(sign_open(&key, "launch", text, &e), code, "a message is");
        text[i] ^= 1;
    }
    free(text);
}

static void another_key_or_another_kind_does_not_open_it(void **state)
{
    struct sign_key key = counted(), other = key;
    char *text = sealed(&key);
    (void)state;
    other.bytes[SIGN_KEY - 1] ^= 1;
    assert_refused(sign_open(&other, "launch", text, &e), ERR_FORBIDDEN, "not signed");
    assert_refused(sign_open(&key, "welcome", text, &e), ERR_FORBIDDEN,
                   "of the kind 'launch', not 'welcome'");
    free(text);
}

/* A correctly signed message with this text. */
static const char *signed_text(const struct sign_key *key, const char *text)
{
    static char out[300];
    struct sign_key sum;
    unsigned n = 0;
    assert_non_null(HMAC(EVP_sha256(), key->bytes, SIGN_KEY, (const unsigned char *)text,
                         strlen(text), sum.bytes, &n));
    sign_hex(&sum, out);
    snprintf(out + SIGN_HEX - 1, sizeof out - SIGN_HEX, "\n%s", text);
    return out;
}

static void what_is_signed_but_no_message_is_refused(void **state)
{
    struct sign_key key = counted();
    (void)state;
    assert_refused(sign_open(&key, "launch", signed_text(&key, "{\"a\": 1}"), &e), ERR_FORBIDDEN,
                   "of the kind '', not 'launch'");
    assert_refused(sign_open(&key, "launch", signed_text(&key, "{\"kind\": 7}"), &e), ERR_FORBIDDEN,
                   "of the kind ''");
    assert_refused(sign_open(&key, "launch", signed_text(&key, "[1]"), &e), ERR_FORBIDDEN,
                   "of the kind ''");
    assert_refused(sign_open(&key, "launch", signed_text(&key, "{\"kind\": "), &e), ERR_SYNTAX, "");
}

static void what_is_too_short_or_too_long_is_no_message(void **state)
{
    enum { MOST = 1 << 20 };
    struct sign_key key = counted();
    char *text = sealed(&key), *large = malloc(MOST + 2);
    (void)state;
    text[SIGN_HEX] = 0; /* a sum and a newline of nothing */
    assert_refused(sign_open(&key, "launch", text, &e), ERR_SYNTAX, "malformed");
    assert_null(sign_peek(text));
    text[10] = 0;
    assert_refused(sign_open(&key, "launch", text, &e), ERR_SYNTAX, "malformed");
    assert_null(sign_peek(text));
    assert_refused(sign_open(&key, "launch", "", &e), ERR_SYNTAX, "malformed");
    memset(large, ' ', MOST + 1);
    large[SIGN_HEX - 1] = '\n';
    large[SIGN_HEX] = '{', large[MOST - 1] = '}'; /* as large as may be, and JSON */
    large[MOST] = 0;
    assert_refused(sign_open(&key, "launch", large, &e), ERR_FORBIDDEN, "not signed");
    json_t *said = sign_peek(large);
    assert_true(json_is_object(said));
    json_decref(said);
    large[MOST] = ' ', large[MOST + 1] = 0;
    assert_refused(sign_open(&key, "launch", large, &e), ERR_SYNTAX, "malformed");
    assert_null(sign_peek(large));
    free(large);
    free(text);
}

static void a_peek_asks_for_no_key(void **state)
{
    struct sign_key key = counted();
    char *text = sealed(&key);
    (void)state;
    text[0] ^= 1;
    json_t *said = sign_peek(text);
    assert_string_equal(json_string_value(json_object_get(said, "kind")), "launch");
    json_decref(said);
    text[SIGN_HEX - 1] = ' ';
    assert_null(sign_peek(text));
    free(text);
}

/* ---- fresh, and once ------------------------------------------------------------------------- */

/* A message with this time, whose nonce is that digit 64 times. */
static int fresh(struct sign_seen *seen, char digit, int64_t at, int64_t now)
{
    char nonce[SIGN_HEX];
    memset(nonce, digit, SIGN_HEX - 1);
    nonce[SIGN_HEX - 1] = 0;
    json_t *body = json_pack("{s:s, s:I}", "nonce", nonce, "at", (json_int_t)at);
    err_clear(&e);
    int rc = sign_fresh(seen, body, now, &e);
    json_decref(body);
    return rc;
}

static void a_message_is_taken_once(void **state)
{
    struct sign_seen seen = {0};
    (void)state;
    assert_int_equal(fresh(&seen, 'a', now_ms, now_ms), 0);
    assert_int_equal(fresh(&seen, 'b', now_ms, now_ms), 0);
    assert_int_equal(fresh(&seen, 'a', now_ms, now_ms), -ERR_CONFLICT);
    assert_int_equal(fresh(&seen, 'a', now_ms, now_ms + SIGN_WINDOW_MS), -ERR_CONFLICT);
    assert_int_equal(fresh(&seen, 'b', now_ms, now_ms), -ERR_CONFLICT);
    sign_seen_release(&seen);
    assert_int_equal(fresh(&seen, 'a', now_ms, now_ms), 0); /* nothing is remembered any more */
    sign_seen_release(&seen);
}

static void a_message_is_at_most_a_minute_old_and_a_clock_at_most_a_minute_ahead(void **state)
{
    struct sign_seen seen = {0};
    (void)state;
    assert_int_equal(fresh(&seen, 'a', now_ms - SIGN_WINDOW_MS, now_ms), 0);
    assert_int_equal(fresh(&seen, 'b', now_ms + SIGN_WINDOW_MS, now_ms), 0);
    assert_int_equal(fresh(&seen, 'c', now_ms - SIGN_WINDOW_MS - 1, now_ms), -ERR_TIMEOUT);
    assert_non_null(strstr(e.message, "60 s ago by the sender's clock"));
    assert_non_null(strstr(e.hint, "NTP"));
    assert_int_equal(fresh(&seen, 'c', now_ms + SIGN_WINDOW_MS + 1, now_ms), -ERR_TIMEOUT);
    assert_non_null(strstr(e.message, "60 s in the future"));
    assert_int_equal(fresh(&seen, 'c', now_ms - 312000, now_ms), -ERR_TIMEOUT);
    assert_non_null(strstr(e.message, "312 s ago"));
    sign_seen_release(&seen);
}

/* A message from the future is remembered until its own minute is over, not until ours is. */
static void what_is_forgotten_is_too_old_by_then(void **state)
{
    struct sign_seen seen = {0};
    int64_t ahead = now_ms + SIGN_WINDOW_MS;
    (void)state;
    assert_int_equal(fresh(&seen, 'a', ahead, now_ms), 0);
    assert_int_equal(fresh(&seen, 'a', ahead, ahead + SIGN_WINDOW_MS), -ERR_CONFLICT);
    assert_int_equal(fresh(&seen, 'a', ahead, ahead + SIGN_WINDOW_MS + 1), -ERR_TIMEOUT);
    assert_int_equal(fresh(&seen, 'b', ahead + SIGN_WINDOW_MS, ahead + SIGN_WINDOW_MS + 2), 0);
    assert_int_equal(seen.count, 1);
    sign_seen_release(&seen);
}

static void what_an_earlier_process_may_have_seen_is_refused(void **state)
{
    struct sign_seen seen = {.not_before = now_ms};
    (void)state;
    assert_int_equal(fresh(&seen, 'a', now_ms - 1, now_ms), -ERR_TIMEOUT);
    assert_non_null(strstr(e.message, "before this process started"));
    assert_int_equal(fresh(&seen, 'a', now_ms, now_ms), 0);
    sign_seen_release(&seen);
}

static void a_message_without_a_nonce_is_refused(void **state)
{
    struct sign_seen seen = {0};
    json_t *none = json_pack("{s:I}", "at", (json_int_t)now_ms),
           *number = json_pack("{s:i, s:I}", "nonce", 7, "at", (json_int_t)now_ms),
           *text = json_pack("{s:s, s:I}", "nonce", "0123", "at", (json_int_t)now_ms);
    (void)state;
    assert_int_equal(sign_fresh(&seen, none, now_ms, &e), -ERR_SYNTAX);
    assert_int_equal(sign_fresh(&seen, number, now_ms, &e), -ERR_SYNTAX);
    assert_int_equal(sign_fresh(&seen, text, now_ms, &e), -ERR_SYNTAX);
    json_decref(none);
    json_decref(number);
    json_decref(text);
    assert_int_equal(seen.count, 0);
    err_clear(&e);
}

static void a_stamp_is_a_new_nonce_and_the_time(void **state)
{
    struct sign_seen seen = {0};
    char nonce[SIGN_HEX], other[SIGN_HEX];
    json_t *body = json_object();
    (void)state;
    assert_int_equal(sign_stamp(body, now_ms, nonce, &e), 0);
    assert_string_equal(json_string_value(json_object_get(body, "nonce")), nonce);
    assert_int_equal(json_integer_value(json_object_get(body, "at")), now_ms);
    assert_int_equal(sign_fresh(&seen, body, now_ms, &e), 0);
    assert_int_equal(sign_stamp(body, now_ms, other, &e), 0);
    assert_string_not_equal(nonce, other);
    assert_int_equal(sign_fresh(&seen, body, now_ms, &e), 0);
    json_decref(body);
    sign_seen_release(&seen);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_sealed_as_another_program_does_it),
        cmocka_unit_test(keys_are_those_that_another_program_computes),
        cmocka_unit_test(label_and_data_do_not_run_into_each_other),
        cmocka_unit_test(random_keys_differ),
        cmocka_unit_test(hex_is_64_small_digits_and_nothing_else),
        IN_A_FOLDER(a_secret_is_the_first_line_of_its_file),
        IN_A_FOLDER(a_secret_has_at_least_16_characters),
        IN_A_FOLDER(a_secret_that_is_not_there_is_made_only_where_that_is_asked_for),
        IN_A_FOLDER(a_secret_that_cannot_be_made_is_an_error),
        cmocka_unit_test(a_sealed_message_is_the_sum_of_its_text_and_the_text),
        cmocka_unit_test(no_changed_byte_passes),
        cmocka_unit_test(another_key_or_another_kind_does_not_open_it),
        cmocka_unit_test(what_is_signed_but_no_message_is_refused),
        cmocka_unit_test(what_is_too_short_or_too_long_is_no_message),
        cmocka_unit_test(a_peek_asks_for_no_key),
        cmocka_unit_test(a_message_is_taken_once),
        cmocka_unit_test(a_message_is_at_most_a_minute_old_and_a_clock_at_most_a_minute_ahead),
        cmocka_unit_test(what_is_forgotten_is_too_old_by_then),
        cmocka_unit_test(what_an_earlier_process_may_have_seen_is_refused),
        cmocka_unit_test(a_message_without_a_nonce_is_refused),
        cmocka_unit_test(a_stamp_is_a_new_nonce_and_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
