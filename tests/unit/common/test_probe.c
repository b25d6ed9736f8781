/* The coordinator and the agent read what a worker's program reports about a device. A shell script
 * replaces the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/machine/probe.h"

static char program[64];

/* The program prints this, and ends with this code. */
static void program_says(const char *text, int code)
{
    snprintf(program, sizeof program, "/tmp/evenstep-probe-XXXXXX");
    int fd = mkstemp(program);
    assert_true(fd >= 0);
    dprintf(fd, "#!/bin/sh\ncat <<'END'\n%s\nEND\nexit %d\n", text, code);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
}

static int ask(struct probe *p, struct err *e)
{
    int rc = probe_device(p, program, "auto", e);
    unlink(program);
    return rc;
}

static void says(json_t *answer, const char *before)
{
    char *line = json_dumps(answer, JSON_COMPACT), text[1000];
    snprintf(text, sizeof text, "%s%s", before, line);
    program_says(text, 0);
    free(line);
    json_decref(answer);
}

static void a_device_is_read_as_it_was_written(void **state)
{
    struct probe told = {.device = "cuda:0",
                         .description = "a GPU",
                         .memory_bytes = 85000000000,
                         .threads = 3,
                         .precisions = json_pack("[s,s]", "fp32", "tf32"),
                         .why = "the faster one is busy"},
                 p;
    struct err e = {0};
    (void)state;
    says(probe_json(&told), "a driver greets\n");
    assert_int_equal(ask(&p, &e), 0);
    assert_string_equal(p.device, "cuda:0");
    assert_string_equal(p.description, "a GPU");
    assert_true(p.memory_bytes == 85000000000);
    assert_int_equal(p.threads, 3);
    assert_true(json_equal(p.precisions, told.precisions));
    assert_string_equal(p.why, "the faster one is busy");
    probe_release(&p);
    probe_release(&told);
}

static void what_an_older_program_does_not_say_is_empty(void **state)
{
    struct probe p;
    struct err e = {0};
    (void)state;
    program_says("{\"device\": \"cpu:2\"}", 0);
    assert_int_equal(ask(&p, &e), 0);
    assert_string_equal(p.device, "cpu:2");
    assert_string_equal(p.why, "");
    assert_null(p.precisions);
    probe_release(&p);
}

static void a_device_that_cannot_be_used_is_refused_in_the_programs_words(void **state)
{
    struct probe p;
    struct err e = {0};
    (void)state;
    says(probe_refusal("this machine has 1 GPU"), "");
    assert_int_equal(ask(&p, &e), -ERR_UNSUPPORTED);
    assert_string_equal(e.message, "this machine has 1 GPU");
}

static void a_program_that_fails_is_quoted(void **state)
{
    struct probe p;
    struct err e = {0};
    (void)state;
    program_says("no such driver\nand more", 1);
    assert_int_equal(ask(&p, &e), -ERR_UNSUPPORTED);
    assert_string_equal(e.message, "no such driver");
    program_says("", 0);
    e = (struct err){0};
    assert_int_equal(ask(&p, &e), -ERR_UNSUPPORTED);
    assert_string_equal(e.message, "the worker's program does not say what the device is");
}

static void a_program_that_is_not_there_is_an_error(void **state)
{
    struct probe p;
    struct err e = {0};
    (void)state;
    assert_true(probe_device(&p, "/nowhere/evenstep-worker", "cpu:1", &e) < 0);
    assert_true(e.message[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_read_as_it_was_written),
        cmocka_unit_test(what_an_older_program_does_not_say_is_empty),
        cmocka_unit_test(a_device_that_cannot_be_used_is_refused_in_the_programs_words),
        cmocka_unit_test(a_program_that_fails_is_quoted),
        cmocka_unit_test(a_program_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
