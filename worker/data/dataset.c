/* Data sets: where they are and what they must be. gather.c brings samples into a minibatch, list.c
 * finds out which data sets there are.
 *
 * Formats (idx.c cifar.c npy.c glyphs.c) only read; everything that holds for all of them is here:
 * finding the folder beneath EVENSTEP_DATA, splitting off a validation part, the digest by which
 * nodes know that they have the same values, and the check against a network.
 *
 * A path comes from a job's spec, so it must not lead outside the roots, symbolic links included.
 * Every path, that of a single file too, is therefore resolved first and compared afterwards.
 */
#include "worker/data/dataset.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/hex.h"
#include "common/rng.h"
#include "job/sample.h"

enum { PATH_BYTES = 4096, ROOTS = 64 };

const struct dataset_format *const dataset_formats[] = {
    &dataset_idx, &dataset_cifar_10, &dataset_cifar_100, &dataset_npy, &dataset_glyphs, NULL};

/* ---- paths ----------------------------------------------------------------------------------- */

bool dataset_next_root(const char **roots, char *out)
{
    while (**roots) {
        size_t n = strcspn(*roots, ":");
        char raw[PATH_BYTES];
        bool fits = n > 0 && n < sizeof(raw);
        if (fits) {
            memcpy(raw, *roots, n);
            raw[n] = '\0';
        }
        *roots += n + ((*roots)[n] == ':');
        if (fits && realpath(raw, out)) {
            return true;
        }
    }
    return false;
}

static bool is_beneath(const char *root, const char *path)
{
    size_t n = strlen(root);
    return strncmp(root, path, n) == 0 && (path[n] == '\0' || path[n] == '/' || n == 1);
}

static bool beneath_any(const char *roots, const char *path)
{
    char root[PATH_BYTES];
    while (dataset_next_root(&roots, root)) {
        if (is_beneath(root, path)) {
            return true;
        }
    }
    return false;
}

int dataset_resolve(const char *roots, const char *dir, const char *name, char *out, struct err *e)
{
    char raw[PATH_BYTES];
    int n = snprintf(raw, sizeof(raw), "%s/%s", dir, name);
    if (n < 0 || n >= (int)sizeof(raw) || !realpath(raw, out)) {
        return RESOLVED_NOTHING;
    }
    if (!beneath_any(roots, out)) {
        return err_set(e, ERR_FORBIDDEN, "cannot use '%.200s': it leads outside the data folders",
                       name);
    }
    return RESOLVED_FOUND;
}

int dataset_find(const char *roots, const char *path, char *out, struct err *e)
{
    char root[PATH_BYTES];
    const char *rest = roots;
    while (dataset_next_root(&rest, root)) {
        int rc = dataset_resolve(roots, root, path, out, e);
        if (rc != RESOLVED_NOTHING) {
            return rc < 0 ? rc : 0;
        }
    }
    err_set(e, ERR_NOT_FOUND, "cannot find '%.200s' beneath the data folders %.200s", path,
            *roots ? roots : "(none)");
    err_hint(
        e,
        "set EVENSTEP_DATA to the folder that holds it, or use the format glyphs, which needs no "
        "file");
    return -ERR_NOT_FOUND;
}

int dataset_file(const char *roots, const char *dir, const char *name, char *out, struct err *e)
{
    char packed[256];
    int rc = dataset_resolve(roots, dir, name, out, e);
    if (rc == RESOLVED_NOTHING) {
        snprintf(packed, sizeof(packed), "%s.gz", name);
        rc = dataset_resolve(roots, dir, packed, out, e);
    }
    if (rc == RESOLVED_NOTHING) {
        return err_set(e, ERR_NOT_FOUND, "there is no file '%s' in '%.300s'", name, dir);
    }
    struct stat st;
    if (rc == RESOLVED_FOUND && stat(out, &st) == 0 &&
        !S_ISREG(st.st_mode)) { /* opening a pipe would wait for a writer */
        return err_set(e, ERR_DATA, "'%s' is no regular file", name);
    }
    return rc < 0 ? rc : 0;
}

gzFile dataset_open_file(const char *path, const char *name, struct err *e)
{
    gzFile f = gzopen(path, "rb");
    if (!f) {
        err_errno(e, ERR_IO, "cannot open '%s'", name);
        return NULL;
    }
    gzbuffer(f, 1 << 18);
    return f;
}

