/* The pictures of a part of a data set, decoded on demand by several threads: for data sets whose
 * decoded samples do not fit into the host's cache. */
#ifndef WORKER_DATA_IMAGES_PICTURES_H
#define WORKER_DATA_IMAGES_PICTURES_H

#include "worker/data/images/folders.h"
#include "worker/data/images/image.h"

/* The pictures of a data set and the threads that decode them, shared by its parts. */
struct album;
/* Takes `folders` over, also after an error (NULL). Copies `roots`; no file outside them is
 * opened. */
struct album *album_new(struct folders *folders, const char *roots, struct err *e);
/* Sets the form of its pictures, before any is visited. Until album_staff(), only the calling
 * thread decodes. */
int album_form(struct album *a, const struct image_form *form, struct err *e);
/* Sets how many threads decode, including the caller. Not during a visit. */
void album_staff(struct album *a, int threads);
/* Borrowed. */
const struct folders *album_folders(const struct album *a);
void album_close(struct album *a); /* freed once no part uses it; NULL is allowed */

/* The file's bytes, which the caller frees; NULL after an error. Fails if the file has changed
 * since the first call. */
uint8_t *album_file(struct album *a, int64_t picture, size_t *n, struct err *e);

/* SHA-256 over names and bytes of all its files, in hex. */
int album_digest(struct album *a, char out[65], struct err *e);

/* Pictures order[0..n) of an album, or first … first+n if `order` is NULL. Takes `order` over.
 * NULL: memory ran out. */
struct pictures *pictures_new(struct album *a, int64_t *order, int64_t first, int64_t n);
/* The pictures at these positions of p. */
struct pictures *pictures_pick(const struct pictures *p, const int64_t *order, int64_t n);
void pictures_free(struct pictures *p);                 /* NULL is allowed */
struct album *pictures_album(const struct pictures *p); /* borrowed */
/* As album_digest(), of their album. */
int pictures_digest(const struct pictures *p, char out[65], struct err *e);

/* Calls visit(ctx, i, values) for each picture index[i], 0 <= i < n, from several threads and in
 * any order; index NULL: index[i] is i. values[height][width][channels] are valid during the call.
 * Returns after all calls. A picture that cannot be read has zeros, and pictures_check() fails from
 * then on. One call at a time decodes; others wait. */
void pictures_visit(const struct pictures *p, const int64_t *index, int64_t n,
                    void (*visit)(void *ctx, int64_t i, const uint8_t *values), void *ctx);
/* Fails with the error of the first picture that could not be read. */
int pictures_check(const struct pictures *p, struct err *e);

#endif
