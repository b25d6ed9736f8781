/* Data sets: where they lie, what they must be, and how samples leave them.
 *
 * Formats (idx.c npy.c glyphs.c) only read; everything that holds for all of them is here: finding the folder beneath
 * EVENSTEP_DATA, splitting off a validation part, the digest by which nodes know that they have the same values, the
 * check against a network, and gathering samples in the order that the cursor asks for.
 *
 * What a newcomer would get wrong: a path comes from a job's spec, so it must not lead outside the roots, symbolic
 * links included. Every path, that of a single file too, is therefore resolved first and compared afterwards.
 */
#include "worker/data/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/rng.h"
#include "job/sample.h"

enum { PATH_BYTES = 4096, ROOTS = 64 };

static const struct dataset_format *const formats[] = {&dataset_idx, &dataset_npy, &dataset_glyphs};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

/* ---- places ---------------------------------------------------------------------------------------------- */

/* The next root of a colon-separated list into out, resolved; false at the end. Roots that are not there are skipped. */
static bool next_root(const char **roots, char *out)
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
    while (next_root(&roots, root)) {
        if (is_beneath(root, path)) {
            return true;
        }
    }
    return false;
}

/* dir/name resolved into out: 1 found, 0 there is nothing, negative: it leads outside. */
static int resolve(const char *roots, const char *dir, const char *name, char *out, struct err *e)
{
    char raw[PATH_BYTES];
    int n = snprintf(raw, sizeof(raw), "%s/%s", dir, name);
    if (n < 0 || n >= (int)sizeof(raw) || !realpath(raw, out)) {
        return 0;
    }
    if (!beneath_any(roots, out)) {
        return err_set(e, ERR_FORBIDDEN, "cannot use '%.200s': it leads outside the data folders", name);
    }
    return 1;
}

int dataset_find(const char *roots, const char *path, char *out, struct err *e)
{
    char root[PATH_BYTES];
    const char *rest = roots;
    while (next_root(&rest, root)) {
        int rc = resolve(roots, root, path, out, e);
        if (rc != 0) {
            return rc < 0 ? rc : 0;
        }
    }
    err_set(e, ERR_NOT_FOUND, "cannot find '%.200s' beneath the data folders %.200s", path, *roots ? roots : "(none)");
    err_hint(e, "set EVENSTEP_DATA to the folder that holds it, or use the format glyphs, which needs no file");
    return -ERR_NOT_FOUND;
}

int dataset_file(const char *roots, const char *dir, const char *name, char *out, struct err *e)
{
    char packed[256];
    int rc = resolve(roots, dir, name, out, e);
    if (rc == 0) {
        snprintf(packed, sizeof(packed), "%s.gz", name);
        rc = resolve(roots, dir, packed, out, e);
    }
    if (rc == 0) {
        return err_set(e, ERR_NOT_FOUND, "there is no file '%s' in '%.300s'", name, dir);
    }
    return rc < 0 ? rc : 0;
}

