/* A data set whose files are an input's parts: opened as the keeper does (peek) and as a loader
 * does (all of it), and then read to its last value, so that ASan sees whether what was promised is
 * there. */
#ifndef TESTS_FUZZ_DATA_H
#define TESTS_FUZZ_DATA_H

#include "tests/fuzz/fuzz.h"

#include "worker/data/dataset.h"

static inline void fuzz_read_all(const struct dataset *d, const struct dataset_part *part)
{
    void *sample = malloc(dataset_x_bytes(d));
    for (int64_t i = 0; sample && i < part->samples; i++) {
        dataset_copy(d, part, i, 1, sample);
        fuzz_read(sample, dataset_x_bytes(d));
    }
    free(sample);
    fuzz_read(part->y, dataset_y_bytes(d) * (size_t)part->samples);
    for (int64_t i = 0; d->y_labels && i < part->samples; i++) {
        BUG_ON(((int32_t *)part->y)[i] < 0 || ((int32_t *)part->y)[i] >= d->classes);
    }
}

static inline void fuzz_dataset(const struct data_spec *spec)
{
    static struct dataset d;
    struct err e = {0};
    memset(&d, 0, sizeof d);
    int peeked = dataset_peek(&d, spec, fuzz_folder(), &e);
    fuzz_error(peeked, &e);
    if (peeked >= 0) {
        dataset_release(&d);
    }
    err_clear(&e);
    memset(&d, 0, sizeof d);
    int rc = dataset_open(&d, spec, 1, fuzz_folder(), &e);
    fuzz_error(rc, &e);
    BUG_ON(rc >= 0 && peeked < 0); /* what the keeper refuses no worker may take */
    if (rc >= 0) {
        fuzz_read_all(&d, &d.train);
        fuzz_read_all(&d, &d.test);
        dataset_release(&d);
    }
}

/* Writes an input's next part under this name. */
static inline void fuzz_part_file(const char *name, const uint8_t **data, size_t *left)
{
    size_t n;
    const uint8_t *part = fuzz_part(data, left, &n);
    fuzz_file(name, part, n);
}

#endif
