/* A data set on its way to the service: a folder's files as a tar archive that is made while it is
 * sent, or an archive that is there already. Nothing but names and sizes is held in memory, and
 * the archive's length is known before its first byte.
 *
 *     folder   all plain files in the order of their names; what links lead to goes as what it is;
 *              names that begin with a dot stay here, as the formats do not look at them
 *     file     a tar archive, as it is
 */
#ifndef CLI_SERVICE_BUNDLE_H
#define CLI_SERVICE_BUNDLE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/text/buf.h"
#include "common/err.h"

struct bundle_file {
    char *path; /* relative to the folder; owned */
    int64_t bytes;
};

struct bundle {
    char from[PATH_MAX];
    bool folder;
    struct bundle_file *files; /* of a folder, sorted; owned */
    size_t n, room;
    int64_t bytes; /* of the archive */
    /* where the next byte comes from: what is left of `head`, then of the file, then zeros */
    size_t next; /* file */
    struct buf head;
    size_t head_read;
    int fd; /* -1: none is open */
    int64_t left, zeros;
};

/* b needs bundle_close either way. */
int bundle_open(struct bundle *b, const char *path, struct err *e);
/* Up to n bytes that follow; 0 at the end. Negative: a file cannot be read, or was changed. */
int64_t bundle_read(struct bundle *b, char *to, size_t n, struct err *e);
void bundle_close(struct bundle *b);

#endif
