/* Glyphs: 28×28 digits drawn by the program, for machines that have no data set. Digits are
 * polylines of a pen; each sample bends, scales, slants, turns and shifts them, draws with a pen of
 * its own width and ink, crosses the picture with a stray stroke now and then, and adds noise.
 * Sample i is a function of (seed, part, i) alone.
 *
 * Made to be learnable but not trivial: the amounts below are tuned so that `mlp`, which knows no
 * translation, stays below 97 % test accuracy while `lenet5` passes 98 % within a few epochs.
 * Drawing must stay cheap, as every rank draws 70,000 of them at its start: a segment touches only
 * the pixels of its bounding box.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "worker/data/dataset.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, POINTS = 24, DIGITS = 10, STYLES = 2 };

/* Pen positions, x right and y down, each in 0…99 of the glyph's box: "xxyy xxyy …". The pair "/"
 * lifts the pen. */
static const char *const strokes[DIGITS][STYLES] = {
    {"5002 2212 0838 0862 2288 5098 7888 9262 9238 7812 5002",
     "6005 3010 1535 1265 3092 6095 8270 8840 7815 6005"},
    {"2522 5502 5598", "3025 5503 5597 / 2897 8297"},
    {"1028 2208 5002 7810 8830 7552 4075 0896 9296",
     "1525 3006 6004 8522 7548 4068 1595 3088 6597 9090"},
    {"1210 4502 7808 8625 7442 4548 7855 9074 7892 4598 1090",
     "1205 8505 4540 7545 9068 7892 4098 1088"},
    {"7098 7002 0868 9568", "2205 1550 8550 / 7825 7098"},
    {"8804 2004 1446 4840 7846 9068 7890 4598 1090", "8505 2505 1848 5538 8550 8580 5097 1592"},
    {"7806 4510 1840 0870 2292 5098 7890 8870 7652 4848 2056 1070",
     "6502 3028 1262 2090 5597 8285 8562 6050 3055 1570"},
    {"0804 9204 6045 4098", "0806 9006 5598 / 3050 8550"},
    {"5048 2038 1522 2606 5002 7406 8522 7838 5048 1862 0878 2294 5098 7894 9278 8062 5048",
     "8015 5003 2515 2535 7560 8582 5097 1882 2560 7538 8015"},
    {"8830 7808 5002 2008 1030 2248 5052 7648 8830 8662 7098",
     "8228 6004 2512 1535 4050 7542 8525 8060 7085 3097"},
};

struct dice { /* random words of one sample, in order */
    uint64_t key, sample, block;
    uint32_t word[4];
    int left;
};

static uint32_t roll(struct dice *d)
{
    if (d->left == 0) {
        struct rng_block b = rng_philox(d->key, d->sample, d->block++);
        memcpy(d->word, b.v, sizeof(d->word));
        d->left = 4;
    }
    return d->word[--d->left];
}

static float between(struct dice *d, float low, float high)
{
    return low + (high - low) * rng_uniform(roll(d));
}

struct pen {
    float radius, ink;
    float *canvas; /* [SIDE][SIDE], 0…1 */
};

/* fminf and fmaxf for numbers other than NaN: comparisons, where the C library has calls. */
static inline float least(float a, float b)
{
    return a < b ? a : b;
}

static inline float greatest(float a, float b)
{
    return a > b ? a : b;
}

/* Draws a thick segment with soft edges. A pixel's ink depends on its distance; it keeps the
 * darkest. */
static void draw_segment(const struct pen *pen, float x0, float y0, float x1, float y1)
{
    float reach = pen->radius + 1.0f;
    int left = (int)greatest(0.0f, floorf(least(x0, x1) - reach)),
        right = (int)least(SIDE - 1.0f, ceilf(greatest(x0, x1) + reach));
    int top = (int)greatest(0.0f, floorf(least(y0, y1) - reach)),
        bottom = (int)least(SIDE - 1.0f, ceilf(greatest(y0, y1) + reach));
    float dx = x1 - x0, dy = y1 - y0, length2 = dx * dx + dy * dy + 1e-6f;
    for (int y = top; y <= bottom; y++) {
        for (int x = left; x <= right; x++) {
            float px = (float)x - x0, py = (float)y - y0;
            float t = least(1.0f, greatest(0.0f, (px * dx + py * dy) / length2));
            float ex = px - t * dx, ey = py - t * dy;
            float v = pen->ink *
                      least(1.0f, greatest(0.0f, pen->radius + 0.5f - sqrtf(ex * ex + ey * ey)));
            float *pixel = &pen->canvas[y * SIDE + x];
            *pixel = v > *pixel ? v : *pixel;
        }
    }
}

