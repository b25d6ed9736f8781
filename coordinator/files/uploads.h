/* Uploaded programs, kept by the digest of what is in them (common/archive/archive.h):
 *
 *   DIR/uploads/DIGEST.json   who uploaded it and when, how large it is, its manifest
 *   DIR/uploads/DIGEST.tar    as it came; once this is there, all of it is
 *
 * They lie beside DIR/programs, which is the operator's, so that no upload takes a name that the
 * operator gave. The archive is kept and not its folder: each rank unpacks a copy of its own
 * (worker/program/files/copy.h), a program that writes into its folder changes no other run, and
 * what runs is what the digest says. The time of an archive is when it was used last.
 */
#ifndef COORDINATOR_FILES_UPLOADS_H
#define COORDINATOR_FILES_UPLOADS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/json/jsonx.h"
#include "store/store.h"

/* Removes what a process that was killed left half done; before anything else is called. */
void uploads_init(const char *data_dir);
/* Reads, checks and keeps an archive: its facts as uploads_get gives them, or NULL: an error, or
 * problems. *fresh: it was not there before. */
json_t *uploads_add(const char *data_dir, FILE *archive, const char *who, bool *fresh,
                    struct jsonx_problems *problems, struct err *e);
/* The manifest in the facts of an upload; JSON null where it has none. Borrowed. */
json_t *uploads_manifest(const json_t *facts);
/* {"digest", "files", "bytes", "uploaded", "used", "by", "manifest": {…} or null}: a new reference;
 * NULL with ERR_NOT_FOUND. */
json_t *uploads_get(const char *data_dir, const char *digest, struct err *e);
/* All of them, the one used last first. */
json_t *uploads_list(const char *data_dir, struct err *e);
/* Where its archive lies; it counts as used now. */
void uploads_use(const char *data_dir, const char *digest, char path[PATH_MAX]);
/* ERR_CONFLICT while a job that has not ended names it. */
int uploads_delete(const char *data_dir, struct store *s, const char *digest, struct err *e);

int64_t uploads_bytes(const char *data_dir);
/* Deletes programs that no job needs, nor used within the last hour, the one unused for longest
 * first, until `wanted` bytes are free. The bytes that are, or negative: the store is away. */
int64_t uploads_make_room(const char *data_dir, struct store *s, int64_t wanted, struct err *e);

#endif
