/* Shared by the worker's unit tests: a temporary folder, files in it, and errors that are
 * printed. */
#ifndef TESTS_UNIT_WORKER_FIXTURE_H
#define TESTS_UNIT_WORKER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "common/err.h"
#include "common/process/proc.h"
#include "job/spec/spec.h"

static struct err err_;

#define OK(call)                                     \
    do {                                             \
        err_clear(&err_);                            \
        if ((call) < 0) {                            \
            fail_msg("%s: %s", #call, err_.message); \
        }                                            \
    } while (0)
/* The call fails with this code, and its message has this text. */
#define FAILS(call, error_code, text)                               \
    do {                                                            \
        err_clear(&err_);                                           \
        assert_true((call) < 0);                                    \
        assert_int_equal(err_.code, error_code);                    \
        if (!strstr(err_.message, text)) {                          \
            fail_msg("'%s' does not say '%s'", err_.message, text); \
        }                                                           \
    } while (0)

static inline char *make_folder(void)
{
    char *dir = strdup("/tmp/evenstep-test-XXXXXX");
    assert_non_null(dir);
    assert_non_null(mkdtemp(dir));
    return dir;
}

static inline void remove_folder(char *dir)
{
    assert_true(proc_remove_tree(dir, NULL) >= 0);
    free(dir);
}

static inline void put_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* The same, packed, as NAME.gz. */
static inline void put_packed(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.gz", dir, name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)n), n);
    gzclose(f);
}

/* A parsed spec; free with drop_spec. */
static inline struct jobspec *make_spec(const char *text)
{
    struct jobspec *spec = calloc(1, sizeof *spec);
    json_t *j = jsonx_parse(text, strlen(text), &err_);
    if (!j || jobspec_read(spec, j, &err_) < 0) {
        fail_msg("%s", err_.message);
    }
    json_decref(j);
    return spec;
}

static inline void drop_spec(struct jobspec *spec)
{
    jobspec_release(spec);
    free(spec);
}

#endif
