/* NumPy arrays: a folder with x.npy, y.npy, test_x.npy and test_y.npy, or each compressed as
 * .npy.gz. The first axis is samples.
 *
 * x: unsigned bytes are normalised like pictures; every other number becomes a float and is used
 * unchanged. Axes after the first: [n] a vector, [h, w] a picture of one channel, [h, w, c]. y:
 * integers are labels (only the axis of samples), floats are targets. Format: "\x93NUMPY", version,
 * length, a Python dictionary in text, then the values.
 *
 * x stays in its file, which is mapped, in the type and byte order of the file. In Fortran order,
 * where the first axis runs fastest, a sample's values are scattered over the file, so such files
 * are read into memory. A compressed file does not tell its size, so a header's promise is compared
 * with what deflate could hold at most (1032:1) before memory is allocated.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "worker/data/dataset.h"
#include "worker/data/files/stored.h"
#include "worker/data/files/unpacked.h"

enum { AXES = 4, HEAD_MAX = 65536, CHUNK = 4096 };
enum { LABELS = 1 << 24 }; /* whole numbers that a float holds */

struct npy_file {
    gzFile f; /* reads plain files too */
    const char *name;
    char path[4096]; /* as found */
    struct form form;
    bool fortran;
    int rank;
    int64_t dim[AXES];
    int64_t each; /* values of one sample */
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

/* Is it a quoted type of one character each for byte order, kind and width, which can be read? */
static bool is_known_type(const char *p)
{
    static const struct {
        char kind;
        const char *widths;
    } known[] = {{'u', "1248"}, {'i', "1248"}, {'f', "248"}, {'b', "1"}};
    if (!p || p[0] != '\'' || !p[1] || !strchr("<>|", p[1])) {
        return false;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (p[2] == known[i].kind) {
            return p[3] && strchr(known[i].widths, p[3]) && p[4] == '\'';
        }
    }
    return false;
}

static int parse_type(struct npy_file *in, const char *p, struct err *e)
{
    if (!is_known_type(p)) {
        int shown = p && p[0] == '\'' && p[1] ? (int)strcspn(p + 1, "'") + 2 : 0;
        return err_set(
            e, ERR_DATA,
            "'%s' has values of the type %.*s: floats of 2, 4 or 8 bytes and whole numbers of 1 to "
            "8 can be read",
            in->name, shown > 0 && shown < 16 ? shown : 16, shown > 0 ? p : "of a record");
    }
    in->form.kind = p[2];
    in->form.width = p[3] - '0';
    in->form.swapped = p[1] == '>' && in->form.width > 1;
    return 0;
}

/* Adds the next axis, the samples' or one of each sample. */
static int add_axis(struct npy_file *in, long long size, struct err *e)
{
    in->dim[in->rank++] = size;
    if (in->rank == 1) {
        return 0;
    }
    if (size < 1 || size > (1 << 24) || in->each > (1 << 28) / size) {
        return err_set(e, ERR_DATA, "'%s' has an axis of %lld", in->name, size);
    }
    in->each *= size;
    return 0;
}

static int cannot_use_shape(const struct npy_file *in, const char *shape, struct err *e)
{
    size_t shown = strcspn(shape, ")") + 1;
    return err_set(e, ERR_DATA,
                   "'%s' has the shape %.*s, which cannot be used: samples come first, then 0 to 3 "
                   "axes",
                   in->name, shown < 60 ? (int)shown : 60, shape);
}

static int parse_shape(struct npy_file *in, const char *shape, struct err *e)
{
    if (!shape || *shape != '(') {
        return err_set(e, ERR_DATA, "'%s' has no shape in its header", in->name);
    }
    in->each = 1;
    for (const char *p = shape + 1; *p && *p != ')';) {
        char *end;
        long long size = strtoll(p, &end, 10);
        if (end == p || size < 0 || in->rank == AXES || size > ((int64_t)1 << 40)) {
            return cannot_use_shape(in, shape, e);
        }
        int rc = add_axis(in, size, e);
        if (rc < 0) {
            return rc;
        }
        p = end + strspn(end, ", L");
    }
    return in->rank > 0 ? 0
                        : err_set(e, ERR_DATA, "'%s' is a single number, not samples", in->name);
}

static bool read_bytes(struct npy_file *in, void *to, size_t n)
{
    return gzread(in->f, to, (unsigned)n) == (int)n;
}

/* zlib's complaint about a compressed file, or NULL. zlib reads ahead, so it may find the wrong
 * checksum at the end of a small file at once. */
static const char *damage(struct npy_file *in)
{
    int code;
    const char *why = gzerror(in->f, &code),
               *colon = strrchr(why, ':'); /* "PATH: incorrect data check" */
    return code == Z_OK || code == Z_STREAM_END ? NULL
           : colon                              ? colon + 1 + strspn(colon + 1, " ")
                                                : why;
}

static int parse_head(struct npy_file *in, const char *head, struct err *e)
{
    const char *order = find_key(head, "fortran_order");
    in->fortran = order && strncmp(order, "True", 4) == 0;
    if (!in->fortran && (!order || strncmp(order, "False", 5) != 0)) {
        return err_set(e, ERR_DATA,
                       "'%s' does not say in its header whether it is in Fortran order", in->name);
    }
    int rc = parse_type(in, find_key(head, "descr"), e);
    return rc == 0 ? parse_shape(in, find_key(head, "shape"), e) : rc;
}

static int read_head(struct npy_file *in, struct err *e)
{
    unsigned char b[12];
    bool whole = read_bytes(in, b, 10);
    if (!whole || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3 ||
        (b[6] > 1 && !read_bytes(in, b + 10, 2))) {
        return damage(in) ? err_set(e, ERR_DATA, "cannot read '%s': %s", in->name, damage(in))
                          : err_set(e, ERR_DATA, "'%s' is not a .npy file: it %s", in->name,
                                    whole ? "does not begin as one does, at bytes 0 to 7"
                                          : "has fewer than 10 bytes");
    }
    size_t n = (size_t)b[8] | (size_t)b[9] << 8 |
               (b[6] > 1 ? (size_t)b[10] << 16 | (size_t)b[11] << 24 : 0);
    if (n > HEAD_MAX) {
        return err_set(e, ERR_DATA, "'%s' has a header of %zu bytes", in->name, n);
    }
    char *head = calloc(1, n + 1);
    if (!head) {
        return err_set(e, ERR_MEMORY, "cannot read '%s': memory ran out", in->name);
    }
    in->head_bytes = (b[6] > 1 ? 12 : 10) + (long)n;
    int rc = read_bytes(in, head, n)
                 ? parse_head(in, head, e)
                 : err_set(e, ERR_DATA, "'%s' ends within its header of %zu bytes", in->name, n);
    free(head);
    return rc;
}

/* Can a file of this size hold this many values? */
static int check_size(struct npy_file *in, struct err *e)
{
    struct stat st;
    if (stat(in->path, &st) < 0) {
        return err_errno(e, ERR_IO, "cannot look at '%s'", in->name);
    }
    bool packed = !gzdirect(in->f);
    int64_t bytes = packed ? ((int64_t)st.st_size + 1) * DEFLATE_RATIO
                           : (int64_t)st.st_size - in->head_bytes,
            room = bytes / in->form.width;
    bool holds = in->dim[0] <= room / in->each;
    if (!holds || (!packed && in->dim[0] * in->each * in->form.width != bytes)) {
        return err_set(
            e, ERR_DATA,
            "'%s' should have %lld x %lld values of %d byte%s each after byte %ld, but has %lld "
            "%sbytes",
            in->name, (long long)in->dim[0], (long long)in->each, in->form.width,
            in->form.width == 1 ? "" : "s", in->head_bytes,
            packed ? (long long)st.st_size : (long long)bytes, packed ? "packed " : "");
    }
    return 0;
}

static int open_npy(struct npy_file *in, const char *roots, const char *dir, const char *name,
                    struct err *e)
{
    memset(in, 0, sizeof(*in));
    in->name = name;
    int rc = dataset_file(roots, dir, name, in->path, e);
    if (rc < 0 || !(in->f = dataset_open_file(in->path, name, e))) {
        return rc < 0 ? rc : -ERR_IO;
    }
    rc = read_head(in, e);
    if (rc < 0) {
        return rc;
    }
    return check_size(in, e);
}

/* Where value number `at` of the file belongs if samples are stored one after the other. */
static int64_t place_of(const struct npy_file *in, int64_t at)
{
    int64_t index[AXES], place = 0;
    if (!in->fortran) {
        return at;
    }
    for (int k = 0; k < in->rank; k++) {
        index[k] = at % in->dim[k];
        at /= in->dim[k];
    }
    for (int k = 0; k < in->rank; k++) {
        place = place * in->dim[k] + index[k];
    }
    return place;
}

/* Stores value number `at` of the file where it belongs. */
static int put_value(const struct npy_file *in, char to, void *out, int64_t at, double v,
                     struct err *e)
{
    int64_t place = place_of(in, at), byte = in->head_bytes + at * in->form.width;
    if (in->form.kind == 'f' && !isfinite(v)) {
        return err_set(e, ERR_DATA, "'%s' has the value %g in sample %lld, at byte %lld", in->name,
                       v, (long long)(place / in->each), (long long)byte);
    }
    if (to == 'u') {
        ((uint8_t *)out)[place] = (uint8_t)v;
    } else if (to == 'f') {
        if (fabs(v) > FLT_MAX) {
            return err_set(
                e, ERR_DATA,
                "'%s' has the value %g in sample %lld, at byte %lld, which no float holds",
                in->name, v, (long long)(place / in->each), (long long)byte);
        }
        ((float *)out)[place] = (float)v;
    } else if (v < 0 || v >= LABELS) {
        return err_set(e, ERR_DATA,
                       "'%s' has the label %.0f at sample %lld, at byte %lld; labels are 0 to %d",
                       in->name, v, (long long)place, (long long)byte, LABELS - 1);
    } else {
        ((int32_t *)out)[place] = (int32_t)v;
    }
    return 0;
}

/* Call it after reading all values: checks that the file ends here. Only at the end does zlib
 * compare the checksum of a compressed file. */
static int check_end(struct npy_file *in, int64_t at, struct err *e)
{
    char more;
    int got = gzread(in->f, &more, 1);
    if (got > 0) {
        return err_set(e, ERR_DATA,
                       "'%s' goes on after byte %lld, where its header says that it ends", in->name,
                       (long long)at);
    }
    return damage(in) ? err_set(e, ERR_DATA, "cannot read '%s' near byte %lld: %s", in->name,
                                (long long)at, damage(in))
                      : 0;
}

static int ends_after(struct npy_file *in, int64_t value, struct err *e)
{
    const char *why = damage(in);
    return err_set(e, ERR_DATA, "'%s' ends after value %lld of %lld, byte %lld%s%s", in->name,
                   (long long)value, (long long)(in->dim[0] * in->each),
                   (long long)in->head_bytes + value * in->form.width, why ? ": " : "",
                   why ? why : "");
}

/* Reads every value, converted: kind 'u' to bytes, 'f' to floats, 'i' to labels. */
static int read_values(struct npy_file *in, char to, void *out, struct err *e)
{
    uint8_t chunk[CHUNK * 8];
    int64_t n = in->dim[0] * in->each;
    for (int64_t done = 0; done < n;) {
        size_t want = n - done < CHUNK ? (size_t)(n - done) : CHUNK;
        if (!read_bytes(in, chunk, want * (size_t)in->form.width)) {
            return ends_after(in, done, e);
        }
        for (size_t i = 0; i < want; i++) {
            int rc = put_value(in, to, out, done + (int64_t)i,
                               form_value(&in->form, chunk + i * (size_t)in->form.width), e);
            if (rc < 0) {
                return rc;
            }
        }
        done += (int64_t)want;
    }
    return check_end(in, in->head_bytes + n * in->form.width, e);
}

/* The values stay in the file, unless its samples are scattered over it. */
static int take_values(const struct dataset *d, struct dataset_part *part, struct npy_file *in,
                       struct err *e)
{
    if (!in->fortran) {
        int64_t bytes = in->head_bytes + in->dim[0] * in->each * in->form.width;
        struct unpack u = {in->f, in->path, in->name, bytes, bytes, 0};
        in->form.sample = (size_t)(in->each * in->form.width);
        int rc = dataset_take_file(d, part, &u, (size_t)in->head_bytes, &in->form, e);
        return rc == -ERR_DATA && u.got > in->head_bytes && u.got < bytes
                   ? ends_after(in, (u.got - in->head_bytes) / in->form.width, e)
                   : rc;
    }
    part->x = malloc((size_t)(in->dim[0] * in->each) * (d->x_bytes ? 1 : sizeof(float)) + 1);
    if (!part->x) {
        return err_set(e, ERR_MEMORY, "cannot hold '%s': memory ran out", in->name);
    }
    return read_values(in, d->x_bytes ? 'u' : 'f', part->x, e);
}

static int read_x(struct dataset *d, struct dataset_part *part, struct npy_file *in, bool peek,
                  struct err *e)
{
    struct shape shape = {1, {(int)in->each, 0, 0}};
    if (in->rank > 2) {
        shape = (struct shape){
            3, {(int)in->dim[1], (int)in->dim[2], in->rank == 4 ? (int)in->dim[3] : 1}};
    }
    bool bytes = in->form.kind == 'u' && in->form.width == 1;
    if (d->input.rank && (memcmp(&shape, &d->input, sizeof(shape)) != 0 || bytes != d->x_bytes)) {
        return err_set(e, ERR_DATA, "'%s' has another shape or type than 'x.npy'", in->name);
    }
    d->input = shape;
    d->x_bytes = bytes;
    part->samples = in->dim[0];
    return peek ? 0 : take_values(d, part, in, e);
}

static int read_y(struct dataset *d, struct dataset_part *part, struct npy_file *in, bool peek,
                  bool first, struct err *e)
{
    bool labels = in->form.kind != 'f';
    int target = labels ? 0 : (int)in->each;
    if (in->dim[0] != part->samples) {
        return err_set(e, ERR_DATA, "'%s' has %lld samples, its x has %lld", in->name,
                       (long long)in->dim[0], (long long)part->samples);
    }
    if (labels && in->each != 1) {
        return err_set(e, ERR_DATA,
                       "'%s' holds whole numbers, so it must have one label per sample, not %lld",
                       in->name, (long long)in->each);
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
    int rc = y ? read_values(in, labels ? 'i' : 'f', y, e)
               : err_set(e, ERR_MEMORY, "cannot hold '%s': memory ran out", in->name);
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

static int npy_read(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                    const char *roots, const char *dir, bool peek, struct err *e)
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
                gzclose(in.f);
            }
        }
    }
    return rc;
}

const struct dataset_format dataset_npy = {
    .id = CAT_FORMAT_NPY, .markers = {"x.npy"}, .read = npy_read};
