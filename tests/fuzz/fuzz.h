/* What the fuzz targets share. Each is one file with LLVMFuzzerTestOneInput (libFuzzer, with ASan
 * and UBSan): it hands the bytes to one parser of ours the way the program does, and what comes of
 * it is used as the program uses it. What is checked is that nothing is read or written outside,
 * nothing undefined is done, nothing leaks or runs away; and that an error always has a message.
 *
 * Parsers of files read files, so an input is written to memory-backed files first. An input that
 * stands for several files (images and labels) begins each with its length in two bytes,
 * little-endian; `seeds` writes the same form.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/json/jsonx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next part of an input: its length stands before it; the last one may be shorter than it says.
 */
static inline const uint8_t *fuzz_part(const uint8_t **data, size_t *left, size_t *size)
{
    size_t n = *left >= 2 ? (size_t)(*data)[0] | (size_t)(*data)[1] << 8 : 0,
           skip = *left >= 2 ? 2 : *left;
    const uint8_t *part = *data + skip;
    *left -= skip;
    *size = n < *left ? n : *left;
    *data = part + *size;
    *left -= *size;
    return part;
}

/* Reads every byte, so that ASan sees whether it is there. */
static inline void fuzz_read(const void *bytes, size_t n)
{
    const volatile uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) {
        (void)p[i];
    }
}

/* A folder of this process alone: in TMPDIR, else in memory. Whoever starts a target removes it. */
static inline const char *fuzz_folder(void)
{
    static char dir[64];
    if (!dir[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(dir, sizeof dir, "%s/evenstep-fuzz-XXXXXX",
                 tmp && strlen(tmp) < 40 ? tmp : "/dev/shm");
        if (!mkdtemp(dir)) {
            perror(dir);
            abort();
        }
    }
    return dir;
}

static inline void fuzz_file(const char *name, const void *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) {
        perror(path);
        abort();
    }
    close(fd);
}

/* An error says so: a code, and a sentence. */
static inline void fuzz_error(int rc, const struct err *e)
{
    BUG_ON(rc < 0 && (!e->code || !e->message[0]));
}

/* The input as JSON; NULL where it is none, which has an error as well. */
static inline json_t *fuzz_json(const uint8_t *data, size_t size)
{
    struct err e = {0};
    json_t *j = jsonx_parse((const char *)data, size, &e);
    fuzz_error(j ? 0 : -1, &e);
    return j;
}

#endif
