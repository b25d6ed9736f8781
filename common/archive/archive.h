/* A user's folder, with a program or a data set in it, as one file: a tar archive and a digest of
 * its contents (common/archive/tar.h).
 *
 *   digest   SHA-256, in hex, over one line for each file in the order of names:
 *            SHA-256 of the file in hex, " x " if it is executable or " - ", its length, its name
 *
 * The digest does not depend on who packed the archive, in which order, when, or for which user.
 * The archive has no empty folders.
 */
#ifndef COMMON_ARCHIVE_ARCHIVE_H
#define COMMON_ARCHIVE_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json/jsonx.h"

enum {
    ARCHIVE_HEX = 65,
    ARCHIVE_MANIFEST_BYTES = 256 << 10,
    ARCHIVE_PROGRAM_FILES = 10000,
    ARCHIVE_DATA_FILES = 500000, /* pictures of 2 kB fill the largest upload */
};
#define ARCHIVE_MANIFEST "evenstep.json"

struct archive {
    char digest[ARCHIVE_HEX];
    int files;
    int64_t bytes;  /* of all files together */
    char *manifest; /* text of ARCHIVE_MANIFEST, owned; NULL: there is no such file */
};

/* Reads an archive of at most `most` entries, whose files lie in at most as many folders, to its
 * end, and unpacks it into the folder `into` (NULL: only reads). `into` must be empty, and nobody
 * else may write there. Every refused entry is a problem; `out` has no digest if there is one.
 * Release `out` in any case. Negative: the archive is malformed, or a file cannot be written. */
int archive_read(FILE *from, const char *into, int most, struct archive *out,
                 struct jsonx_problems *problems, struct err *e);
/* Unpacks a program's archive that was read before. It must have this digest and no problem. */
int archive_unpack(const char *path, const char *digest, const char *into, struct err *e);
void archive_release(struct archive *a);
/* Is `text` 64 lower-case hexadecimal digits? */
bool archive_is_digest(const char *text);

#endif
