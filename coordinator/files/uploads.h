/* Uploaded programs, kept by the digest of what is in them (common/archive/archive.h):
 *
 *   DIR/uploads/DIGEST.json   who uploaded it and when, how large it is, its manifest
 *   DIR/uploads/DIGEST.tar    as it came; once this is there, all of it is
 *
 * They are not in DIR/programs, which is the operator's, so no upload can take a name that the
 * operator gave. The archive is kept, not the unpacked folder. Each rank unpacks a copy of its own
 * (worker/program/files/copy.h), so a program that writes into its folder changes no other run, and
 * the digest names what runs. An archive's file time is its last use.
 */
#ifndef COORDINATOR_FILES_UPLOADS_H
#define COORDINATOR_FILES_UPLOADS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/json/jsonx.h"
#include "store/store.h"

/* Removes what a killed process left half done. Call it before anything else. */
void uploads_init(const char *data_dir);
/* Reads, checks and keeps an archive. Returns its facts as uploads_get() does; NULL: an error, or
 * problems. *fresh: it was not there before. */
json_t *uploads_add(const char *data_dir, FILE *archive, const char *who, bool *fresh,
                    struct jsonx_problems *problems, struct err *e);
/* The manifest in the facts of an upload; JSON null where it has none. Borrowed. */
json_t *uploads_manifest(const json_t *facts);
/* {"digest", "files", "bytes", "uploaded", "used", "by", "manifest": {…} or null}: a new reference;
 * NULL with ERR_NOT_FOUND. */
json_t *uploads_get(const char *data_dir, const char *digest, struct err *e);
/* All uploads, the one used last first. */
json_t *uploads_list(const char *data_dir, struct err *e);
/* The path of its archive, which counts as used now. */
void uploads_use(const char *data_dir, const char *digest, char path[PATH_MAX]);
/* ERR_CONFLICT while a job that has not ended names it. */
int uploads_delete(const char *data_dir, struct store *s, const char *digest, struct err *e);

int64_t uploads_bytes(const char *data_dir);
/* Deletes programs until `wanted` bytes are freed. It takes only programs that no job needs and
 * that were not used within the last hour, the longest unused first. Returns the bytes freed, or
 * negative: the store is away. */
int64_t uploads_make_room(const char *data_dir, struct store *s, int64_t wanted, struct err *e);

#endif
