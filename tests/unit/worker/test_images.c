/* One picture from a file's bytes to a sample (worker/data/images/image.c, jpeg.c, png.c,
 * resize.c): every kind of PNG and JPEG, sizes as Pillow computes them, and files that are torn or
 * have false sizes. */
#include "pictures.h"

#include "worker/data/images/image.h"

static struct file file_;

static const struct image_form same_grey = {2, 4, IMAGE_GREY, false},
                               same_colour = {2, 4, IMAGE_COLOUR, false};

static void reads(const struct image_form *form, const uint8_t *want, int away, const char *what)
{
    uint8_t got[4096];
    OK(image_read(file_.at, file_.n, what, form, got, &err_));
    for (size_t i = 0; i < image_form_bytes(form); i++) {
        if (abs(got[i] - want[i]) > away) {
            fail_msg("%s: value %zu is %d, not %d", what, i, got[i], want[i]);
        }
    }
}

static void every_kind_of_png_is_read(void **state)
{
    (void)state;
    static const uint8_t grey[8] = {0, 255, 16, 40, 7, 8, 9, 200};
    static const uint8_t bits[2] = {0x50, 0xa0}, black_white[8] = {0, 255, 0, 255, 255, 0, 255, 0};
    static const uint8_t palette[6] = {1, 2, 3, 250, 251, 252},
                         indices[8] = {0, 1, 1, 0, 1, 1, 0, 0};
    uint8_t wide[16], alpha[16], colour[24], repeated[24], looked_up[24], clear[32];
    for (size_t i = 0; i < 8; i++) {
        wide[2 * i] = grey[i];
        wide[2 * i + 1] = grey[i]; /* v * 257 */
        alpha[2 * i] = grey[i];
        alpha[2 * i + 1] = (uint8_t)i;
        for (size_t c = 0; c < 3; c++) {
            colour[3 * i + c] = clear[4 * i + c] = (uint8_t)(10 * i + 60 * c);
            repeated[3 * i + c] = grey[i];
            looked_up[3 * i + c] = palette[3 * indices[i] + c];
        }
        clear[4 * i + 3] = 0;
    }
    make_png(&file_, (struct png_form){2, 4, 8, PNG_GREY}, grey, 4, NULL, 0);
    reads(&same_grey, grey, 0, "grey");
    reads(&same_colour, repeated, 0, "grey as colour");
    make_png(&file_, (struct png_form){2, 4, 1, PNG_GREY}, bits, 1, NULL, 0);
    reads(&same_grey, black_white, 0, "1 bit");
    make_png(&file_, (struct png_form){2, 4, 16, PNG_GREY}, wide, 8, NULL, 0);
    reads(&same_grey, grey, 0, "16 bits");
    make_png(&file_, (struct png_form){2, 4, 8, PNG_GREY_ALPHA}, alpha, 8, NULL, 0);
    reads(&same_grey, grey, 0, "grey with alpha");
    make_png(&file_, (struct png_form){2, 4, 8, PNG_RGB}, colour, 12, NULL, 0);
    reads(&same_colour, colour, 0, "colour");
    make_png(&file_, (struct png_form){2, 4, 8, PNG_RGB_ALPHA}, clear, 16, NULL, 0);
    reads(&same_colour, colour, 0, "colour with alpha");
    make_png(&file_, (struct png_form){2, 4, 8, PNG_PALETTE}, indices, 4, palette, 2);
    reads(&same_colour, looked_up, 0, "palette");
}

static void colour_becomes_grey_by_its_luma(void **state)
{
    (void)state;
    static const uint8_t colours[24] = {255, 0, 0, 0,  255, 0,  0,  0,  255, 255, 255, 255,
                                        0,   0, 0, 10, 10,  10, 99, 99, 99,  255, 255, 0};
    static const uint8_t luma[8] = {76, 150, 29, 255, 0, 10, 99, 226}; /* Pillow's "L" */
    make_plain_png(&file_, 2, 4, 3, colours);
    reads(&same_grey, luma, 0, "luma");
}

