/* What the files of this folder share about decoding: pixels, and the two codecs. */
#ifndef WORKER_DATA_IMAGES_CODEC_H
#define WORKER_DATA_IMAGES_CODEC_H

#include "worker/data/images/image.h"

/* A decoded picture. */
struct pixels {
    int height, width, channels;
    uint8_t *at; /* [height][width][channels], owned; free it in any case */
};

/* A file, and the form that is wanted. */
struct encoded {
    const uint8_t *bytes;
    size_t n;
    const char *name;              /* for messages */
    const struct image_form *form; /* NULL: only its header is read */
};

struct codec {
    const char *name;
    size_t magic_bytes;
    const char *magic;
    /* Fills height, width and channels of `out`, and, if a form is given, its pixels, grey or
     * colour as the form says or as the file has them. Fails with ERR_DATA. */
    int (*decode)(const struct encoded *in, struct pixels *out, struct err *e);
};
extern const struct codec image_jpeg, image_png;

/* Are these sides allowed? */
int image_check_sides(const char *name, int64_t height, int64_t width, struct err *e);
/* Allocates out->height x width x channels. */
int image_room(const char *name, struct pixels *out, struct err *e);

#endif
