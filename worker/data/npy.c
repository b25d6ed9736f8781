/* NumPy arrays: a folder with x.npy, y.npy, test_x.npy and test_y.npy, the first axis being samples.
 *
 * x: unsigned bytes are normalised like pictures, every other number becomes a float and is used as it is. Axes after the
 * first: [n] a vector, [h, w] a picture of one channel, [h, w, c]. y: whole numbers are labels (axis of samples only),
 * floats are targets. Format: "\x93NUMPY", version, length, a Python dictionary in text, then the values in C order.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "worker/data/dataset.h"

enum { AXES = 4, HEAD_MAX = 65536, CHUNK = 4096 };

struct npy_file {
    FILE *f;
    const char *name;
    char kind; /* 'u' 'i' 'f' 'b' */
    int width; /* bytes of a value */
    int rank;
    int64_t dim[AXES];
    int64_t each;   /* values of one sample */
    long head_bytes;
};

/* The text after 'KEY': in the header's dictionary, or NULL. */
static const char *find_key(const char *head, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "'%s':", key);
    const char *p = strstr(head, quoted);
    if (!p) {
        return NULL;
    }
    p += strlen(quoted);
    while (*p == ' ') {
        p++;
    }
    return p;
}

static int parse_type(struct npy_file *in, const char *p, struct err *e)
{
    bool fits = p && p[0] == '\'' && (p[1] == '<' || p[1] == '|') && p[2] && strchr("uifb", p[2]) && isdigit((unsigned char)p[3]) && p[4] == '\'';
    int width = fits ? p[3] - '0' : 0;
    if (!fits || (width != 1 && width != 2 && width != 4 && width != 8) || (p[2] == 'f' && width < 4)) {
        return err_set(e, ERR_DATA, "'%s' has values of the type %.12s: little-endian floats of 4 or 8 bytes and whole numbers of 1 to 8 can be read",
                       in->name, p ? p : "(none)");
    }
    in->kind = p[2];
    in->width = width;
    return 0;
}

static int parse_shape(struct npy_file *in, const char *p, struct err *e)
{
    if (!p || *p != '(') {
        return err_set(e, ERR_DATA, "'%s' has no shape in its header", in->name);
    }
    in->each = 1;
    for (p++; *p && *p != ')';) {
        char *end;
        long long v = strtoll(p, &end, 10);
        if (end == p || v < 0 || in->rank == AXES || v > ((int64_t)1 << 40)) {
            return err_set(e, ERR_DATA, "'%s' has a shape that cannot be used: %.40s", in->name, p);
        }
        in->dim[in->rank++] = v;
        if (in->rank > 1) {
            if (v < 1 || v > (1 << 24) || in->each > (1 << 28) / v) {
                return err_set(e, ERR_DATA, "'%s' has an axis of %lld", in->name, v);
            }
            in->each *= v;
        }
        p = end;
        while (*p == ',' || *p == ' ' || *p == 'L') {
            p++;
        }
    }
    return in->rank > 0 ? 0 : err_set(e, ERR_DATA, "'%s' is a single number, not samples", in->name);
}