static const struct dataset_format *format_find(int id)
{
    for (int i = 0; dataset_formats[i]; i++) {
        if (dataset_formats[i]->id == id) {
            return dataset_formats[i];
        }
    }
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

size_t dataset_x_bytes(const struct dataset *d)
{
    return shape_count(&d->input) * (d->x_bytes ? sizeof(uint8_t) : sizeof(float));
}

size_t dataset_y_bytes(const struct dataset *d)
{
    return d->y_labels ? sizeof(int32_t) : (size_t)d->target * sizeof(float);
}

static void part_release(struct dataset_part *p)
{
    free(p->x);
    free(p->y);
    p->x = NULL;
    p->y = NULL;
}

static int part_alloc(const struct dataset *d, struct dataset_part *p, int64_t samples,
                      struct err *e)
{
    p->samples = samples;
    p->x = malloc((size_t)samples * dataset_x_bytes(d) + 1);
    p->y = malloc((size_t)samples * dataset_y_bytes(d) + 1);
    if (!p->x || !p->y) {
        part_release(p);
        return err_set(e, ERR_MEMORY, "cannot hold %lld samples: memory ran out",
                       (long long)samples);
    }
    return 0;
}

static void part_copy(const struct dataset *d, struct dataset_part *to, int64_t at,
                      const struct dataset_part *from, int64_t i)
{
    size_t nx = dataset_x_bytes(d), ny = dataset_y_bytes(d);
    memcpy((char *)to->x + (size_t)at * nx, (const char *)from->x + (size_t)i * nx, nx);
    memcpy((char *)to->y + (size_t)at * ny, (const char *)from->y + (size_t)i * ny, ny);
}

/* The first `held` positions of a seeded permutation leave the training part and become the test
 * part. */
static int split_validation(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                            bool peek, struct err *e)
{
    int64_t n = d->train.samples, held = (int64_t)((double)n * spec->validation);
    if (held < 1 || held >= n) {
        return err_set(e, ERR_INVALID,
                       "a validation share of %g leaves %lld of %lld samples for training",
                       spec->validation, (long long)(n - held), (long long)n);
    }
    if (peek) {
        d->train.samples = n - held;
        d->test.samples = held;
        return 0;
    }
    struct dataset_part train = {0}, test = {0};
    int rc = part_alloc(d, &train, n - held, e);
    if (rc == 0) {
        rc = part_alloc(d, &test, held, e);
    }
    if (rc < 0) {
        part_release(&train);
        return rc;
    }
    uint64_t key = rng_mix(seed, 0x76616c6964ull);
    for (int64_t p = 0; p < n; p++) {
        int64_t i = sample_index(key, 0, p, n, true);
        part_copy(d, p < held ? &test : &train, p < held ? p : p - held, &d->train, i);
    }
    part_release(&d->train);
    part_release(&d->test);
    d->train = train;
    d->test = test;
    return 0;
}

static int read_dataset(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                        const char *roots, bool peek, struct err *e)
{
    memset(d, 0, sizeof(*d));
    const struct dataset_format *f = format_find(spec->format);
    if (!f) {
        return err_set(e, ERR_UNSUPPORTED, "this build cannot read the data format '%s'",
                       catalog_get(spec->format)->name);
    }
    char dir[PATH_BYTES] = "";
    int rc = f->markers[0] ? dataset_find(roots, spec->path, dir, e) : 0;
    if (rc == 0) {
        rc = f->read(d, spec, seed, roots, dir, peek, e);
    }
    if (rc == 0 && (d->train.samples < 1 || d->test.samples < 1)) {
        rc = err_set(e, ERR_DATA, "there are no %s samples",
                     d->train.samples < 1 ? "training" : "test");
    }
    if (rc == 0 && spec->validation > 0) {
        rc = split_validation(d, spec, seed, peek, e);
    }
    if (rc < 0) {
        dataset_release(d);
        return err_prefix(e, "cannot read data set '%.100s'",
                          f->markers[0] ? spec->path : catalog_get(spec->format)->name);
    }
    return 0;
}

int dataset_open(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                 struct err *e)
{
    int rc = read_dataset(d, spec, seed, roots, false, e);
    if (rc == 0) {
        dataset_digest(d, d->digest);
    }
    return rc;
}

int dataset_peek(struct dataset *d, const struct data_spec *spec, const char *roots, struct err *e)
{
    return read_dataset(d, spec, 0, roots, true, e);
}

void dataset_release(struct dataset *d)
{
    part_release(&d->train);
    part_release(&d->test);
}

void dataset_digest(const struct dataset *d, char out[65])
{
    char head[160];
    int n = snprintf(head, sizeof(head), "%d %d %d %d %d %d %d %lld %lld\n", d->input.rank,
                     d->input.dim[0], d->input.dim[1], d->input.dim[2], d->x_bytes, d->y_labels,
                     d->target, (long long)d->train.samples, (long long)d->test.samples);
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    BUG_ON(!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1);
    EVP_DigestUpdate(md, head, (size_t)n);
    const struct dataset_part *parts[] = {&d->train, &d->test};
    for (int i = 0; i < 2; i++) {
        EVP_DigestUpdate(md, parts[i]->x, (size_t)parts[i]->samples * dataset_x_bytes(d));
        EVP_DigestUpdate(md, parts[i]->y, (size_t)parts[i]->samples * dataset_y_bytes(d));
    }
    EVP_DigestFinal_ex(md, sum, &length);
    EVP_MD_CTX_free(md);
    hex_of(out, sum, 32);
}

/* ---- fitting a network ----------------------------------------------------------------------- */

static const char *shape_text(const struct shape *s, char out[64])
{
    if (s->rank == 1) {
        snprintf(out, 64, "[%d]", s->dim[0]);
    } else {
        snprintf(out, 64, "[%d, %d, %d]", s->dim[0], s->dim[1], s->dim[2]);
    }
    return out;
}

/* A vector may take the values of a picture with one channel: the order is the same. */
static bool shapes_fit(const struct shape *data, const struct shape *net)
{
    if (data->rank == net->rank) {
        return memcmp(data->dim, net->dim, (size_t)data->rank * sizeof(int)) == 0;
    }
    const struct shape *picture = data->rank == 3 ? data : net;
    return picture->rank == 3 && picture->dim[2] == 1 && shape_count(data) == shape_count(net);
}

static int check_normalize(const struct dataset *d, const struct data_spec *spec, struct err *e)
{
    int channels = d->input.rank == 3 ? d->input.dim[2] : 1;
    bool own = !spec->normalize_unit && !spec->normalize_picture && spec->n_normalize > 1;
    if (own && spec->n_normalize != channels) {
        return err_set(e, ERR_DATA,
                       "'normalize' has %d numbers per sample, the samples have %d channel%s",
                       spec->n_normalize, channels, channels == 1 ? "" : "s");
    }
    return 0;
}

static int check_augment(const struct dataset *d, const struct augment_spec *a, struct err *e)
{
    char have[64];
    if ((a->crop || a->shift > 0 || a->flip > 0) && d->input.rank != 3) {
        return err_set(e, ERR_DATA, "'augment' is for pictures, but the samples have the shape %s",
                       shape_text(&d->input, have));
    }
    for (int i = 0; a->crop && i < 2; i++) {
        if (a->crop_size[i] > d->input.dim[i] + 2 * a->crop_padding) {
            return err_set(
                e, ERR_DATA,
                "a window of %d x %d is larger than the pictures, %d x %d with a padding of %d",
                a->crop_size[0], a->crop_size[1], d->input.dim[0], d->input.dim[1],
                a->crop_padding);
        }
    }
    return 0;
}

struct shape dataset_shape(const struct dataset *d, const struct data_spec *spec)
{
    struct shape s = d->input;
    if (spec->augment.crop && s.rank == 3) {
        s.dim[0] = spec->augment.crop_size[0];
        s.dim[1] = spec->augment.crop_size[1];
    }
    return s;
}

int dataset_check(const struct dataset *d, const struct data_spec *spec, const struct network *net,
                  struct err *e)
{
    char have[64], want[64];
    int outputs = (int)shape_count(&net->output);
    struct shape shape = dataset_shape(d, spec);
    int rc;
    if ((rc = check_augment(d, &spec->augment, e)) < 0 || (rc = check_normalize(d, spec, e)) < 0) {
        return rc;
    }
    if (!shapes_fit(&shape, &net->input)) {
        err_set(e, ERR_DATA, "the samples have the shape %s, the network's input is %s",
                shape_text(&shape, have), shape_text(&net->input, want));
        if (shape.rank == 3 && net->input.rank == 3 && shape.dim[2] == net->input.dim[2] &&
            shape.dim[0] >= net->input.dim[0]) {
            err_hint(e, "\"augment\": {\"crop\": {}} cuts windows out of larger pictures");
        }
        return -ERR_DATA;
    }
    if (net->loss == LOSS_SOFTMAX_CROSS_ENTROPY && !d->y_labels) {
        return err_set(
            e, ERR_DATA,
            "the targets are floats, but softmax cross-entropy needs whole-number labels");
    }
    if (net->loss == LOSS_MSE && d->y_labels) {
        return err_set(e, ERR_DATA,
                       "the targets are whole-number labels, but the loss mse needs floats");
    }
    if (d->y_labels && d->classes > outputs) {
        return err_set(e, ERR_DATA,
                       "the largest label is %d, but the network has %d outputs (labels 0 to %d)",
                       d->classes - 1, outputs, outputs - 1);
    }
    if (!d->y_labels && d->target != outputs) {
        return err_set(e, ERR_DATA, "a target has %d values, but the network has %d outputs",
                       d->target, outputs);
    }
    return 0;
}
