/* See preview.h. Reads all labels, but only the samples that it shows, so that a large data set
 * answers as fast as a small one. With `whole` it reads all samples. */
#include "worker/data/preview.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/thumbnail.h"

enum { EXAMPLES = 16, CLASSES_MOST = 1000, PATH_BYTES = 4096 };
enum { PICTURE_SIDE = 2 * THUMBNAIL_SIDE }; /* pictures of any size are resized to this */

static json_t *classes_of(const struct dataset *d, const struct data_spec *spec, const char *roots)
{
    json_t *out = json_array();
    int n = !d->y_labels ? 0 : d->classes < CLASSES_MOST ? d->classes : CLASSES_MOST;
    json_int_t *counts = calloc((size_t)n + 1, sizeof(*counts));
    json_t *names = n > 0 ? dataset_names(spec, roots, n) : NULL;
    for (int64_t i = 0; counts && d->y_labels && i < d->train.samples; i++) {
        int label = ((const int32_t *)d->train.y)[i];
        counts[label < n ? label : n]++;
    }
    for (int c = 0; counts && c < n; c++) {
        json_array_append_new(out, json_pack("{s:i, s:s?, s:I}", "class", c, "name",
                                             json_string_value(json_array_get(names, (size_t)c)),
                                             "samples", counts[c]));
    }
    json_decref(names);
    free(counts);
    return out;
}

static json_t *examples_of(const struct dataset *d)
{
    json_t *out = json_array();
    int64_t n = d->train.samples;
    for (int64_t k = 0; k < EXAMPLES && k < n; k++) {
        int64_t i = n <= EXAMPLES ? k : k * n / EXAMPLES;
        json_t *one = json_pack("{s:I}", "sample", (json_int_t)i);
        json_object_set_new(one, "label",
                            d->y_labels ? json_integer(((const int32_t *)d->train.y)[i])
                                        : json_null());
        json_t *picture = thumbnail(d, &d->train, i);
        if (picture) {
            json_object_set_new(one, "picture", picture);
        }
        json_array_append_new(out, one);
    }
    return out;
}

json_t *preview(const char *roots, const char *path, bool whole, struct err *e)
{
    char dir[PATH_BYTES];
    struct dataset d;
    struct data_spec spec;
    if (strlen(path) >= sizeof(spec.path) || strstr(path, "..")) {
        err_set(e, ERR_INVALID, "'%.80s' is not the path of a data set", path);
        return NULL;
    }
    if (dataset_find(roots, path, dir, e) < 0) {
        return NULL;
    }
    int format = dataset_detect(roots, dir);
    if (format < 0) {
        err_set(e, ERR_NOT_FOUND, "'%.200s' is not a data set of a known format", path);
        return NULL;
    }
    spec_data_defaults(&spec, format);
    memcpy(spec.path, path, strlen(path) + 1);
    spec.size[0] = spec.size[1] = PICTURE_SIDE;
    spec.threads = whole ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 1;
    if (dataset_open_unread(&d, &spec, 0, roots, e) < 0) {
        return NULL;
    }
    json_t *out = json_pack("{s:s, s:s, s:I, s:o, s:o}", "path", path, "format",
                            catalog_get(spec.format)->name, "samples", (json_int_t)d.train.samples,
                            "classes", classes_of(&d, &spec, roots), "examples", examples_of(&d));
    int rc = whole ? dataset_try(&d, e) : dataset_intact(&d, e); /* a picture that cannot be read */
    dataset_release(&d);
    if (rc < 0) {
        err_prefix(e, "cannot read data set '%.100s'", path);
        json_decref(out);
        return NULL;
    }
    return out;
}
