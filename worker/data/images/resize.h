/* Resizes pixels to the form of a sample, with a triangle filter as wide as the reduction
 * ("bilinear, antialiased"), in integer arithmetic. The values are those of Pillow. */
#ifndef WORKER_DATA_IMAGES_RESIZE_H
#define WORKER_DATA_IMAGES_RESIZE_H

#include "worker/data/images/codec.h"

/* Height and width to which a picture of these sides is resized before it is cropped. */
void resize_sides(const struct image_form *form, int height, int width, int out[2]);
/* Writes to[form's height][width][from->channels]. Fails if memory runs out. */
int resize(const struct pixels *from, const struct image_form *form, uint8_t *to, struct err *e);

#endif
