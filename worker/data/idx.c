/* IDX files as MNIST has them: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-…,
 * t10k-labels-…, gzip or not (zlib reads both through the same calls). Big-endian header: 0 0 TYPE
 * RANK, then RANK sizes of 32 bits.
 *
 * Sizes come from the file, so they are compared with what the file can hold before anything is
 * allocated: exactly, or, as deflate never packs better than 1032:1, by that bound.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "worker/data/dataset.h"
#include "worker/data/files/stored.h"
#include "worker/data/files/unpacked.h"

enum { IDX_UBYTE = 8, SIDE_MAX = 16384 };

struct idx_file {
    gzFile f;
    char name[64];   /* for messages */
    char path[4096]; /* as found */
    int rank;
    int64_t dim[4];
    int64_t each; /* bytes of one sample */
};

static int read_exactly(struct idx_file *in, void *to, int64_t bytes, int64_t at, struct err *e)
{
    char *p = to;
    for (int64_t done = 0; done < bytes;) {
        unsigned want = bytes - done > (1 << 30) ? 1u << 30 : (unsigned)(bytes - done);
        int got = gzread(in->f, p + done, want);
        if (got <= 0) {
            return unpacked_torn(in->f, in->name, at + done, at + bytes, e);
        }
        done += got;
    }
    return 0;
}

/* Call it after reading all bytes: checks that the file ends here. Only at the end does zlib
 * compare the checksum of a compressed file. */
static int check_end(struct idx_file *in, int64_t at, struct err *e)
{
    char more;
    int code, got = gzread(in->f, &more, 1);
    const char *why = gzerror(in->f, &code);
    if (got > 0) {
        return err_set(e, ERR_DATA,
                       "'%s' goes on after byte %lld, where its header says that it ends", in->name,
                       (long long)at);
    }
    return got == 0 && (code == Z_OK || code == Z_STREAM_END)
               ? 0
               : err_set(e, ERR_DATA, "cannot read '%s' near byte %lld: %s", in->name,
                         (long long)at, why);
}

/* Can a file of this size hold this many bytes? */
static int check_size(struct idx_file *in, struct err *e)
{
    struct stat st;
    if (stat(in->path, &st) < 0) {
        return err_errno(e, ERR_IO, "cannot look at '%s'", in->name);
    }
    int64_t want = in->dim[0] * in->each + 4 + 4 * in->rank;
    bool packed = !gzdirect(in->f);
    if (packed ? want > ((int64_t)st.st_size + 1) * DEFLATE_RATIO : want != (int64_t)st.st_size) {
        return err_set(
            e, ERR_DATA, "'%s' promises %lld bytes (byte 4 of its header on), but has %lld%s",
            in->name, (long long)want, (long long)st.st_size, packed ? " packed ones" : "");
    }
    return 0;
}

static int read_header(struct idx_file *in, int rank_min, int rank_max, struct err *e)
{
    unsigned char b[4];
    int rc = read_exactly(in, b, 4, 0, e);
    if (rc < 0) {
        return rc;
    }
    if (b[0] != 0 || b[1] != 0 || b[2] != IDX_UBYTE || b[3] < rank_min || b[3] > rank_max) {
        return err_set(
            e, ERR_DATA,
            "'%s' is not an IDX file of bytes with %d axes: it begins with %02x %02x %02x %02x",
            in->name, rank_min, b[0], b[1], b[2], b[3]);
    }
    in->rank = b[3];
    in->each = 1;
    for (int i = 0; i < in->rank; i++) {
        rc = read_exactly(in, b, 4, 4 + 4 * i, e);
        if (rc < 0) {
            return rc;
        }
        in->dim[i] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | (int64_t)b[3];
        if (i > 0 && (in->dim[i] < 1 || in->dim[i] > SIDE_MAX)) {
            return err_set(e, ERR_DATA, "'%s' has an axis of %lld at byte %d, 1 to %d are possible",
                           in->name, (long long)in->dim[i], 4 + 4 * i, SIDE_MAX);
        }
        in->each *= i > 0 ? in->dim[i] : 1;
    }
    return 0;
}