struct frame { /* from the glyph's box, centred, to pixels */
    float xx, xy, yx, yy, x, y;
};

static struct frame random_frame(struct dice *d)
{
    float height = between(d, 11.0f, 19.0f), width = height * between(d, 0.5f, 0.95f);
    float turn = between(d, -0.3f, 0.3f), slant = between(d, -0.4f, 0.4f);
    float c = cosf(turn), s = sinf(turn);
    float room = (SIDE - height) * 0.5f - 1.0f;
    struct frame f = {
        .xx = width * c,
        .xy = height * (-slant * c - s),
        .yx = width * s,
        .yy = height * (c - slant * s),
        .x = (SIDE - 1) * 0.5f + between(d, -room, room),
        .y = (SIDE - 1) * 0.5f + between(d, -room, room),
    };
    return f;
}

static void draw_digit(struct dice *d, const struct pen *pen, int digit)
{
    struct frame f = random_frame(d);
    const char *p = strokes[digit][roll(d) % STYLES];
    float bend = 0.045f, last_x = 0, last_y = 0;
    bool down = false;
    while (*p) {
        if (*p == '/' || *p == ' ') {
            down = down && *p == ' ';
            p++;
            continue;
        }
        float u =
            (float)((p[0] - '0') * 10 + (p[1] - '0')) / 99.0f - 0.5f + between(d, -bend, bend);
        float v =
            (float)((p[2] - '0') * 10 + (p[3] - '0')) / 99.0f - 0.5f + between(d, -bend, bend);
        float x = f.xx * u + f.xy * v + f.x, y = f.yx * u + f.yy * v + f.y;
        if (down) {
            draw_segment(pen, last_x, last_y, x, y);
        }
        last_x = x;
        last_y = y;
        down = true;
        p += 4;
    }
}

static void draw_stray(struct dice *d, struct pen pen)
{
    float x = between(d, 0, SIDE), y = between(d, 0, SIDE);
    pen.ink *= between(d, 0.4f, 0.9f);
    pen.radius *= 0.6f;
    draw_segment(&pen, x, y, x + between(d, -7, 7), y + between(d, -7, 7));
}

/* Canvas plus noise, as bytes. */
static void develop(struct dice *d, const float *canvas, uint8_t *out)
{
    float amount = between(d, 20.0f, 75.0f);
    for (int i = 0; i < PIXELS; i += 4) {
        uint32_t w = roll(d);
        for (int j = 0; j < 4; j++) {
            float noise = ((float)((w >> (8 * j)) & 255) - 110.0f) * (amount / 128.0f);
            float v = canvas[i + j] * 235.0f + noise;
            out[i + j] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

static int draw_part(struct dataset_part *part, int64_t samples, uint64_t key, bool peek,
                     struct err *e)
{
    part->samples = samples;
    if (peek) {
        return 0;
    }
    part->x = malloc((size_t)samples * PIXELS + 1);
    part->y = malloc((size_t)samples * sizeof(int32_t) + 1);
    if (!part->x || !part->y) {
        return err_set(e, ERR_MEMORY, "cannot hold %lld glyphs: memory ran out",
                       (long long)samples);
    }
    for (int64_t i = 0; i < samples; i++) {
        struct dice d = {.key = key, .sample = (uint64_t)i};
        float canvas[PIXELS] = {0};
        int digit = (int)(roll(&d) % DIGITS);
        struct pen pen = {.canvas = canvas};
        pen.radius = between(&d, 0.55f, 1.6f);
        pen.ink = between(&d, 0.55f, 1.0f);
        draw_digit(&d, &pen, digit);
        for (uint32_t n = roll(&d) % 3; n > 0; n--) {
            draw_stray(&d, pen);
        }
        develop(&d, canvas, (uint8_t *)part->x + i * PIXELS);
        ((int32_t *)part->y)[i] = digit;
    }
    return 0;
}

static int glyphs_read(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                       const char *roots, const char *dir, bool peek, struct err *e)
{
    d->input = (struct shape){3, {SIDE, SIDE, 1}};
    d->x_bytes = true;
    d->y_labels = true;
    d->classes = DIGITS;
    int rc = draw_part(&d->train, spec->samples, rng_mix(seed, 1), peek, e);
    if (rc < 0) {
        return rc;
    }
    return draw_part(&d->test, spec->test_samples, rng_mix(seed, 2), peek, e);
}

const struct dataset_format dataset_glyphs = {
    .id = CAT_FORMAT_GLYPHS, .markers = {NULL}, .read = glyphs_read};
