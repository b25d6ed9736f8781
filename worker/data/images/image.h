/* One JPEG or PNG file, from its bytes to the values of a sample: decoded, resized, cropped to its
 * middle. The result depends on bytes and form alone, and uses integer arithmetic, so that every
 * node computes the same.
 *
 *   bytes ─► jpeg.c, png.c ─► pixels, grey or colour ─► resize.c ─► [height][width][channels]
 *
 * The file's first bytes say what it is, not its name. Colour becomes grey by its luma (ITU-R 601),
 * grey becomes colour by repetition. Transparency is dropped, 16 bits become 8, CMYK becomes RGB.
 * Colour profiles, gamma and EXIF's orientation are ignored. Other frameworks do the same.
 *
 * Files may be hostile: sides and pixels are bounded before memory is taken (IMAGE_SIDE,
 * IMAGE_PIXELS), and so are the scans of a progressive JPEG. A torn or corrupt file fails with
 * ERR_DATA; messages call it `name`. */
#ifndef WORKER_DATA_IMAGES_IMAGE_H
#define WORKER_DATA_IMAGES_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum {
    IMAGE_SIDE = 32768,
    IMAGE_PIXELS = 64 << 20,
    IMAGE_BYTES = 256 << 20, /* of a file */
    IMAGE_GREY = 1,
    IMAGE_COLOUR = 3
};

/* The form of all samples of a data set. */
struct image_form {
    int height, width;
    int channels; /* IMAGE_GREY, IMAGE_COLOUR */
    bool stretch; /* both sides are resized; else the shorter one, and the middle is cropped */
};

struct image_head {
    int height, width;
    int channels; /* of the file: IMAGE_GREY or IMAGE_COLOUR */
};

size_t image_form_bytes(const struct image_form *form);
/* Reads the file's header; fails if image_read() would fail because of the header. */
int image_head(const uint8_t *bytes, size_t n, const char *name, struct image_head *out,
               struct err *e);
/* Writes values into to[height][width][channels]. Thread-safe. */
int image_read(const uint8_t *bytes, size_t n, const char *name, const struct image_form *form,
               uint8_t *to, struct err *e);

#endif