static const struct dataset_format *format_find(int id)
{
    for (int i = 0; i < FORMATS; i++) {
        if (formats[i]->id == id) {
            return formats[i];
        }
    }
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------------------- */

static size_t x_bytes_each(const struct dataset *d)
{
    return shape_count(&d->input) * (d->x_bytes ? sizeof(uint8_t) : sizeof(float));
}

static size_t y_bytes_each(const struct dataset *d)
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

static int part_alloc(const struct dataset *d, struct dataset_part *p, int64_t samples, struct err *e)
{
    p->samples = samples;
    p->x = malloc((size_t)samples * x_bytes_each(d) + 1);
    p->y = malloc((size_t)samples * y_bytes_each(d) + 1);
    if (!p->x || !p->y) {
        part_release(p);
        return err_set(e, ERR_MEMORY, "cannot hold %lld samples: memory ran out", (long long)samples);
    }
    return 0;
}

static void part_copy(const struct dataset *d, struct dataset_part *to, int64_t at, const struct dataset_part *from, int64_t i)
{
    size_t nx = x_bytes_each(d), ny = y_bytes_each(d);
    memcpy((char *)to->x + (size_t)at * nx, (const char *)from->x + (size_t)i * nx, nx);
    memcpy((char *)to->y + (size_t)at * ny, (const char *)from->y + (size_t)i * ny, ny);
}

/* The first `held` positions of a seeded permutation leave the training part and become the test part. */
static int split_validation(struct dataset *d, const struct data_spec *spec, uint64_t seed, bool peek, struct err *e)
{
    int64_t n = d->train.samples, held = (int64_t)((double)n * spec->validation);
    if (held < 1 || held >= n) {
        return err_set(e, ERR_INVALID, "a validation share of %g leaves %lld of %lld samples for training", spec->validation,
                       (long long)(n - held), (long long)n);
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

static int read_dataset(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots, bool peek, struct err *e)
{
    memset(d, 0, sizeof(*d));
    const struct dataset_format *f = format_find(spec->format);
    if (!f) {
        return err_set(e, ERR_UNSUPPORTED, "this build cannot read the data format '%s'", catalog_get(spec->format)->name);
    }
    char dir[PATH_BYTES] = "";
    int rc = f->marker ? dataset_find(roots, spec->path, dir, e) : 0;
    if (rc == 0) {
        rc = f->read(d, spec, seed, roots, dir, peek, e);
    }
    if (rc == 0 && (d->train.samples < 1 || d->test.samples < 1)) {
        rc = err_set(e, ERR_DATA, "there are no %s samples", d->train.samples < 1 ? "training" : "test");
    }
    if (rc == 0 && spec->validation > 0) {
        rc = split_validation(d, spec, seed, peek, e);
    }
    if (rc < 0) {
        dataset_release(d);
        return err_prefix(e, "cannot read data set '%.100s'", f->marker ? spec->path : catalog_get(spec->format)->name);
    }
    return 0;
}

int dataset_open(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots, struct err *e)
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
    int n = snprintf(head, sizeof(head), "%d %d %d %d %d %d %d %lld %lld\n", d->input.rank, d->input.dim[0], d->input.dim[1],
                     d->input.dim[2], d->x_bytes, d->y_labels, d->target, (long long)d->train.samples, (long long)d->test.samples);
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    BUG_ON(!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1);
    EVP_DigestUpdate(md, head, (size_t)n);
    const struct dataset_part *parts[] = {&d->train, &d->test};
    for (int i = 0; i < 2; i++) {
        EVP_DigestUpdate(md, parts[i]->x, (size_t)parts[i]->samples * x_bytes_each(d));
        EVP_DigestUpdate(md, parts[i]->y, (size_t)parts[i]->samples * y_bytes_each(d));
    }
    EVP_DigestFinal_ex(md, sum, &length);
    EVP_MD_CTX_free(md);
    for (unsigned i = 0; i < 32; i++) {
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    }
}

/* ---- fitting a network ------------------------------------------------------------------------------------ */

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

int dataset_check(const struct dataset *d, const struct network *net, struct err *e)
{
    char have[64], want[64];
    int outputs = (int)shape_count(&net->output);
    if (!shapes_fit(&d->input, &net->input)) {
        return err_set(e, ERR_DATA, "the samples have the shape %s, the network's input is %s", shape_text(&d->input, have),
                       shape_text(&net->input, want));
    }
    if (net->loss == LOSS_SOFTMAX_CROSS_ENTROPY && !d->y_labels) {
        return err_set(e, ERR_DATA, "the targets are floats, but softmax cross-entropy needs whole-number labels");
    }
    if (net->loss == LOSS_MSE && d->y_labels) {
        return err_set(e, ERR_DATA, "the targets are whole-number labels, but the loss mse needs floats");
    }
    if (d->y_labels && d->classes > outputs) {
        return err_set(e, ERR_DATA, "the largest label is %d, but the network has %d outputs (labels 0 to %d)", d->classes - 1, outputs,
                       outputs - 1);
    }
    if (!d->y_labels && d->target != outputs) {
        return err_set(e, ERR_DATA, "a target has %d values, but the network has %d outputs", d->target, outputs);
    }
    return 0;
}

/* ---- gathering ------------------------------------------------------------------------------------------- */

enum { CHANNELS = 16 };

/* table[c][v]: what byte v of channel c becomes. Returns how many channels have a table of their own. */
static int make_tables(const struct data_spec *spec, int channels, float table[CHANNELS][256])
{
    bool unit = spec->normalize_unit || spec->n_normalize == 0;
    int tables = !unit && spec->n_normalize == channels && channels <= CHANNELS ? channels : 1;
    for (int c = 0; c < tables; c++) {
        for (int v = 0; v < 256; v++) {
            float x = (float)v / 255.0f;
            table[c][v] = unit ? x : (x - spec->mean[c]) / spec->deviation[c];
        }
    }
    return tables;
}

static void gather_bytes(const struct dataset *d, const struct dataset_part *part, const struct data_spec *spec,
                         const int64_t *index, int64_t n, float *x)
{
    float table[CHANNELS][256];
    size_t each = shape_count(&d->input);
    int tables = make_tables(spec, d->input.rank == 3 ? d->input.dim[2] : 1, table);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *from = (const uint8_t *)part->x + (size_t)index[i] * each;
        float *to = x + (size_t)i * each;
        if (tables == 1) {
            for (size_t j = 0; j < each; j++) {
                to[j] = table[0][from[j]];
            }
        } else {
            for (size_t j = 0; j < each; j++) {
                to[j] = table[j % (size_t)tables][from[j]];
            }
        }
    }
}

static void gather_floats(const struct dataset *d, const struct dataset_part *part, const struct data_spec *spec,
                          const int64_t *index, int64_t n, float *x)
{
    size_t each = shape_count(&d->input);
    size_t channels = spec->n_normalize > 0 && !spec->normalize_unit ? (size_t)spec->n_normalize : 0;
    for (int64_t i = 0; i < n; i++) {
        const float *from = (const float *)part->x + (size_t)index[i] * each;
        float *to = x + (size_t)i * each;
        memcpy(to, from, each * sizeof(float));
        for (size_t j = 0; channels && j < each; j++) {
            to[j] = (to[j] - spec->mean[j % channels]) / spec->deviation[j % channels];
        }
    }
}

void dataset_gather(const struct dataset *d, const struct dataset_part *part, const struct data_spec *spec,
                    const int64_t *index, int64_t n, float *x, void *y)
{
    if (d->x_bytes) {
        gather_bytes(d, part, spec, index, n, x);
    } else {
        gather_floats(d, part, spec, index, n, x);
    }
    size_t ny = y_bytes_each(d);
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)y + (size_t)i * ny, (const char *)part->y + (size_t)index[i] * ny, ny);
    }
}

