/* The sections `data` and `augment` of a job spec: which samples there are, and how they are
 * changed on the way into a minibatch.
 *
 * `augment` has one key per transformation and no order. A picture is shifted, then padded, then
 * cut to a window, which is mirrored. If each is drawn evenly, another order would give the same
 * distribution. */
#include "job/spec/parts.h"

#include <stdio.h>
#include <string.h>

/* "unit", "picture", or {"mean": [per channel], "deviation": [per channel]}. */
static void read_normalize(struct data_spec *d, struct fields *f)
{
    const json_t *v = fields_get(f, "normalize");
    double mean[16], deviation[16];
    d->normalize_unit = true;
    if (v == NULL) {
        return; /* the format decides: bytes become x/255, floats stay */
    }
    if (json_is_string(v)) {
        d->normalize_picture = strcmp(json_string_value(v), "picture") == 0;
        d->normalize_unit = !d->normalize_picture;
        if (d->normalize_unit && strcmp(json_string_value(v), "unit") != 0) {
            fields_problem(
                f, "normalize",
                "'normalize' must be \"unit\", \"picture\" or an object with mean and deviation");
        }
        json_object_set_new(f->full, "normalize",
                            json_string(d->normalize_picture ? "picture" : "unit"));
        return;
    }
    struct fields in;
    spec_open(&in, f, "normalize", false);
    int n = spec_read_numbers(&in, "mean", false, -1e9, 1e9, mean, 16);
    int m = spec_read_numbers(&in, "deviation", false, 1e-9, 1e9, deviation, 16);
    fields_close(&in);
    if (in.given == NULL || n < 0 || m < 0) {
        return;
    }
    if (n == 0 || n != m) {
        fields_problem(f, "normalize",
                       "'mean' and 'deviation' must have one number per channel each, and as many");
        return;
    }
    d->normalize_unit = false;
    d->n_normalize = n;
    for (int i = 0; i < n; i++) {
        d->mean[i] = (float)mean[i];
        d->deviation[i] = (float)deviation[i];
    }
}

const struct catalog_param spec_data_params[] = {
    {"shuffle", PARAM_BOOL, 0, 1, 0, 1, NULL, NULL, "a new order in every epoch"},
    {"validation", PARAM_REAL, 0, 0, 0, 0.9, NULL, NULL,
     "share of the training set that is evaluated on in place of the test set"},
    {.name = NULL},
};

/* Reads the parameters of the format; those of other formats are 0. */
static void read_format(struct data_spec *d, const json_t *full)
{
    const json_t *size = json_object_get(full, "size");
    d->samples = fields_int(full, "samples");
    d->test_samples = fields_int(full, "test_samples");
    d->coarse = spec_is(full, "labels", "coarse");
    d->stretch = spec_is(full, "fit", "stretch");
    d->threads = (int)fields_int(full, "threads");
    for (size_t i = 0; i < 2; i++) { /* 0: spec_read_augment() decides */
        d->size[i] = (int)json_integer_value(json_array_get(size, i));
    }
}

void spec_read_data(struct data_spec *d, struct fields *f)
{
    struct fields in;
    spec_open(&in, f, "data", true);
    if (in.given == NULL) {
        return;
    }
    const struct catalog_entry *format = fields_entry(&in, "format", CATALOG_FORMAT, NULL);
    if (format == NULL) {
        return; /* the keys of an unknown format are not known, so none is reported */
    }
    d->format = format->id;
    fields_params(&in, format->params);
    if (format->id != CAT_FORMAT_GLYPHS) {
        const char *path = fields_text(&in, "path", true, SPEC_PATH);
        snprintf(d->path, sizeof d->path, "%s", path ? path : "");
        if (path != NULL && (path[0] == '/' || strstr(path, ".."))) {
            fields_problem(
                &in, "path",
                "'path' must lie beneath a data root: it may neither start with '/' nor contain "
                "'..'");
        }
    }
    fields_params(&in, spec_data_params);
    read_normalize(d, &in);
    fields_close(&in);
    d->shuffle = json_is_true(json_object_get(in.full, "shuffle"));
    d->validation = fields_real(in.full, "validation");
    read_format(d, in.full);
}

void spec_data_defaults(struct data_spec *d, int format)
{
    struct jsonx_problems problems = {0};
    struct fields in;
    json_t *full = json_object();
    fields_open(&in, NULL, full, "", &problems);
    fields_params(&in, catalog_get(format)->params);
    *d = (struct data_spec){.format = format};
    read_format(d, full);
    jsonx_problems_release(&problems);
    json_decref(full);
}