static int read_head(struct npy_file *in, struct err *e)
{
    unsigned char b[12];
    if (fread(b, 1, 10, in->f) != 10 || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3 ||
        (b[6] > 1 && fread(b + 10, 1, 2, in->f) != 2)) {
        return err_set(e, ERR_DATA, "'%s' is not a .npy file: it does not begin as one does, at bytes 0 to 7", in->name);
    }
    size_t n = (size_t)b[8] | (size_t)b[9] << 8 | (b[6] > 1 ? (size_t)b[10] << 16 | (size_t)b[11] << 24 : 0);
    if (n > HEAD_MAX) {
        return err_set(e, ERR_DATA, "'%s' has a header of %zu bytes", in->name, n);
    }
    char *head = calloc(1, n + 1);
    if (!head) {
        return err_set(e, ERR_MEMORY, "cannot read '%s': memory ran out", in->name);
    }
    int rc = fread(head, 1, n, in->f) == n ? 0 : err_set(e, ERR_DATA, "'%s' ends within its header of %zu bytes", in->name, n);
    in->head_bytes = (b[6] > 1 ? 12 : 10) + (long)n;
    const char *order = find_key(head, "fortran_order");
    if (rc == 0 && (!order || strncmp(order, "False", 5) != 0)) {
        rc = err_set(e, ERR_DATA, "'%s' is in Fortran order; save it with numpy.ascontiguousarray", in->name);
    }
    if (rc == 0) {
        rc = parse_type(in, find_key(head, "descr"), e);
    }
    if (rc == 0) {
        rc = parse_shape(in, find_key(head, "shape"), e);
    }
    free(head);
    return rc;
}

static int open_npy(struct npy_file *in, const char *roots, const char *dir, const char *name, struct err *e)
{
    char path[4096];
    struct stat st;
    memset(in, 0, sizeof(*in));
    in->name = name;
    int rc = dataset_file(roots, dir, name, path, e);
    if (rc < 0) {
        return rc;
    }
    in->f = fopen(path, "rb");
    if (!in->f || fstat(fileno(in->f), &st) < 0) {
        return err_errno(e, ERR_IO, "cannot open '%s'", name);
    }
    rc = read_head(in, e);
    if (rc < 0) {
        return rc;
    }
    int64_t room = ((int64_t)st.st_size - in->head_bytes) / in->width;
    if (in->dim[0] > room / in->each || in->dim[0] * in->each != room) {
        return err_set(e, ERR_DATA, "'%s' should have %lld x %lld values after byte %ld, but has %lld", name, (long long)in->dim[0],
                       (long long)in->each, in->head_bytes, (long long)room);
    }
    return 0;
}

static double value_at(const struct npy_file *in, const char *p)
{
    union { int8_t i1; int16_t i2; int32_t i4; int64_t i8; uint8_t u1; uint16_t u2; uint32_t u4; uint64_t u8; float f4; double f8; } v;
    memcpy(&v, p, (size_t)in->width);
    if (in->kind == 'f') {
        return in->width == 4 ? (double)v.f4 : v.f8;
    }
    if (in->kind == 'i') {
        return in->width == 1 ? v.i1 : in->width == 2 ? v.i2 : in->width == 4 ? v.i4 : (double)v.i8;
    }
    return in->width == 1 ? v.u1 : in->width == 2 ? v.u2 : in->width == 4 ? v.u4 : (double)v.u8;
}

/* Reads every value, converted: kind 'u' to bytes, 'f' to floats, 'i' to labels. */
static int read_values(struct npy_file *in, char to, void *out, struct err *e)
{
    char chunk[CHUNK * 8];
    int64_t n = in->dim[0] * in->each;
    for (int64_t done = 0; done < n;) {
        size_t want = n - done < CHUNK ? (size_t)(n - done) : CHUNK;
        if (fread(chunk, (size_t)in->width, want, in->f) != want) {
            return err_set(e, ERR_DATA, "'%s' ends at value %lld of %lld, byte %lld", in->name, (long long)done, (long long)n,
                           (long long)in->head_bytes + done * in->width);
        }
        for (size_t i = 0; i < want; i++) {
            double v = value_at(in, chunk + i * (size_t)in->width);
            int64_t at = done + (int64_t)i;
            if (in->kind == 'f' && !isfinite(v)) {
                return err_set(e, ERR_DATA, "'%s' has the value %g in sample %lld, at byte %lld", in->name, v, (long long)(at / in->each),
                               (long long)in->head_bytes + at * in->width);
            }
            if (to == 'u') {
                ((uint8_t *)out)[at] = (uint8_t)v;
            } else if (to == 'f') {
                ((float *)out)[at] = (float)v;
            } else if (v < 0 || v >= 1 << 24) {
                return err_set(e, ERR_DATA, "'%s' has the label %.0f at sample %lld, at byte %lld", in->name, v, (long long)at,
                               (long long)in->head_bytes + at * in->width);
            } else {
                ((int32_t *)out)[at] = (int32_t)v;
            }
        }
        done += (int64_t)want;
    }
    return 0;
}

