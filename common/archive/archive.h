/* A folder of a user, a program's or a data set's, as one file: a tar archive with a digest of what
 * is in it (common/archive/tar.h).
 *
 *   digest   SHA-256, in hex, over one line for each file in the order of names:
 *            SHA-256 of the file in hex, " x " if it is executable or " - ", its length, its name
 *
 * It does not depend on who packed the archive, in which order, when, or for which user. Folders
 * are those that the files need: an empty one is left out.
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
    int64_t bytes;  /* of all files */
    char *manifest; /* text of the file ARCHIVE_MANIFEST, or NULL: there is none; owned */
};

/* Reads an archive of at most `most` files and folders to its end, and unpacks it into the folder
 * `into`, which is empty and in which nobody else writes (NULL: only reads). Every entry that is
 * refused is a problem; with one, out has no digest. Release `out` in any case. Negative:
 * malformed, or a file cannot be written. */
int archive_read(FILE *from, const char *into, int most, struct archive *out,
                 struct jsonx_problems *problems, struct err *e);
/* The same for a program's archive that was read before: it must have this digest, and no problem.
 */
int archive_unpack(const char *path, const char *digest, const char *into, struct err *e);
void archive_release(struct archive *a);
/* 64 small hex digits? */
bool archive_is_digest(const char *text);

#endif
