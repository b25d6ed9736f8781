/* One JPEG or PNG file, from its bytes to the values of a sample: decoded, resized, its middle cut
 * out. A function of bytes and form alone, in whole numbers, so that every node gets the same.
 *
 *   bytes ─► jpeg.c, png.c ─► pixels, grey or colour ─► resize.c ─► [height][width][channels]
 *
 * What a file is, its first bytes say, not its name. Colour becomes grey by its luma (ITU-R 601),
 * grey becomes colour by repeating it; transparency is dropped, 16 bits become 8, CMYK becomes RGB;
 * colour profiles, gamma and EXIF's orientation are ignored. That is what other frameworks do.
 *
 * Files may be hostile: sides and pixels are bounded before memory is taken (IMAGE_SIDE,
 * IMAGE_PIXELS), and so are the scans of a progressive JPEG. A file that is torn or whose data are
 * corrupt fails with ERR_DATA; `name` is what messages call it. */
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

/* What all samples of a data set become. */
struct image_form {
    int height, width;
    int channels; /* IMAGE_GREY, IMAGE_COLOUR */
    bool stretch; /* both sides are resized; else the shorter one, and the middle is cut out */
};

struct image_head {
    int height, width;
    int channels; /* of the file: IMAGE_GREY or IMAGE_COLOUR */
};

size_t image_form_bytes(const struct image_form *form);
/* What the file's header says; fails where image_read() would for the header's sake. */
int image_head(const uint8_t *bytes, size_t n, const char *name, struct image_head *out,
               struct err *e);
/* Values into to[height][width][channels]. For several threads at once. */
int image_read(const uint8_t *bytes, size_t n, const char *name, const struct image_form *form,
               uint8_t *to, struct err *e);

#endif