static int read_x(struct dataset *d, struct dataset_part *part, struct npy_file *in, bool peek, struct err *e)
{
    struct shape shape = {1, {(int)in->each, 0, 0}};
    if (in->rank > 2) {
        shape = (struct shape){3, {(int)in->dim[1], (int)in->dim[2], in->rank == 4 ? (int)in->dim[3] : 1}};
    }
    bool bytes = in->kind == 'u' && in->width == 1;
    if (d->input.rank && (memcmp(&shape, &d->input, sizeof(shape)) != 0 || bytes != d->x_bytes)) {
        return err_set(e, ERR_DATA, "'%s' has another shape or type than 'x.npy'", in->name);
    }
    d->input = shape;
    d->x_bytes = bytes;
    part->samples = in->dim[0];
    if (peek) {
        return 0;
    }
    part->x = malloc((size_t)(in->dim[0] * in->each) * (bytes ? 1 : sizeof(float)) + 1);
    if (!part->x) {
        return err_set(e, ERR_MEMORY, "cannot hold '%s': memory ran out", in->name);
    }
    return read_values(in, bytes ? 'u' : 'f', part->x, e);
}

static int read_y(struct dataset *d, struct dataset_part *part, struct npy_file *in, bool peek, bool first, struct err *e)
{
    bool labels = in->kind != 'f';
    int target = labels ? 0 : (int)in->each;
    if (in->dim[0] != part->samples) {
        return err_set(e, ERR_DATA, "'%s' has %lld samples, its x has %lld", in->name, (long long)in->dim[0], (long long)part->samples);
    }
    if (labels && in->each != 1) {
        return err_set(e, ERR_DATA, "'%s' holds whole numbers, so it must have one label per sample, not %lld", in->name, (long long)in->each);
    }
    if (!first && (labels != d->y_labels || target != d->target)) {
        return err_set(e, ERR_DATA, "'%s' has another shape or type than 'y.npy'", in->name);
    }
    d->y_labels = labels;
    d->target = target;
    if (peek && !labels) {
        return 0;
    }
    void *y = malloc((size_t)(in->dim[0] * in->each) * 4 + 4);
    int rc = y ? read_values(in, labels ? 'i' : 'f', y, e) : err_set(e, ERR_MEMORY, "cannot hold '%s': memory ran out", in->name);
    for (int64_t i = 0; rc == 0 && labels && i < in->dim[0]; i++) {
        int32_t c = ((int32_t *)y)[i];
        d->classes = c + 1 > d->classes ? c + 1 : d->classes;
    }
    if (rc < 0 || peek) {
        free(y);
    } else {
        part->y = y;
    }
    return rc;
}

static int npy_read(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots, const char *dir, bool peek,
                    struct err *e)
{
    static const char *const names[2][2] = {{"x.npy", "y.npy"}, {"test_x.npy", "test_y.npy"}};
    int rc = 0;
    for (int p = 0; rc == 0 && p < 2; p++) {
        struct dataset_part *part = p == 0 ? &d->train : &d->test;
        for (int i = 0; rc == 0 && i < 2; i++) {
            struct npy_file in;
            rc = open_npy(&in, roots, dir, names[p][i], e);
            if (rc == 0) {
                rc = i == 0 ? read_x(d, part, &in, peek, e) : read_y(d, part, &in, peek, p == 0, e);
            }
            if (in.f) {
                fclose(in.f);
            }
        }
    }
    return rc;
}

const struct dataset_format dataset_npy = {CAT_FORMAT_NPY, {"x.npy"}, npy_read};
