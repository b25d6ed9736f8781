/* How samples leave a data set: in the cursor's order, augmented, normalised, as floats.
 *
 *   picture ─► shifted (zeros or the edge come in) ─► padded with zeros ─► window ─► mirrored
 *           ─► x/255 ─► mean and deviation
 *
 * All of it is one mapping from a pixel of the window to a pixel of the picture, so nothing is
 * copied twice. Random choices are a function of (seed, epoch, index of the sample), drawn from a
 * counter. They must not depend on the rank, the minibatch or the order, or a job's results would
 * depend on the speed of its nodes (docs/semantics.md#samples).
 */
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "kernels/device.h"
#include "kernels/flat.h"
#include "kernels/samples.h"
#include "worker/data/dataset.h"
#include "worker/data/images/pictures.h"
#include "worker/data/files/stored.h"

enum { CHANNELS = DATASET_CHANNELS };
static const uint64_t augment_stream = 0x6175676d656e74ull;

/* ---- augmentation ---------------------------------------------------------------------------- */

/* Uniform in 0 … n-1. */
static int below(uint32_t word, int n)
{
    return (int)((uint64_t)word * (uint64_t)n >> 32);
}

static void draw_view(struct dev_view *v, const struct augment_spec *a, const struct shape *in,
                      const struct shape *out, const struct visit *visit, int64_t index)
{
    memset(v, 0, sizeof(*v));
    v->edge = a->shift_edge;
    if (!visit->training) {
        for (int i = 0; a->crop && i < 2; i++) {
            v->at[i] = (in->dim[i] - out->dim[i]) / 2;
        }
        return;
    }
    uint64_t key = rng_mix(visit->seed, augment_stream);
    struct rng_block first = rng_philox(key, (uint64_t)visit->epoch, 2 * (uint64_t)index);
    struct rng_block second = rng_philox(key, (uint64_t)visit->epoch, 2 * (uint64_t)index + 1);
    v->mirror = (double)rng_uniform(first.v[0]) < a->flip;
    for (int i = 0; i < 2; i++) {
        if (a->crop) {
            v->at[i] = below(first.v[1 + i], in->dim[i] + 2 * a->crop_padding - out->dim[i] + 1) -
                       a->crop_padding;
        }
        v->shift[i] = below(second.v[i], 2 * a->shift + 1) - a->shift;
    }
}

static bool plain(const struct augment_spec *a, const struct dataset *d, const struct shape *out,
                  bool training)
{
    bool whole = memcmp(&d->input, out, sizeof(*out)) == 0;
    return whole && !(training && (a->flip > 0 || a->shift > 0 || a->crop_padding > 0));
}

/* ---- values ---------------------------------------------------------------------------------- */

struct gather {
    const struct dataset *d;
    const struct data_spec *spec;
    struct shape out;
    struct form form; /* of the values in memory or in a mapped file */
    int channels, tables;
    float table[CHANNELS][256]; /* [c][v]: what byte v of channel c becomes */
};

/* The spec's mean and deviation take precedence. Without them, a picture uses its own, bytes are
 * divided by 255, and floats stay unchanged. */
static bool given_normalize(const struct data_spec *spec)
{
    return !spec->normalize_unit && !spec->normalize_picture && spec->n_normalize > 0;
}

static float normalised(const struct data_spec *spec, int channel, float x)
{
    int c = spec->n_normalize > 1 ? channel : 0;
    return (x - spec->mean[c]) / spec->deviation[c];
}

static void begin(struct gather *g, const struct dataset *d, const struct dataset_part *part,
                  const struct data_spec *spec)
{
    g->d = d;
    g->spec = spec;
    g->out = dataset_shape(d, spec);
    g->channels = d->input.rank == 3 ? d->input.dim[2] : 1;
    g->form = part->stored ? part->stored->form
                           : (struct form){.kind = d->x_bytes ? 'u' : 'f',
                                           .width = d->x_bytes ? 1 : sizeof(float)};
    bool own = given_normalize(spec);
    g->tables =
        d->x_bytes ? own && spec->n_normalize > 1 && g->channels <= CHANNELS ? g->channels : 1 : 0;
    for (int c = 0; c < g->tables; c++) {
        for (int v = 0; v < 256; v++) {
            float x = (float)v / 255.0f;
            g->table[c][v] = own ? normalised(spec, c, x) : x;
        }
    }
}

/* n values of bytes whose channels are in planes. */
static void put_planes(const struct gather *g, float *to, const uint8_t *from, size_t n)
{
    size_t channels = (size_t)g->channels, pixels = n / channels;
    for (size_t c = 0; c < channels; c++) {
        const float *table = g->table[g->tables > 1 ? c : 0];
        const uint8_t *plane = from + c * g->form.channel;
        for (size_t p = 0; p < pixels; p++) {
            to[p * channels + c] = table[plane[p]];
        }
    }
}

/* n values from channel 0 on; `from` NULL: zeros. */
static void put(const struct gather *g, float *to, const uint8_t *from, size_t n)
{
    size_t channels = (size_t)g->channels;
    if (g->d->x_bytes) {
        if (from && g->form.channel > 0) {
            put_planes(g, to, from, n);
            return;
        }
        if (from && g->tables == 1) {
            flat_look_up(to, from, g->table[0], n);
            return;
        }
        for (size_t j = 0; j < n; j++) {
            to[j] = g->table[j % (size_t)g->tables][from ? from[j] : 0];
        }
        return;
    }
    if (from) {
        form_floats(&g->form, to, from, n);
    } else {
        memset(to, 0, n * sizeof(float));
    }
    for (size_t j = 0; given_normalize(g->spec) && j < n; j++) {
        to[j] = normalised(g->spec, (int)(j % channels), to[j]);
    }
}

