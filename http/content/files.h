/* Files over HTTP: the dashboard's (beneath static_dir) and a job's artifacts and logs. All with
 * ETag, If-None-Match and one byte range. A name never leaves its folder: static paths have no part
 * that starts with a dot, and links in them must stay beneath the root; a job's files are opened
 * without following any link (folder.c).
 */
#ifndef HTTP_CONTENT_FILES_H
#define HTTP_CONTENT_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/err.h"

struct request;
struct reply;
struct digests;

struct byte_range {
    uint64_t first, count;
};
enum range {
    RANGE_ALL,          /* the header is absent or malformed, or has several ranges */
    RANGE_PART,         /* *out */
    RANGE_UNSATISFIABLE /* 416 */
};
/* A Range header against a file of `size` bytes. */
enum range files_range(const char *header, uint64_t size, struct byte_range *out);
/* No part begins with a dot, is empty or long, or has a control character, \ or " (safe.c). */
bool files_safe_path(const char *path); /* "/js/app.js" */
bool files_safe_name(const char *name); /* "model.safetensors" */

/* A plain file beneath `root`, links included: what resolves to somewhere else is not there. */
int files_static(struct request *q, const char *root, const char *path, struct reply *out,
                 struct err *e);
/* A plain file beneath a job's folder, "model.safetensors" or "plots/loss.png", which the caller
 * closes, and what fstat says of it. -1: none is there, or its path has a link or unsafe name. */
int files_open(const char *folder, const char *path, struct stat *st);
/* The same as an answer: as an attachment, or as text. */
int files_send(struct request *q, const char *folder, const char *path, bool attachment,
               struct reply *out, struct err *e);
/* [{"name", "bytes", "sha256"}] of what files_open() opens, by name, which is the path beneath
 * `folder`; at most 1,000 files. Empty if there is no such folder; NULL: memory ran out. */
json_t *files_list(struct digests *d, const char *folder, struct err *e);

struct digests *digests_new(void); /* NULL: memory ran out */
void digests_free(struct digests *d);
/* SHA-256 of a file in hexadecimal; remembered as long as size and time of the file stay. */
int digests_get(struct digests *d, const char *path, char out[65], struct err *e);

#endif
