/* Uploaded data sets:
 *
 *   DIR/datasets/NAME/        its files, as they were in the archive (common/archive/archive.h)
 *   DIR/datasets/.NAME.json   {"digest", "files", "bytes", "uploaded", "by"}
 *   DIR/datasets/.part-XXXXXX what is being unpacked
 *
 * DIR/datasets is the last of the data roots, so that a job names an uploaded data set as any other
 * and nodes get it in the same way. A name that another root has is refused: it would never be
 * found. A data set is unpacked beside the others, tried by the worker's program, and gets its name
 * last: none is there by half, and none that a job could not read.
 */
#ifndef COORDINATOR_FILES_DATASETS_H
#define COORDINATOR_FILES_DATASETS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "common/json/jsonx.h"
#include "store/store.h"

#define DATASETS_FOLDER "datasets"

struct datasets {
    const char *data_dir, *roots; /* borrowed */
    int64_t most_bytes;           /* of all that are uploaded; 0: none is taken */
};

/* Shows the data set `name` beneath these roots, as http_hooks.dataset; NULL after an error. */
typedef json_t *datasets_show(void *ctx, const char *roots, const char *name, struct err *e);

/* Removes what a process that was killed left half done; before anything else is called. */
void datasets_init(const char *data_dir);

/* What somebody uploads; all of it is the caller's. */
struct dataset_upload {
    const char *name, *by;
    FILE *archive; /* read from where it is */
};

/* Keeps the upload. What `show` says of it with its facts, or NULL: an error, or problems. *fresh:
 * it was not there before. ERR_CONFLICT: another one has the name. */
json_t *datasets_add(const struct datasets *d, const struct dataset_upload *up, datasets_show *show,
                     void *ctx, bool *fresh, struct jsonx_problems *problems, struct err *e);
/* ERR_CONFLICT while a job that has not ended names it; ERR_NOT_FOUND: none was uploaded. */
int datasets_delete(const struct datasets *d, struct store *s, const char *name, struct err *e);
/* Bytes on disk of all uploaded data sets. */
int64_t datasets_bytes(const char *data_dir);
/* The same for callers that ask often: the data sets are counted again only if one was added or
 * deleted since *known was filled in. *known begins as {0}. A data set that is being unpacked may
 * be counted in part. */
struct datasets_known {
    struct timespec changed; /* their folder, when they were counted; 0: count again */
    int64_t bytes;
};
int64_t datasets_bytes_again(const char *data_dir, struct datasets_known *known);

#endif
