/* Checks that both codecs make before they decode: see codec.h. */
#include <stdlib.h>

#include "worker/data/images/codec.h"

int image_check_sides(const char *name, int64_t height, int64_t width, struct err *e)
{
    if (height < 1 || width < 1 || height > IMAGE_SIDE || width > IMAGE_SIDE ||
        height * width > IMAGE_PIXELS) {
        return err_set(e, ERR_DATA,
                       "'%s' has %lld x %lld pixels; at most %d on a side and %d million in all "
                       "are read",
                       name, (long long)height, (long long)width, IMAGE_SIDE,
                       IMAGE_PIXELS / 1000000);
    }
    return 0;
}

int image_room(const char *name, struct pixels *out, struct err *e)
{
    out->at = malloc((size_t)out->height * (size_t)out->width * (size_t)out->channels);
    return out->at ? 0
                   : err_set(e, ERR_MEMORY, "cannot decode '%s' of %d x %d pixels: memory ran out",
                             name, out->height, out->width);
}
