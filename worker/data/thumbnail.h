/* A sample as a small picture for people: bytes, at most THUMBNAIL_SIDE on a side. */
#ifndef WORKER_DATA_THUMBNAIL_H
#define WORKER_DATA_THUMBNAIL_H

#include "worker/data/dataset.h"

enum { THUMBNAIL_SIDE = 48 };

/* {"height", "width", "channels", "values"}: values are base64 of bytes [height][width][channels],
 * grey or colour; floats are scaled from their least (black) to their greatest. New reference; NULL
 * if samples are no pictures, or one cannot be read. */
json_t *thumbnail(const struct dataset *d, const struct dataset_part *part, int64_t sample);

#endif