static void every_kind_of_jpeg_is_read(void **state)
{
    (void)state;
    enum { SIDE = 16 };
    uint8_t grey[SIDE * SIDE], colour[3 * SIDE * SIDE], luma[SIDE * SIDE], ink[4 * SIDE * SIDE];
    const struct image_form one = {SIDE, SIDE, IMAGE_GREY, false},
                            three = {SIDE, SIDE, IMAGE_COLOUR, false};
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        uint8_t *p = colour + 3 * i;
        grey[i] = (uint8_t)(i / SIDE * 10 + 40);
        p[0] = grey[i];
        p[1] = 120;
        p[2] = (uint8_t)(200 - grey[i]);
        luma[i] = (uint8_t)((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000);
        for (int c = 0; c < 4; c++) { /* inverted, as Adobe's: without black it is the colour */
            ink[4 * i + (size_t)c] = c < 3 ? p[c] : 255;
        }
    }
    for (int progressive = 0; progressive < 2; progressive++) {
        make_jpeg(&file_, SIDE, SIDE, 1, grey, progressive);
        reads(&one, grey, 3, "grey");
        make_jpeg(&file_, SIDE, SIDE, 3, colour, progressive);
        reads(&three, colour, 8, "colour");
        reads(&one, luma, 4, "colour as grey");
    }
    make_jpeg(&file_, SIDE, SIDE, 4, ink, false);
    reads(&three, colour, 6, "CMYK");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

enum { HIGH = 7, WIDE = 9 };

static void make_sloped(void)
{
    uint8_t values[HIGH * WIDE];
    for (int i = 0; i < HIGH * WIDE; i++) {
        int r = i / WIDE, c = i % WIDE;
        values[i] = (uint8_t)(r * 37 + c * 11 + r * c * 5);
    }
    make_plain_png(&file_, HIGH, WIDE, 1, values);
}

/* Image.resize(…, Image.BILINEAR) of Pillow 9.4 on the same picture. */
static void sizes_are_those_of_pillow(void **state)
{
    (void)state;
    static const uint8_t down[20] = {27,  48,  74,  100, 121, 89,  123, 163, 153, 164,
                                     159, 169, 114, 91,  116, 149, 61,  103, 172, 165},
                         middle[16] = {27,  48,  74,  100, 89,  123, 163, 153,
                                       159, 169, 114, 91,  149, 61,  103, 172},
                         up[24] = {0,  7,  15, 23, 32, 40, 48, 56, 65,  73,  81,  88,
                                   20, 29, 39, 49, 60, 70, 80, 91, 101, 111, 122, 130};
    make_sloped();
    reads(&(struct image_form){4, 5, IMAGE_GREY, true}, down, 0, "smaller");
    reads(&(struct image_form){4, 4, IMAGE_GREY, false}, middle, 0, "the middle of it");
    uint8_t got[120];
    OK(image_read(file_.at, file_.n, "up", &(struct image_form){10, 12, IMAGE_GREY, true}, got,
                  &err_));
    assert_memory_equal(got, up, sizeof up);
}

static void the_shorter_side_decides_and_the_middle_is_kept(void **state)
{
    (void)state;
    uint8_t values[2 * 8], wide[4], high[4];
    for (int i = 0; i < 16; i++) {
        values[i] = (uint8_t)(i % 8 * 10);
    }
    const struct image_form form = {2, 2, IMAGE_GREY, false};
    make_plain_png(&file_, 2, 8, 1, values);
    OK(image_read(file_.at, file_.n, "wide", &form, wide, &err_));
    assert_memory_equal(wide, ((uint8_t[]){30, 40, 30, 40}), 4);
    make_plain_png(&file_, 8, 2, 1, values);
    OK(image_read(file_.at, file_.n, "high", &form, high, &err_));
    assert_memory_equal(high, ((uint8_t[]){values[6], values[7], values[8], values[9]}), 4);
}

/* A large JPEG is decoded at a part of its size: the picture looks the same. */
static void a_large_jpeg_looks_as_the_same_png_does(void **state)
{
    (void)state;
    enum { SIDE = 256, SMALL = 24 };
    static uint8_t values[SIDE * SIDE];
    uint8_t want[SMALL * SMALL];
    const struct image_form form = {SMALL, SMALL, IMAGE_GREY, false};
    for (int i = 0; i < SIDE * SIDE; i++) {
        int r = i / SIDE - 100, c = i % SIDE - 120;
        values[i] = r * r + c * c < 5000 ? 220 : (uint8_t)(i % SIDE / 4);
    }
    make_plain_png(&file_, SIDE, SIDE, 1, values);
    OK(image_read(file_.at, file_.n, "png", &form, want, &err_));
    make_jpeg(&file_, SIDE, SIDE, 1, values, false);
    reads(&form, want, 6, "jpeg");
}

/* ---- what cannot be read --------------------------------------------------------------------- */

static void cut_files_are_refused(const char *what)
{
    uint8_t got[HIGH * WIDE];
    const struct image_form form = {HIGH, WIDE, IMAGE_GREY, false};
    static uint8_t exact[FILE_BYTES];
    for (size_t n = 0; n + 2 < file_.n; n++) { /* a JPEG may lack its last marker */
        memcpy(exact, file_.at, n);
        FAILS(image_read(exact, n, what, &form, got, &err_), ERR_DATA, what);
    }
}

static void a_file_that_is_cut_off_anywhere_is_refused_by_name(void **state)
{
    (void)state;
    uint8_t values[HIGH * WIDE];
    for (int i = 0; i < HIGH * WIDE; i++) {
        values[i] = (uint8_t)(i * 83);
    }
    make_plain_png(&file_, HIGH, WIDE, 1, values);
    cut_files_are_refused("dog/1.png");
    make_jpeg(&file_, HIGH, WIDE, 1, values, false);
    cut_files_are_refused("dog/2.jpg");
}

static void a_file_with_a_wrong_byte_is_refused_or_read(void **state)
{
    (void)state;
    uint8_t got[HIGH * WIDE];
    const struct image_form form = {HIGH, WIDE, IMAGE_GREY, false};
    make_sloped();
    for (size_t i = 8; i < file_.n; i++) {
        file_.at[i] ^= 0x10;
        err_clear(&err_);
        int rc = image_read(file_.at, file_.n, "x.png", &form, got, &err_);
        assert_true(rc == 0 || (rc == -ERR_DATA && strstr(err_.message, "x.png")));
        file_.at[i] ^= 0x10;
    }
}

static void huge_sides_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    struct image_head head;
    make_sloped();
    put_word(file_.at + 16, 30000);
    put_word(file_.at + 20, 30000);
    put_word(file_.at + 29, (uint32_t)crc32(0, file_.at + 12, 17));
    FAILS(image_head(file_.at, file_.n, "big.png", &head, &err_), ERR_DATA,
          "'big.png' has 30000 x 30000 pixels");
    put_word(file_.at + 16, 8000); /* possible, but not in so few bytes */
    put_word(file_.at + 20, 8000);
    put_word(file_.at + 29, (uint32_t)crc32(0, file_.at + 12, 17));
    FAILS(image_head(file_.at, file_.n, "thin.png", &head, &err_), ERR_DATA, "cannot hold");
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff, 0xc0, 0,    11, 8,    0xff, 0xdc,
                                   0xff, 0xdc, 1,    1,    0x11, 0,  0xff, 0xda, 0,
                                   8,    1,    1,    0,    0,    63, 0,    0xff, 0xd9};
    FAILS(image_head(jpeg, sizeof jpeg, "big.jpg", &head, &err_), ERR_DATA, "big.jpg");
    FAILS(image_head((const uint8_t *)"GIF89a", 6, "x.png", &head, &err_), ERR_DATA,
          "neither a JPEG nor a PNG");
    FAILS(image_head(NULL, 0, "x.png", &head, &err_), ERR_DATA, "it is empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_png_is_read),
        cmocka_unit_test(colour_becomes_grey_by_its_luma),
        cmocka_unit_test(every_kind_of_jpeg_is_read),
        cmocka_unit_test(sizes_are_those_of_pillow),
        cmocka_unit_test(the_shorter_side_decides_and_the_middle_is_kept),
        cmocka_unit_test(a_large_jpeg_looks_as_the_same_png_does),
        cmocka_unit_test(a_file_that_is_cut_off_anywhere_is_refused_by_name),
        cmocka_unit_test(a_file_with_a_wrong_byte_is_refused_or_read),
        cmocka_unit_test(huge_sides_are_refused_before_memory_is_taken),
    };
    return cmocka_run_group_tests_name("images", tests, NULL, NULL);
}
