/* Pixels to the form of a sample: resized with a triangle filter as wide as the reduction
 * ("bilinear, antialiased"), in whole numbers, as Pillow does it, whose values these are. */
#ifndef WORKER_DATA_IMAGES_RESIZE_H
#define WORKER_DATA_IMAGES_RESIZE_H

#include "worker/data/images/codec.h"

/* Height and width that a picture of these sides is resized to, before its middle is cut out. */
void resize_sides(const struct image_form *form, int height, int width, int out[2]);
/* Into to[form's height][width][from->channels]. Fails where memory runs out. */
int resize(const struct pixels *from, const struct image_form *form, uint8_t *to, struct err *e);

#endif