/* ---- what is there --------------------------------------------------------------------------------------- */

static json_t *describe(const struct dataset *d, const char *path, int format)
{
    json_t *shape = json_array();
    for (int i = 0; i < d->input.rank; i++) {
        json_array_append_new(shape, json_integer(d->input.dim[i]));
    }
    return json_pack("{s:s, s:s, s:o, s:i, s:I, s:I}", "path", path, "format", catalog_get(format)->name, "shape", shape, "classes",
                     d->classes, "samples", (json_int_t)d->train.samples, "test_samples", (json_int_t)d->test.samples);
}

static bool listed(const json_t *list, const char *path)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "path")), path) == 0) {
            return true;
        }
    }
    return false;
}

static void list_folder(json_t *list, const char *roots, const char *root, const char *path, int levels)
{
    char dir[PATH_BYTES], file[PATH_BYTES];
    if (snprintf(dir, sizeof(dir), "%s/%s", root, path) >= (int)sizeof(dir)) {
        return;
    }
    for (int i = 0; i < FORMATS && *path; i++) {
        if (formats[i]->marker && strlen(path) < SPEC_PATH && !listed(list, path) &&
            dataset_file(roots, dir, formats[i]->marker, file, NULL) == 0) {
            struct data_spec spec = {.format = formats[i]->id};
            struct dataset d;
            memcpy(spec.path, path, strlen(path) + 1);
            if (dataset_peek(&d, &spec, roots, NULL) == 0) {
                json_array_append_new(list, describe(&d, path, spec.format));
                dataset_release(&d);
            }
        }
    }
    struct dirent **names;
    int n = levels > 0 ? scandir(dir, &names, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char below[PATH_BYTES], full[PATH_BYTES];
        struct stat st;
        if (names[i]->d_name[0] != '.' &&
            snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", names[i]->d_name) < (int)sizeof(below) &&
            resolve(roots, root, below, full, NULL) == 1 && stat(full, &st) == 0 && S_ISDIR(st.st_mode)) {
            list_folder(list, roots, root, below, levels - 1);
        }
        free(names[i]);
    }
    if (n > 0) {
        free(names);
    }
}

json_t *dataset_list(const char *roots, struct err *e)
{
    json_t *list = json_array();
    char root[PATH_BYTES];
    const char *rest = roots;
    if (!list) {
        err_set(e, ERR_MEMORY, "cannot list the data sets: memory ran out");
        return NULL;
    }
    while (next_root(&rest, root)) {
        list_folder(list, roots, root, "", 2);
    }
    return list;
}
