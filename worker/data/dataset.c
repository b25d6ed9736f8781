/* Data sets: opening one, and what it must be. paths.c finds its folder, values.c has what is done
 * with the values of all formats, gather.c brings samples into a minibatch, list.c finds out which
 * data sets there are.
 *
 * Formats (idx.c cifar.c npy.c images/ glyphs.c) only read. Here is what comes before and after:
 * the folder, the validation part, and the check against a network. */
#include "worker/data/dataset.h"

#include <string.h>

enum { PATH_BYTES = 4096 };

const struct dataset_format *const dataset_formats[] = {
    &dataset_idx, &dataset_cifar_10, &dataset_cifar_100,
    &dataset_npy, &dataset_images,   &dataset_glyphs,
    NULL};

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

static bool needs_folder(const struct dataset_format *f)
{
    return f->markers[0] || f->match;
}

/* For messages: the path, or the format if it needs no folder. */
static const char *name_of(const struct data_spec *spec)
{
    return needs_folder(format_find(spec->format)) ? spec->path : catalog_get(spec->format)->name;
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
    int rc = needs_folder(f) ? dataset_find(roots, spec->path, dir, e) : 0;
    if (rc == 0) {
        rc = f->read(d, spec, seed, roots, dir, peek, e);
    }
    bool split = f->test_share > 0 && d->test.samples == 0; /* it has no test samples of its own */
    double share = split && spec->validation <= 0 ? f->test_share : spec->validation;
    if (rc == 0 && (d->train.samples < 1 || (d->test.samples < 1 && !split))) {
        rc = err_set(e, ERR_DATA, "there are no %s samples",
                     d->train.samples < 1 ? "training" : "test");
    }
    if (rc == 0 && share > 0) {
        rc = dataset_hold_out(d, share, seed, peek, e);
    }
    if (rc < 0) {
        dataset_release(d);
        return err_prefix(e, "cannot read data set '%.100s'", name_of(spec));
    }
    BUG_ON(d->input.rank == 0 || shape_count(&d->input) == 0);
    return 0;
}

int dataset_open(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                 struct err *e)
{
    int rc = read_dataset(d, spec, seed, roots, false, e);
    if (rc == 0 && !d->digest[0] && (rc = dataset_digest(d, d->digest, e)) < 0) {
        dataset_release(d);
        return err_prefix(e, "cannot read data set '%.100s'", name_of(spec));
    }
    if (rc == 0 && spec->shuffle) {
        dataset_shuffled(d);
    }
    return rc;
}

int dataset_open_unread(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                        const char *roots, struct err *e)
{
    return read_dataset(d, spec, seed, roots, false, e);
}

int dataset_peek(struct dataset *d, const struct data_spec *spec, const char *roots, struct err *e)
{
    return read_dataset(d, spec, 0, roots, true, e);
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

/* A vector may take the values of a one-channel picture: their order is the same. */
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
