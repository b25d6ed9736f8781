/* The safetensors format: the header's length in 8 bytes, little-endian; a JSON header {"name":
 * {"dtype", "shape", "data_offsets"}, "__metadata__": {text: text}}; then the tensors, float32
 * only. Files are written under a temporary name, synced, then renamed. metadata.checksum, a
 * SHA-256 over the whole file except its own digits, detects torn and altered files.
 */
#ifndef WORKER_CHECKPOINT_SAFETENSORS_H
#define WORKER_CHECKPOINT_SAFETENSORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { SAFETENSORS_RANK = 8, SAFETENSORS_NAME = 128 };

struct safetensor {
    char name[SAFETENSORS_NAME];
    int rank;
    int64_t dim[SAFETENSORS_RANK];
    size_t count; /* floats */
    /* borrowed when writing; within the file's mapping when reading, perhaps unaligned */
    const void *data;
};

struct safetensors { /* an open file; owns what its tensors point into */
    struct safetensor *tensors;
    int n;
    json_t *metadata; /* an object, perhaps empty */
    void *map;
    size_t map_bytes;
    size_t data_at;
};

/* metadata: an object of strings, without "checksum", which this function adds. */
int safetensors_write(const char *path, const struct safetensor *tensors, int n,
                      const json_t *metadata, struct err *e);
/* Removes the hidden files that a process left in this folder when it was killed while writing;
 * they would take room for ever. Nobody may be writing there. */
void safetensors_drop_torn(const char *dir);
/* Checks every length and offset, and the checksum if the file has one; with `verify` it must have
 * one. After a failure s needs no release. */
int safetensors_open(struct safetensors *s, const char *path, bool verify, struct err *e);
void safetensors_close(struct safetensors *s);
const struct safetensor *safetensors_find(const struct safetensors *s,
                                          const char *name); /* or NULL */
/* The metadata value at `key`, or NULL. */
const char *safetensors_meta(const struct safetensors *s, const char *key);

#endif