static void put_window(const struct gather *g, float *to, const uint8_t *from,
                       const struct dev_view *v)
{
    int height = g->out.dim[0], width = g->out.dim[1];
    size_t channels = (size_t)g->channels;
    size_t pixel = (g->form.channel > 0 ? 1 : channels) * (size_t)g->form.width;
    for (int i = 0; i < height; i++) {
        int row = view_source(v, 0, i, g->d->input.dim[0]);
        for (int j = 0; j < width; j++, to += channels) {
            int column = view_source(v, 1, v->mirror ? width - 1 - j : j, g->d->input.dim[1]);
            bool inside = row != VIEW_OUTSIDE && column != VIEW_OUTSIDE;
            size_t at = inside ? (size_t)row * (size_t)g->d->input.dim[1] + (size_t)column : 0;
            put(g, to, inside ? from + at * pixel : NULL, channels);
        }
    }
}

/* Subtracts the mean and divides by the deviation; a picture of one colour becomes zeros (the bound
 * is that of TensorFlow's per_image_standardization, for values up to 1). */
static void standardise(float *x, size_t n)
{
    double sum = 0, squares = 0, least = 1 / (255 * sqrt((double)n));
    for (size_t j = 0; j < n; j++) {
        sum += (double)x[j];
    }
    double mean = sum / (double)n;
    for (size_t j = 0; j < n; j++) {
        squares += ((double)x[j] - mean) * ((double)x[j] - mean);
    }
    double deviation = sqrt(squares / (double)n);
    deviation = deviation > least ? deviation : least;
    for (size_t j = 0; j < n; j++) {
        x[j] = (float)(((double)x[j] - mean) / deviation);
    }
}

/* Gathers samples index[…] into x. */
struct gathering {
    struct gather g;
    const struct visit *visit;
    const int64_t *index;
    size_t each; /* floats of a sample */
    bool whole;  /* samples are taken unchanged */
    float *x;
};

/* Gathers sample index[i], whose values are at `from`. */
static void gather_one(void *ctx, int64_t i, const uint8_t *from)
{
    const struct gathering *a = ctx;
    const struct data_spec *spec = a->g.spec;
    float *to = a->x + (size_t)i * a->each;
    if (a->whole) {
        put(&a->g, to, from, a->each);
    } else {
        struct dev_view v;
        draw_view(&v, &spec->augment, &a->g.d->input, &a->g.out, a->visit, a->index[i]);
        put_window(&a->g, to, from, &v);
    }
    if (spec->normalize_picture) {
        standardise(to, a->each);
    }
}

void dataset_gather(const struct dataset *d, const struct dataset_part *part,
                    const struct data_spec *spec, const struct visit *visit, const int64_t *index,
                    int64_t n, float *x, void *y)
{
    struct gathering a = {.visit = visit, .index = index, .x = x};
    begin(&a.g, d, part, spec);
    const struct stored_run *run;
    size_t nx = dataset_x_bytes(d);
    a.each = shape_count(&a.g.out);
    a.whole = plain(&spec->augment, d, &a.g.out, visit->training);
    if (part->pictures) {
        pictures_visit(part->pictures, index, n, gather_one, &a);
    }
    for (int64_t i = 0; !part->pictures && i < n; i++) {
        gather_one(&a, i,
                   part->stored && visit->once ? stored_once(part->stored, index[i], visit->once)
                   : part->stored              ? stored_at(part->stored, index[i], &run)
                                               : (const uint8_t *)part->x + (size_t)index[i] * nx);
    }
    dataset_targets(d, part, index, n, y);
}

bool dataset_source(const struct dataset *d, const struct dataset_part *part,
                    const struct data_spec *spec, struct dev_source *out,
                    float table[DATASET_CHANNELS][256])
{
    struct gather g;
    begin(&g, d, part, spec);
    if (g.tables == 0 || spec->normalize_picture || !part->x || part->samples == 0) {
        return false;
    }
    memcpy(table, g.table, sizeof(g.table));
    *out = (struct dev_source){.x = part->x,
                               .samples = part->samples,
                               .stored = d->input,
                               .out = g.out,
                               .tables = g.tables,
                               .table = table[0]};
    return true;
}

bool dataset_views(const struct dataset *d, const struct data_spec *spec, const struct visit *visit,
                   const int64_t *index, int64_t n, struct dev_view *out)
{
    struct shape shape = dataset_shape(d, spec);
    if (plain(&spec->augment, d, &shape, visit->training)) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        draw_view(&out[i], &spec->augment, &d->input, &shape, visit, index[i]);
    }
    return true;
}

void dataset_targets(const struct dataset *d, const struct dataset_part *part, const int64_t *index,
                     int64_t n, void *y)
{
    size_t ny = dataset_y_bytes(d);
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)y + (size_t)i * ny, (const char *)part->y + (size_t)index[i] * ny, ny);
    }
}