/* ---- augment --------------------------------------------------------------------------------- */

static void read_shift(struct augment_spec *a, const json_t *full)
{
    a->shift = (int)fields_int(full, "pixels");
    a->shift_edge = spec_is(full, "fill", "edge");
}

static void read_flip(struct augment_spec *a, const json_t *full)
{
    a->flip = fields_real(full, "probability");
}

static void read_crop(struct augment_spec *a, const json_t *full)
{
    const json_t *size = json_object_get(full, "size");
    a->crop = true;
    a->crop_padding = (int)fields_int(full, "padding");
    for (size_t i = 0; i < 2; i++) {
        a->crop_size[i] =
            (int)json_integer_value(json_array_get(size, i)); /* 0: the size of the network's
                                                                 input */
    }
}

static const struct {
    int id;
    void (*read)(struct augment_spec *a, const json_t *full);
} readers[] = {
    {CAT_AUGMENT_SHIFT, read_shift},
    {CAT_AUGMENT_FLIP, read_flip},
    {CAT_AUGMENT_CROP, read_crop},
};
enum { READERS = sizeof readers / sizeof readers[0] };

static void check_window(struct augment_spec *a, const struct network *net, struct fields *in)
{
    if (!a->crop || net->n_layers == 0) {
        return; /* nothing to check, or the network has a mistake */
    }
    if (net->input.rank != 3) {
        fields_problem(in, "crop",
                       "a window is cut out of a picture, but the network takes a vector of %d",
                       net->input.dim[0]);
        return;
    }
    for (int i = 0; i < 2; i++) {
        a->crop_size[i] = a->crop_size[i] > 0 ? a->crop_size[i] : net->input.dim[i];
    }
    if (a->crop_size[0] != net->input.dim[0] || a->crop_size[1] != net->input.dim[1]) {
        fields_problem(in, "crop",
                       "a window of %d x %d does not fit the network, whose input is %d x %d",
                       a->crop_size[0], a->crop_size[1], net->input.dim[0], net->input.dim[1]);
    }
}

/* Pictures in files have any size. The network decides to what size they are brought, which is
 * written into the spec for evaluations. */
static void fit_pictures(struct jobspec *spec, struct fields *f)
{
    struct data_spec *d = &spec->data;
    const struct shape *in = &spec->network.input;
    json_t *data = json_object_get(f->full, "data");
    if (d->format != CAT_FORMAT_IMAGES || spec->network.n_layers == 0 || in->rank == 0 ||
        data == NULL) {
        return; /* nothing to fit, or it has a mistake */
    }
    if (in->rank != 3 && d->size[0] == 0) {
        fields_problem(f, "data",
                       "the network takes a vector of %d, so 'size' must say what pictures become",
                       in->dim[0]);
        return;
    }
    d->channels = in->rank == 3 ? in->dim[2] : 1;
    if (d->channels != 1 && d->channels != 3) {
        fields_problem(f, "data",
                       "pictures have 1 channel (grey) or 3 (colour), the network's input has %d",
                       d->channels);
        return;
    }
    bool windows = d->augment.crop && d->augment.crop_padding == 0;
    for (int i = 0; in->rank == 3 && json_object_get(data, "size") == NULL && i < 2; i++) {
        d->size[i] = windows ? (in->dim[i] * 8 + 3) / 7 : in->dim[i];
    }
    json_object_set_new(data, "size", json_pack("[i, i]", d->size[0], d->size[1]));
}

void spec_read_augment(struct jobspec *spec, struct fields *f)
{
    struct augment_spec *a = &spec->data.augment;
    struct fields in;
    const json_t *given = json_object_get(f->given, "augment");
    bool windows = (given == NULL || json_is_null(given)) &&
                   strcmp(spec->network.preset, "tf-cifar") == 0; /* part of that recipe */
    spec_open(&in, f, "augment", false);
    for (int i = 0; i < READERS; i++) {
        const struct catalog_entry *entry = catalog_get(readers[i].id);
        if (fields_get(&in, entry->name) != NULL ||
            (windows && readers[i].id == CAT_AUGMENT_CROP)) {
            struct fields one;
            spec_open(&one, &in, entry->name, false);
            fields_params(&one, entry->params);
            fields_close(&one);
            readers[i].read(a, one.full);
        }
    }
    fields_close(&in);
    check_window(a, &spec->network, &in);
    fit_pictures(spec, f);
}
