/* See resize.h. Along one axis, value o of `to` is a mean of the values within `support` of its
 * centre in `from`, each weighted by a triangle:
 *
 *   from  │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │        to = from / 2: support 2
 *   to    │   0   │   1   │   2   │        value 1: centre 3, weights 1/8 3/8 3/8 1/8 of 1 … 4
 *
 * Weights are whole numbers of 22 bits, so that no rounding of floats can differ between two
 * machines. Rows come first, and only those that the window's columns need; then columns. Only
 * what the window in the middle shows is computed.
 */
#include "worker/data/images/resize.h"

#include <stdlib.h>
#include <string.h>

enum { BITS = 22 };

/* One axis: value o is the sum of from[first[o] + i] weight[o * most + i], i < count[o]. */
struct axis {
    int n, most;
    int *first, *count;
    int32_t *weight;
};

void resize_sides(const struct image_form *form, int height, int width, int out[2])
{
    int64_t h = form->height, w = form->width;
    out[0] = form->height;
    out[1] = form->width;
    if (form->stretch) {
        return;
    }
    if (h * width >= w * height) { /* wider than the form: the height decides */
        out[1] = (int)(width * h / height);
    } else {
        out[0] = (int)(height * w / width);
    }
}

static void axis_release(struct axis *a)
{
    free(a->first);
    free(a->count);
    free(a->weight);
}

/* The weights of one value with this centre; their sum is about 2^BITS. */
static void weigh(struct axis *a, int o, double centre, double scale, int from)
{
    double all = 0;
    int least = (int)(centre - scale + 0.5), end = (int)(centre + scale + 0.5);
    least = least < 0 ? 0 : least;
    end = end > from ? from : end;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = least; i < end; i++) {
            double away = (i - centre + 0.5) / scale;
            away = away < 0 ? -away : away;
            double share = away < 1 ? 1 - away : 0;
            if (pass == 0) {
                all += share;
            } else {
                a->weight[(size_t)o * (size_t)a->most + (size_t)(i - least)] =
                    (int32_t)(0.5 + share / all * (1 << BITS));
            }
        }
    }
    a->first[o] = least;
    a->count[o] = end - least;
}

/* Prepares resizing of `from` values to `to`, of which the middle n are wanted. */
static int axis_init(struct axis *a, int from, int to, int n, struct err *e)
{
    double scale = (double)from / to, wide = scale < 1 ? 1 : scale;
    int skip = (to - n) / 2;
    a->n = n;
    a->most = (int)wide * 2 + 3;
    a->first = malloc((size_t)n * sizeof(*a->first));
    a->count = malloc((size_t)n * sizeof(*a->count));
    a->weight = malloc((size_t)n * (size_t)a->most * sizeof(*a->weight));
    if (!a->first || !a->count || !a->weight) {
        return err_set(e, ERR_MEMORY, "cannot resize a picture: memory ran out");
    }
    for (int o = 0; o < n; o++) {
        weigh(a, o, (skip + o + 0.5) * scale, wide, from);
    }
    return 0;
}

static uint8_t clip(int32_t sum)
{
    sum >>= BITS;
    return sum < 0 ? 0 : sum > 255 ? 255 : (uint8_t)sum;
}

static void resize_row(const struct axis *across, const uint8_t *from, uint8_t *to, int channels)
{
    for (int o = 0; o < across->n; o++) {
        const int32_t *weight = across->weight + (size_t)o * (size_t)across->most;
        const uint8_t *at = from + (size_t)across->first[o] * (size_t)channels;
        for (int c = 0; c < channels; c++) {
            int32_t sum = 1 << (BITS - 1);
            for (int i = 0; i < across->count[o]; i++) {
                sum += weight[i] * at[i * channels + c];
            }
            *to++ = clip(sum);
        }
    }
}

/* Computes row o of the result from rows of `wide` values; `rows` begins with row `base`. */
static void resize_column(const struct axis *down, int o, const uint8_t *rows, int base,
                          size_t wide, uint8_t *to)
{
    const int32_t *weight = down->weight + (size_t)o * (size_t)down->most;
    const uint8_t *at = rows + (size_t)(down->first[o] - base) * wide;
    for (size_t k = 0; k < wide; k++) {
        int32_t sum = 1 << (BITS - 1);
        for (int i = 0; i < down->count[o]; i++) {
            sum += weight[i] * at[(size_t)i * wide + k];
        }
        to[k] = clip(sum);
    }
}

static int resize_both(const struct pixels *from, const struct axis *down,
                       const struct axis *across, uint8_t *to, struct err *e)
{
    int base = down->first[0], end = down->first[down->n - 1] + down->count[down->n - 1];
    size_t wide = (size_t)across->n * (size_t)from->channels;
    uint8_t *rows = malloc((size_t)(end - base) * wide);
    if (!rows) {
        return err_set(e, ERR_MEMORY, "cannot resize a picture: memory ran out");
    }
    for (int r = base; r < end; r++) {
        size_t at = (size_t)r * (size_t)from->width * (size_t)from->channels;
        resize_row(across, from->at + at, rows + (size_t)(r - base) * wide, from->channels);
    }
    for (int o = 0; o < down->n; o++) {
        resize_column(down, o, rows, base, wide, to + (size_t)o * wide);
    }
    free(rows);
    return 0;
}

/* Crops a picture that already has the right size. */
static void cut(const struct pixels *from, const struct image_form *form, uint8_t *to)
{
    size_t pixel = (size_t)from->channels, wide = (size_t)form->width * pixel;
    size_t top = (size_t)(from->height - form->height) / 2,
           left = (size_t)(from->width - form->width) / 2;
    for (size_t r = 0; r < (size_t)form->height; r++) {
        memcpy(to + r * wide, from->at + ((top + r) * (size_t)from->width + left) * pixel, wide);
    }
}

int resize(const struct pixels *from, const struct image_form *form, uint8_t *to, struct err *e)
{
    int sides[2], rc;
    struct axis down = {0}, across = {0};
    resize_sides(form, from->height, from->width, sides);
    if (sides[0] == from->height && sides[1] == from->width) {
        cut(from, form, to);
        return 0;
    }
    if ((rc = axis_init(&down, from->height, sides[0], form->height, e)) == 0 &&
        (rc = axis_init(&across, from->width, sides[1], form->width, e)) == 0) {
        rc = resize_both(from, &down, &across, to, e);
    }
    axis_release(&down);
    axis_release(&across);
    return rc;
}
