/* Tar archives, read strictly. An uploaded program consists of plain files and folders, so the
 * reader refuses everything else that the format knows. It reads ustar, pax (only the records
 * `path` and `size`), and GNU's long names, without compression.
 *
 *   an entry that is refused   a problem with the entry's name; reading goes on, so that the caller
 *                              hears of all of them at once
 *   a malformed archive        an error with the byte where reading ended
 *
 * Names are UTF-8 without unsafe characters (common/text/text.h), relative, without `.` and `..`,
 * shorter than TAR_NAME, with parts of at most NAME_MAX bytes. A leading "./" is left out.
 */
#ifndef COMMON_ARCHIVE_TAR_H
#define COMMON_ARCHIVE_TAR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json/jsonx.h"

enum { TAR_NAME = 512 };

struct tar_entry {
    const char *name; /* valid during the call */
    int64_t bytes;    /* of a file; 0 of a folder */
    bool folder, executable;
};

struct tar_sink { /* both return 0, or a negative code, with which reading ends */
    void *ctx;
    int (*entry)(void *ctx, const struct tar_entry *entry, struct err *e);
    /* The next bytes of the file that was told last. */
    int (*data)(void *ctx, const void *bytes, size_t n, struct err *e);
};

/* Reads to the end of the archive, which has at most `most` entries. Entries that are refused are
 * not told to the sink. 0 also where there are problems: the caller checks problems->count. */
int tar_read(FILE *from, int most, const struct tar_sink *sink, struct jsonx_problems *problems,
             struct err *e);

#endif
