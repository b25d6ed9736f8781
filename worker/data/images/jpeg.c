/* JPEG by libjpeg-turbo. A large photograph for a small sample is decoded at a half, a quarter or
 * an eighth of its size, which the transform does at almost no cost. The decoded picture is at
 * least twice as large as the resized one, so that the filter decides how it looks.
 *
 * After corrupt data libjpeg warns and continues with grey. Such warnings are errors here: the
 * file's owner did not mean a half-grey picture. Errors leave the library by longjmp, so everything
 * to be freed is in struct reader.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "worker/data/images/codec.h"
#include "worker/data/images/resize.h"

enum { SCANS_MOST = 200, MEMORY_MOST = 512 << 20, CMYK = 4 };

struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    const struct encoded *in;
    struct pixels *out;
    uint8_t *row; /* of four channels, for CMYK; owned */
    struct err *e;
    int rc;
};

static void fail(j_common_ptr any)
{
    struct reader *r = any->client_data;
    char why[JMSG_LENGTH_MAX];
    any->err->format_message(any, why);
    r->rc =
        any->err->msg_code == JERR_OUT_OF_MEMORY || any->err->msg_code == JERR_NO_BACKING_STORE
            ? err_set(r->e, ERR_MEMORY, "cannot decode '%s': it needs too much memory", r->in->name)
            : err_set(r->e, ERR_DATA, "cannot decode '%s' as JPEG: %s", r->in->name, why);
    longjmp(r->failed, 1);
}

static void on_message(j_common_ptr any, int level)
{
    int code = any->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
                      code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE)) {
        fail(any);
    }
}

static void on_progress(j_common_ptr any)
{
    struct reader *r = any->client_data;
    if (r->jpeg.input_scan_number > SCANS_MOST) {
        r->rc = err_set(r->e, ERR_DATA, "cannot decode '%s' as JPEG: it has more than %d scans",
                        r->in->name, SCANS_MOST);
        longjmp(r->failed, 1);
    }
}

/* ---- the parts ------------------------------------------------------------------------------- */

static bool has_four(const struct reader *r)
{
    return r->jpeg.jpeg_color_space == JCS_CMYK || r->jpeg.jpeg_color_space == JCS_YCCK;
}

static int read_head(struct reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    jpeg_mem_src(j, r->in->bytes, r->in->n);
    jpeg_read_header(j, TRUE);
    r->out->height = (int)j->image_height;
    r->out->width = (int)j->image_width;
    r->out->channels = j->jpeg_color_space == JCS_GRAYSCALE ? IMAGE_GREY : IMAGE_COLOUR;
    return image_check_sides(r->in->name, r->out->height, r->out->width, r->e);
}

static void choose_size(struct reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    int sides[2];
    resize_sides(r->in->form, r->out->height, r->out->width, sides);
    j->scale_num = 8;
    j->scale_denom = 8;
    while (j->scale_num > 1 &&
           (int64_t)r->out->height * (int)j->scale_num / 16 >= 2 * (int64_t)sides[0] &&
           (int64_t)r->out->width * (int)j->scale_num / 16 >= 2 * (int64_t)sides[1]) {
        j->scale_num /= 2;
    }
}

/* Adobe's programs store CMYK inverted, and mark their files. */
static void from_cmyk(const struct reader *r, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = r->row + 4 * i;
        for (int c = 0; c < 3; c++) {
            unsigned colour = r->jpeg.saw_Adobe_marker ? p[c] : 255u - p[c],
                     black = r->jpeg.saw_Adobe_marker ? p[3] : 255u - p[3];
            to[3 * i + (size_t)c] = (uint8_t)((colour * black + 127) / 255);
        }
    }
}

static int read_rows(struct reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    bool four = has_four(r);
    int rc;
    j->out_color_space = four                                  ? JCS_CMYK
                         : r->in->form->channels == IMAGE_GREY ? JCS_GRAYSCALE
                                                               : JCS_RGB;
    j->dct_method = JDCT_ISLOW; /* the same values with and without SIMD */
    choose_size(r);
    jpeg_start_decompress(j);
    r->out->height = (int)j->output_height;
    r->out->width = (int)j->output_width;
    r->out->channels = j->output_components == 1 ? IMAGE_GREY : IMAGE_COLOUR;
    if ((rc = image_room(r->in->name, r->out, r->e)) < 0) {
        return rc;
    }
    r->row = four ? malloc((size_t)r->out->width * CMYK) : NULL;
    if (four && !r->row) {
        return err_set(r->e, ERR_MEMORY, "cannot decode '%s': memory ran out", r->in->name);
    }
    size_t wide = (size_t)r->out->width * (size_t)r->out->channels;
    while (j->output_scanline < j->output_height) {
        uint8_t *to = r->out->at + (size_t)j->output_scanline * wide;
        JSAMPROW row = four ? r->row : to;
        jpeg_read_scanlines(j, &row, 1);
        if (four) {
            from_cmyk(r, to, (size_t)r->out->width);
        }
    }
    jpeg_finish_decompress(j);
    return 0;
}

static int jpeg_decode(const struct encoded *in, struct pixels *out, struct err *e)
{
    struct reader r = {.in = in, .out = out, .e = e};
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.errors.error_exit = fail;
    r.errors.emit_message = on_message;
    r.progress.progress_monitor = on_progress;
    r.jpeg.client_data = &r;
    if (setjmp(r.failed) == 0) {
        jpeg_create_decompress(&r.jpeg);
        r.jpeg.progress = &r.progress;
        r.jpeg.mem->max_memory_to_use = MEMORY_MOST;
        r.rc = read_head(&r);
        if (r.rc == 0 && in->form) {
            r.rc = read_rows(&r);
        }
    }
    jpeg_destroy_decompress(&r.jpeg);
    free(r.row);
    return r.rc;
}

const struct codec image_jpeg = {"JPEG", 3, "\xff\xd8\xff", jpeg_decode};
