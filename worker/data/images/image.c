/* Chooses a file's codec, and makes a sample from its pixels: see image.h. */
#include "worker/data/images/image.h"

#include <stdlib.h>
#include <string.h>

#include "worker/data/images/codec.h"
#include "worker/data/images/resize.h"

static const struct codec *const codecs[] = {&image_jpeg, &image_png, NULL};

size_t image_form_bytes(const struct image_form *form)
{
    return (size_t)form->height * (size_t)form->width * (size_t)form->channels;
}

/* Luma of n pixels of three channels, in 16-bit integer arithmetic: 0.299 red, 0.587 green, 0.114
 * blue. `to` may be `from`. */
static void make_grey(uint8_t *to, const uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = from + 3 * i;
        to[i] = (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
    }
}

/* Starts at the end, because both share their memory. */
static void repeat_grey(uint8_t *values, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        uint8_t v = values[i];
        values[3 * i] = values[3 * i + 1] = values[3 * i + 2] = v;
    }
}

static int decode(const struct encoded *in, struct pixels *out, struct err *e)
{
    memset(out, 0, sizeof(*out));
    for (int i = 0; codecs[i]; i++) {
        if (in->n >= codecs[i]->magic_bytes &&
            memcmp(in->bytes, codecs[i]->magic, codecs[i]->magic_bytes) == 0) {
            return codecs[i]->decode(in, out, e);
        }
    }
    return err_set(e, ERR_DATA, "'%s' is neither a JPEG nor a PNG file: %s", in->name,
                   in->n ? "it does not begin as one does" : "it is empty");
}

int image_head(const uint8_t *bytes, size_t n, const char *name, struct image_head *out,
               struct err *e)
{
    struct encoded in = {bytes, n, name, NULL};
    struct pixels told;
    int rc = decode(&in, &told, e);
    *out = (struct image_head){told.height, told.width, told.channels};
    return rc;
}

int image_read(const uint8_t *bytes, size_t n, const char *name, const struct image_form *form,
               uint8_t *to, struct err *e)
{
    struct encoded in = {bytes, n, name, form};
    struct pixels decoded;
    int rc = decode(&in, &decoded, e);
    if (rc == 0 && decoded.channels > form->channels) { /* first, as fewer values are resized */
        make_grey(decoded.at, decoded.at, (size_t)decoded.height * (size_t)decoded.width);
        decoded.channels = IMAGE_GREY;
    }
    if (rc == 0) {
        rc = resize(&decoded, form, to, e);
    }
    if (rc == 0 && decoded.channels < form->channels) {
        repeat_grey(to, (size_t)form->height * (size_t)form->width);
    }
    free(decoded.at);
    return rc;
}
