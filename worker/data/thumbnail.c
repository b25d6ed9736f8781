/* See thumbnail.h. A larger sample is reduced by an integer factor; each pixel is the mean of the
 * pixels that it replaces. */
#include "worker/data/thumbnail.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* All values of a sample as floats from 0 to 255, or NULL. */
static float *values_of(const struct dataset *d, const struct dataset_part *part, int64_t sample)
{
    size_t n = shape_count(&d->input);
    uint8_t *raw = malloc(dataset_x_bytes(d));
    float *out = malloc(n * sizeof(*out));
    if (!raw || !out) {
        free(raw);
        free(out);
        return NULL;
    }
    dataset_copy(d, part, sample, 1, raw);
    float least = 0, most = 255;
    for (size_t i = 0; i < n; i++) {
        if (d->x_bytes) {
            out[i] = raw[i];
        } else {
            memcpy(&out[i], raw + i * sizeof(float), sizeof(float));
            least = i == 0 || out[i] < least ? out[i] : least;
            most = i == 0 || out[i] > most ? out[i] : most;
        }
    }
    for (size_t i = 0; !d->x_bytes && i < n; i++) {
        out[i] = most > least ? (out[i] - least) / (most - least) * 255.0f : 0;
    }
    free(raw);
    return out;
}

/* The mean of channel c over `by` x `by` pixels, without those outside the picture. */
static uint8_t mean(const float *x, const struct shape *s, int row, int column, int c, int by)
{
    float sum = 0;
    int n = 0;
    for (int i = row * by; i < (row + 1) * by && i < s->dim[0]; i++) {
        for (int j = column * by; j < (column + 1) * by && j < s->dim[1]; j++, n++) {
            sum += x[((size_t)i * (size_t)s->dim[1] + (size_t)j) * (size_t)s->dim[2] + (size_t)c];
        }
    }
    return (uint8_t)(sum / (float)n + 0.5f);
}

json_t *thumbnail(const struct dataset *d, const struct dataset_part *part, int64_t sample)
{
    enum { MOST = THUMBNAIL_SIDE * THUMBNAIL_SIDE * 3 };
    const struct shape *s = &d->input;
    uint8_t bytes[MOST];
    unsigned char text[(MOST + 2) / 3 * 4 + 1];
    if (s->rank != 3 || (s->dim[2] != 1 && s->dim[2] != 3)) {
        return NULL;
    }
    int side = s->dim[0] > s->dim[1] ? s->dim[0] : s->dim[1];
    int by = (side + THUMBNAIL_SIDE - 1) / THUMBNAIL_SIDE, n = 0;
    int height = (s->dim[0] + by - 1) / by, width = (s->dim[1] + by - 1) / by;
    float *x = values_of(d, part, sample);
    if (!x) {
        return NULL;
    }
    for (int i = 0; i < height * width; i++) {
        for (int c = 0; c < s->dim[2]; c++) {
            bytes[n++] = mean(x, s, i / width, i % width, c, by);
        }
    }
    free(x);
    EVP_EncodeBlock(text, bytes, n);
    return json_pack("{s:i, s:i, s:i, s:s}", "height", height, "width", width, "channels",
                     s->dim[2], "values", (const char *)text);
}
