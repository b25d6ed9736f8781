/* Samples as their files have them: mapped, in the file's type and byte order, and turned into
 * bytes or floats only when they are copied out. A part of a data set is one or more runs of them
 * (CIFAR-10 has five training files). */
#ifndef WORKER_DATA_FILES_STORED_H
#define WORKER_DATA_FILES_STORED_H

#include "job/network/network.h"
#include "worker/data/files/mapped.h"

/* A value, and where the next ones are. */
struct form {
    char kind;      /* 'u' whole, 'i' whole with a sign, 'f' float, 'b' truth value */
    int width;      /* bytes */
    bool swapped;   /* in the other byte order */
    size_t sample;  /* bytes from one sample to the next */
    size_t channel; /* bytes from one channel of a pixel to the next; 0: as wide as a value */
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
/* Appends `samples` that begin `offset` bytes into the file, which is shared. */
void stored_add(struct stored *s, struct mapped *file, size_t offset, int64_t samples);
/* Where sample i begins, and in which run. */
const uint8_t *stored_at(const struct stored *s, int64_t i, const struct stored_run **run);
/* Which samples do not stay in the page cache, and where they are read to. */
struct once {
    double kept;           /* the last part of each file that stays: a share */
    uint8_t *room;         /* [form.sample] */
    struct direct *direct; /* of those that are read ahead past the page cache; NULL: none */
};
/* The values of sample i: where they are mapped; of one that does not stay, where they were read
 * to. Valid until the next call. */
const uint8_t *stored_once(const struct stored *s, int64_t i, const struct once *once);
/* All samples, if they stand one after the other as bytes or as floats of this machine; else NULL.
 */
const void *stored_plain(const struct stored *s, const struct shape *shape);
/* The value at `from`. */
double form_value(const struct form *f, const uint8_t *from);
/* n values that stand one after the other. */
void form_floats(const struct form *f, float *to, const uint8_t *from, size_t n);
/* Copies sample i: bytes, or floats, channels last. */
void stored_copy(const struct stored *s, const struct shape *shape, int64_t i, void *to);
/* Fails with file, sample and byte where a value of sample i is no finite float. */
int stored_finite(const struct stored *s, const struct shape *shape, int64_t i, struct err *e);
int stored_check(const struct stored *s, struct err *e); /* mapped_check() of every file */
void stored_shuffled(const struct stored *s);
/* once NULL: all stay. */
void stored_ahead(const struct stored *s, const struct once *once, const int64_t *index, int64_t n);

#endif
