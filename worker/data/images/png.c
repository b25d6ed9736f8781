/* PNG by libpng: palettes are looked up, fewer than 8 bits are spread and 16 are halved,
 * transparency is dropped; the file's gamma is not applied.
 *
 * Errors leave the library by longjmp, so what must be freed afterwards stands in struct reader.
 */
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "worker/data/files/unpacked.h"
#include "worker/data/images/codec.h"

enum { MAGIC = 8, CHUNKS_MOST = 100, CHUNK_BYTES = 8 << 20 };

struct reader {
    png_structp png;
    png_infop info;
    const struct encoded *in;
    size_t at; /* bytes of the file that were read */
    struct pixels *out;
    struct err *e;
    int rc;
};

static void fail(png_structp png, png_const_charp why)
{
    struct reader *r = png_get_error_ptr(png);
    r->rc = err_set(r->e, ERR_DATA, "cannot decode '%s' as PNG near byte %zu: %s", r->in->name,
                    r->at, why);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static void take_bytes(png_structp png, png_bytep to, size_t n)
{
    struct reader *r = png_get_io_ptr(png);
    if (n > r->in->n - r->at) {
        png_error(png, "the file ends there");
    }
    memcpy(to, r->in->bytes + r->at, n);
    r->at += n;
}

static int read_head(struct reader *r)
{
    png_set_read_fn(r->png, r, take_bytes);
    png_set_user_limits(r->png, IMAGE_SIDE, IMAGE_SIDE);
    png_set_chunk_cache_max(r->png, CHUNKS_MOST);
    png_set_chunk_malloc_max(r->png, CHUNK_BYTES);
    png_read_info(r->png, r->info);
    bool grey = !(png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_COLOR);
    r->out->height = (int)png_get_image_height(r->png, r->info);
    r->out->width = (int)png_get_image_width(r->png, r->info);
    r->out->channels = grey ? IMAGE_GREY : IMAGE_COLOUR;
    int rc = image_check_sides(r->in->name, r->out->height, r->out->width, r->e);
    int64_t bytes = (int64_t)png_get_rowbytes(r->png, r->info) * r->out->height;
    if (rc == 0 && bytes > ((int64_t)r->in->n + 1) * DEFLATE_RATIO) {
        rc = err_set(r->e, ERR_DATA, "'%s' promises %d x %d pixels, which %zu bytes cannot hold",
                     r->in->name, r->out->height, r->out->width, r->in->n);
    }
    return rc;
}

static int read_rows(struct reader *r)
{
    png_set_expand(r->png);
    png_set_scale_16(r->png);
    png_set_strip_alpha(r->png);
    int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    size_t wide = (size_t)r->out->width * (size_t)r->out->channels;
    if (png_get_rowbytes(r->png, r->info) != wide) {
        png_error(r->png, "its kind of pixels is not known");
    }
    int rc = image_room(r->in->name, r->out, r->e);
    for (int pass = 0; rc == 0 && pass < passes; pass++) {
        for (int row = 0; row < r->out->height; row++) {
            png_read_row(r->png, r->out->at + (size_t)row * wide, NULL);
        }
    }
    if (rc == 0) {
        png_read_end(r->png, NULL);
    }
    return rc;
}

static int png_decode(const struct encoded *in, struct pixels *out, struct err *e)
{
    struct reader r = {.in = in, .out = out, .e = e};
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fail, ignore);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (!r.info) {
        png_destroy_read_struct(&r.png, NULL, NULL);
        return err_set(e, ERR_MEMORY, "cannot decode '%s': memory ran out", in->name);
    }
    if (setjmp(png_jmpbuf(r.png)) == 0) {
        r.rc = read_head(&r);
        if (r.rc == 0 && in->form) {
            r.rc = read_rows(&r);
        }
    }
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return r.rc;
}

const struct codec image_png = {"PNG", MAGIC, "\x89PNG\r\n\x1a\n", png_decode};