static int open_idx(struct idx_file *in, const char *roots, const char *dir, const char *name,
                    int rank_min, int rank_max, struct err *e)
{
    memset(in, 0, sizeof(*in));
    snprintf(in->name, sizeof(in->name), "%s", name);
    int rc = dataset_file(roots, dir, name, in->path, e);
    if (rc < 0 || !(in->f = dataset_open_file(in->path, name, e))) {
        return rc < 0 ? rc : -ERR_IO;
    }
    rc = read_header(in, rank_min, rank_max, e);
    if (rc < 0) {
        return rc;
    }
    return check_size(in, e);
}

static int read_labels(struct dataset *d, struct dataset_part *part, struct idx_file *in, bool peek,
                       struct err *e)
{
    int64_t n = in->dim[0];
    uint8_t *bytes = malloc((size_t)n + 1);
    int32_t *labels = malloc(((size_t)n + 1) * sizeof(int32_t));
    int rc = bytes && labels ? read_exactly(in, bytes, n, 8, e)
                             : err_set(e, ERR_MEMORY, "cannot hold %lld labels", (long long)n);
    if (rc >= 0) {
        rc = check_end(in, 8 + n, e);
    }
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        labels[i] = bytes[i];
        d->classes = bytes[i] + 1 > d->classes ? bytes[i] + 1 : d->classes;
    }
    free(bytes);
    if (rc < 0 || peek) {
        free(labels);
    } else {
        part->y = labels;
    }
    return rc;
}

/* The images stay in the file. */
static int take_images(const struct dataset *d, struct dataset_part *part, struct idx_file *in,
                       struct err *e)
{
    struct form form = {.kind = 'u', .width = 1, .sample = (size_t)in->each};
    int64_t head = 4 + 4 * in->rank, bytes = head + part->samples * in->each;
    struct unpack u = {in->f, in->path, in->name, bytes, bytes, 0};
    return dataset_take_file(d, part, &u, (size_t)head, &form, e);
}

static int read_part(struct dataset *d, struct dataset_part *part, const char *roots,
                     const char *dir, const char *prefix, bool peek, struct err *e)
{
    char name[64];
    struct idx_file images = {0}, labels = {0};
    snprintf(name, sizeof(name), "%s-images-idx3-ubyte", prefix);
    int rc = open_idx(&images, roots, dir, name, 3, 4, e);
    if (rc < 0) {
        goto out;
    }
    snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", prefix);
    rc = open_idx(&labels, roots, dir, name, 1, 1, e);
    if (rc < 0) {
        goto out;
    }
    if (images.dim[0] != labels.dim[0]) {
        rc = err_set(e, ERR_DATA, "'%s' has %lld samples, '%s' has %lld", images.name,
                     (long long)images.dim[0], labels.name, (long long)labels.dim[0]);
        goto out;
    }
    struct shape shape = {
        3, {(int)images.dim[1], (int)images.dim[2], images.rank == 4 ? (int)images.dim[3] : 1}};
    if (d->input.rank && memcmp(&d->input, &shape, sizeof(shape)) != 0) {
        rc = err_set(e, ERR_DATA, "'%s' has pictures of %d x %d, the training samples have %d x %d",
                     images.name, shape.dim[0], shape.dim[1], d->input.dim[0], d->input.dim[1]);
        goto out;
    }
    d->input = shape;
    part->samples = images.dim[0];
    rc = read_labels(d, part, &labels, peek, e);
    if (rc == 0 && !peek) {
        rc = take_images(d, part, &images, e);
    }
out:
    if (images.f) {
        gzclose(images.f);
    }
    if (labels.f) {
        gzclose(labels.f);
    }
    return rc;
}

static int idx_read(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                    const char *roots, const char *dir, bool peek, struct err *e)
{
    d->x_bytes = true;
    d->y_labels = true;
    int rc = read_part(d, &d->train, roots, dir, "train", peek, e);
    if (rc < 0) {
        return rc;
    }
    return read_part(d, &d->test, roots, dir, "t10k", peek, e);
}

const struct dataset_format dataset_idx = {
    .id = CAT_FORMAT_IDX, .markers = {"train-images-idx3-ubyte"}, .read = idx_read};
