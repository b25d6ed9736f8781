/* See stored.h.
 *
 *   file      │ header │ sample 0 │ sample 1 │ …        (npy, IDX: one run)
 *   files     │ label │ planes │ label │ planes │ …     (CIFAR: a run for each file)
 *
 * Turning a value into a float goes through double, as NumPy does, so whole numbers of 8 bytes and
 * A value becomes a float by way of double, as in NumPy, so integers of 8 bytes and doubles are
 * rounded once.
 */
#include "worker/data/files/stored.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/files/direct.h"

struct stored *stored_new(const struct form *form)
{
    struct stored *s = calloc(1, sizeof(*s));
    if (s) {
        s->form = *form;
    }
    return s;
}

void stored_free(struct stored *s)
{
    for (int i = 0; s && i < s->n; i++) {
        mapped_close(s->run[i].file);
    }
    if (s) {
        free(s->order);
    }
    free(s);
}

void stored_add(struct stored *s, struct mapped *file, size_t offset, int64_t samples)
{
    BUG_ON(s->n == STORED_RUNS);
    s->run[s->n++] = (struct stored_run){mapped_share(file), file->at + offset, samples};
}

const uint8_t *stored_at(const struct stored *s, int64_t i, const struct stored_run **run)
{
    i = s->order ? s->order[i] : i;
    int r = 0;
    while (r < s->n - 1 && i >= s->run[r].samples) {
        i -= s->run[r++].samples;
    }
    *run = &s->run[r];
    return s->run[r].at + (size_t)i * s->form.sample;
}

static bool stays(const struct mapped *m, const uint8_t *at, const struct once *once)
{
    return m->fd < 0 || (double)(at - m->at) >= (1 - once->kept) * (double)m->bytes;
}

/* A file may end within its last sample. */
static size_t bytes_of(const struct stored *s, const struct mapped *m, const uint8_t *at)
{
    size_t left = m->bytes - (size_t)(at - m->at);
    return left < s->form.sample ? left : s->form.sample;
}

const uint8_t *stored_once(const struct stored *s, int64_t i, const struct once *once)
{
    const struct stored_run *run;
    const uint8_t *at = stored_at(s, i, &run), *read = NULL;
    struct mapped *m = run->file;
    if (stays(m, at, once)) {
        return at;
    }
    if (once->direct && (read = direct_take(once->direct, at))) {
        return read;
    }
    mapped_once(m, at, bytes_of(s, m, at), once->room);
    return once->room;
}

/* ---- values ---------------------------------------------------------------------------------- */

static double half_float(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double v = exponent == 31 ? (mantissa ? NAN : INFINITY)
               : exponent     ? ldexp(mantissa + 1024, exponent - 25)
                              : ldexp(mantissa, -24);
    return h >> 15 ? -v : v;
}

double form_value(const struct form *f, const uint8_t *from)
{
    union {
        uint8_t b[8];
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
        uint64_t u8;
        float f4;
        double f8;
    } v = {{0}};
    for (int i = 0; i < f->width; i++) {
        v.b[i] = from[f->swapped ? f->width - 1 - i : i];
    }
    if (f->kind == 'f') {
        return f->width == 2 ? half_float(v.u2) : f->width == 4 ? (double)v.f4 : v.f8;
    }
    if (f->kind == 'i') {
        return f->width == 1 ? v.i1 : f->width == 2 ? v.i2 : f->width == 4 ? v.i4 : (double)v.i8;
    }
    return f->width == 1 ? v.u1 : f->width == 2 ? v.u2 : f->width == 4 ? v.u4 : (double)v.u8;
}

void form_floats(const struct form *f, float *to, const uint8_t *from, size_t n)
{
    if (f->kind == 'f' && f->width == sizeof(float) && !f->swapped) {
        memcpy(to, from, n * sizeof(float));
        return;
    }
    for (size_t j = 0; j < n; j++) {
        to[j] = (float)form_value(f, from + j * (size_t)f->width);
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool is_bytes(const struct form *f)
{
    return f->kind == 'u' && f->width == 1;
}

const void *stored_plain(const struct stored *s, const struct shape *shape)
{
    const struct form *f = &s->form;
    bool ours = is_bytes(f) || (f->kind == 'f' && f->width == sizeof(float) && !f->swapped &&
                                (uintptr_t)s->run[0].at % sizeof(float) == 0);
    return ours && s->n == 1 && !s->order && f->channel == 0 &&
                   f->sample == shape_count(shape) * (size_t)f->width
               ? s->run[0].at
               : NULL;
}

void stored_copy(const struct stored *s, const struct shape *shape, int64_t i, void *to)
{
    const struct form *f = &s->form;
    const struct stored_run *run;
    const uint8_t *from = stored_at(s, i, &run);
    size_t n = shape_count(shape);
    if (!is_bytes(f)) {
        form_floats(f, to, from, n);
        return;
    }
    if (f->channel == 0) {
        memcpy(to, from, n);
        return;
    }
    size_t channels = (size_t)shape->dim[2];
    for (size_t c = 0; c < channels; c++) {
        for (size_t p = 0; p < n / channels; p++) {
            ((uint8_t *)to)[p * channels + c] = from[c * f->channel + p];
        }
    }
}

int stored_finite(const struct stored *s, const struct shape *shape, int64_t i, struct err *e)
{
    const struct form *f = &s->form;
    const struct stored_run *run;
    const uint8_t *from = stored_at(s, i, &run);
    size_t n = f->kind == 'f' ? shape_count(shape) : 0;
    for (size_t j = 0; j < n; j++) {
        const uint8_t *at = from + j * (size_t)f->width;
        double v = form_value(f, at);
        if (!isfinite(v) || fabs(v) > FLT_MAX) {
            return err_set(e, ERR_DATA, "'%s' has the value %g in sample %lld, at byte %lld%s",
                           run->file->name, v, (long long)((size_t)(from - run->at) / f->sample),
                           (long long)(at - run->file->at),
                           isfinite(v) ? ", which no float holds" : "");
        }
    }
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

int stored_check(const struct stored *s, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < s->n; i++) {
        rc = mapped_check(s->run[i].file, e);
    }
    return rc;
}

void stored_shuffled(const struct stored *s)
{
    for (int i = 0; i < s->n; i++) {
        mapped_shuffled(s->run[i].file);
    }
}

void stored_ahead(const struct stored *s, const struct once *once, const int64_t *index, int64_t n)
{
    struct direct *d = once ? once->direct : NULL;
    for (int64_t i = 0; i < n; i++) {
        const struct stored_run *run;
        const uint8_t *at = stored_at(s, index[i], &run);
        struct mapped *m = run->file;
        if (!d || stays(m, at, once) || !mapped_direct(m, at, bytes_of(s, m, at), d)) {
            mapped_ahead(m, at, s->form.sample);
        }
    }
    if (d) {
        direct_begin(d);
    }
}
