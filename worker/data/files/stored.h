/* Samples in the form of their files: mapped, in the file's type and byte order, and converted to
 * bytes or floats only when they are copied out. A part of a data set is one or more runs of them
 * (CIFAR-10 has five training files). */
#ifndef WORKER_DATA_FILES_STORED_H
#define WORKER_DATA_FILES_STORED_H

#include "job/network/network.h"
#include "worker/data/files/mapped.h"

/* The form of a value, and the distances between values. */
struct form {
    char kind;      /* 'u' unsigned, 'i' signed, 'f' float, 'b' truth value */
    int width;      /* bytes */
    bool swapped;   /* in the other byte order */
    size_t sample;  /* bytes from one sample to the next */
    size_t channel; /* bytes from one channel of a pixel to the next; 0: the width of a value */
};

enum { STORED_RUNS = 5 };
struct stored {
    struct form form;
    int n;
    struct stored_run {
        struct mapped *file; /* shared */
        const uint8_t *at;
        int64_t samples;
    } run[STORED_RUNS];
    int64_t *order; /* of sample i: its number over all runs; NULL: i. Owned */
};

/* NULL: memory ran out. */
struct stored *stored_new(const struct form *form);
void stored_free(struct stored *s); /* NULL is allowed */
/* Appends `samples` that start `offset` bytes into the file, which is shared. */
void stored_add(struct stored *s, struct mapped *file, size_t offset, int64_t samples);
/* Where sample i starts, and in which run. */
const uint8_t *stored_at(const struct stored *s, int64_t i, const struct stored_run **run);
/* Which samples do not stay in the page cache, and where they are read to. */
struct once {
    double kept;           /* the share of each file, at its end, that stays */
    uint8_t *room;         /* [form.sample] */
    struct direct *direct; /* for samples that are read ahead past the page cache; NULL: none */
};
/* The values of sample i: in the mapping or, if the sample does not stay, where it was read to.
 * Valid until the next call. */
const uint8_t *stored_once(const struct stored *s, int64_t i, const struct once *once);
/* All samples, if they are contiguous bytes or floats of this machine; else NULL. */
const void *stored_plain(const struct stored *s, const struct shape *shape);
/* The value at `from`. */
double form_value(const struct form *f, const uint8_t *from);
/* n contiguous values. */
void form_floats(const struct form *f, float *to, const uint8_t *from, size_t n);
/* Copies sample i: bytes, or floats, channels last. */
void stored_copy(const struct stored *s, const struct shape *shape, int64_t i, void *to);
/* Fails, naming file, sample and byte, if a value of sample i is NaN or infinite. */
int stored_finite(const struct stored *s, const struct shape *shape, int64_t i, struct err *e);
int stored_check(const struct stored *s, struct err *e); /* mapped_check() of every file */
void stored_shuffled(const struct stored *s);
/* once NULL: all samples stay. */
void stored_ahead(const struct stored *s, const struct once *once, const int64_t *index, int64_t n);

#endif
