/* Small PNG and JPEG files for tests. PNGs are assembled here from their chunks, so that every kind
 * can be made; JPEGs come from libjpeg. */
#ifndef TESTS_UNIT_WORKER_PICTURES_H
#define TESTS_UNIT_WORKER_PICTURES_H

#include "fixture.h"

#include <jpeglib.h>

enum { FILE_BYTES = 1 << 18, PNG_GREY = 0, PNG_RGB = 2, PNG_PALETTE = 3, PNG_GREY_ALPHA = 4 };
enum { PNG_RGB_ALPHA = 6 };

struct file {
    uint8_t at[FILE_BYTES];
    size_t n;
};

static inline void put_word(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(v >> (24 - 8 * i));
    }
}

static inline void put_chunk(struct file *f, const char *type, const uint8_t *bytes, size_t n)
{
    uint8_t *at = f->at + f->n;
    assert_true(f->n + n + 12 <= FILE_BYTES);
    put_word(at, (uint32_t)n);
    memcpy(at + 4, type, 4);
    memcpy(at + 8, bytes, n);
    put_word(at + 8 + n, (uint32_t)crc32(0, at + 4, (unsigned)n + 4));
    f->n += n + 12;
}

struct png_form {
    int height, width, bits, kind; /* bits of a channel; PNG_GREY, … */
};

/* rows[height][row_bytes] in PNG's layout, unfiltered; `palette`: RGB of `colours`, or NULL. */
static inline void make_png(struct file *f, struct png_form form, const uint8_t *rows,
                            size_t row_bytes, const uint8_t *palette, int colours)
{
    static uint8_t raw[FILE_BYTES], packed[FILE_BYTES];
    uint8_t head[13] = {0};
    uLongf n = sizeof packed;
    memcpy(f->at, "\x89PNG\r\n\x1a\n", 8);
    f->n = 8;
    put_word(head, (uint32_t)form.width);
    put_word(head + 4, (uint32_t)form.height);
    head[8] = (uint8_t)form.bits;
    head[9] = (uint8_t)form.kind;
    put_chunk(f, "IHDR", head, sizeof head);
    if (palette) {
        put_chunk(f, "PLTE", palette, 3 * (size_t)colours);
    }
    for (int r = 0; r < form.height; r++) {
        raw[(size_t)r * (row_bytes + 1)] = 0;
        memcpy(raw + (size_t)r * (row_bytes + 1) + 1, rows + (size_t)r * row_bytes, row_bytes);
    }
    assert_int_equal(compress(packed, &n, raw, (size_t)form.height * (row_bytes + 1)), Z_OK);
    put_chunk(f, "IDAT", packed, n);
    put_chunk(f, "IEND", head, 0);
}

/* A grey or colour PNG of bytes. */
static inline void make_plain_png(struct file *f, int height, int width, int channels,
                                  const uint8_t *values)
{
    struct png_form form = {height, width, 8, channels == 1 ? PNG_GREY : PNG_RGB};
    make_png(f, form, values, (size_t)width * (size_t)channels, NULL, 0);
}

/* channels: 1 grey, 3 RGB, 4 CMYK as Adobe's programs write it. */
static inline void make_jpeg(struct file *f, int height, int width, int channels,
                             const uint8_t *values, bool progressive)
{
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long n = 0;
    j.err = jpeg_std_error(&errors);
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, &out, &n);
    j.image_height = (JDIMENSION)height;
    j.image_width = (JDIMENSION)width;
    j.input_components = channels;
    j.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, 98, TRUE);
    if (progressive) {
        jpeg_simple_progression(&j);
    }
    j.write_Adobe_marker = channels == 4;
    jpeg_start_compress(&j, TRUE);
    while (j.next_scanline < j.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(values + (size_t)j.next_scanline * (size_t)width *
                                                          (size_t)channels);
        jpeg_write_scanlines(&j, &row, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    assert_true(n <= FILE_BYTES);
    memcpy(f->at, out, n);
    f->n = n;
    free(out);
}

#endif
