/* The loader: a thread gathers the next slice while the device computes the current one. The
 * strategy's hint predicts the next slice; a wrong hint costs gathering time, never a wrong sample.
 *
 * Two buffers take turns. The samples of a loader_get() stay valid until the next loader_get().
 * Meanwhile the thread fills the other buffer. If the device has its own memory, the thread also
 * sends the buffer there (loader_feed), so that the copy is complete before the samples are needed.
 * Buffers grow when a larger slice comes for the first time and never shrink; a step allocates
 * nothing.
 */
#ifndef WORKER_DATA_LOADER_H
#define WORKER_DATA_LOADER_H

#include <pthread.h>

#include "job/sample.h"
#include "kernels/device.h"
#include "worker/data/ahead.h"
#include "worker/data/dataset.h"
#include "worker/data/files/stored.h"

struct loader_slot {
    struct slice slice; /* the slice that it holds; count 0: none */
    bool test;          /* of the test part, where position is index */
    int64_t room;       /* samples that it can hold */
    int64_t *index;
    float *x;              /* NULL where the device keeps the samples */
    struct dev_feed *feed; /* the owner of x, or NULL: x is ours */
    struct dev_view *view;
    bool viewed; /* `view` is valid; else samples are whole */
    void *y;
};

struct loader {
    const struct dataset *data;   /* borrowed */
    const struct data_spec *spec; /* borrowed */
    uint64_t seed;
    struct device *dev;               /* keeps the samples (loader_keep), or NULL */
    struct dev_samples *train, *test; /* test: NULL if there are none */
    struct device *feeds;             /* gets samples through feeds (loader_feed), or NULL */
    /* used by whoever fills a slot: the thread, or loader_get while the thread is idle */
    struct ahead ahead[2]; /* of the training and of the test part */
    int from_disk;         /* slices whose pages are still to be asked for before gathering */
    struct once once;      /* which samples stay in the page cache */
    struct direct *direct; /* reads the other samples; NULL: not made yet, or not possible */
    int64_t direct_for;    /* samples per slice for which `direct` was made */
    double measured;       /* clock_now() when `once` was last computed; 0: not yet */
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct loader_slot slot[2];
    int current;         /* the slot that loader_get returned last */
    struct slice wanted; /* for the other slot; count 0: nothing */
    bool wanted_test;    /* `wanted` is of the test part */
    bool busy, stopping; /* the thread works on the other slot */
};

/* threaded false: hints are ignored and loader_get() gathers at once (virtual time). room: samples
 * to allocate for at first. */
int loader_start(struct loader *l, const struct dataset *data, const struct data_spec *spec,
                 uint64_t seed, int64_t room, bool threaded, struct err *e);
enum kept { KEPT_BY_HOST, KEPT_BY_DEVICE };
/* Copies the samples to the device for good, if it can keep them and they take at most half of its
 * free memory. From then on loader_get() returns only indices, views and labels. Call it before the
 * first hint. Returns enum kept; negative: an error other than lack of memory. */
int loader_keep(struct loader *l, struct device *dev, struct err *e);
/* For a device that does not keep the samples: sends them through its feeds, if it has any. Call it
 * before the first hint. If memory is too short for a feed, the step that uses samples copies
 * them. */
void loader_feed(struct loader *l, struct device *dev);
void loader_stop(struct loader *l);
/* Points in->x, y, sample, count and epoch at the slice's samples. Waits for them, or gathers
 * them. */
int loader_get(struct loader *l, const struct slice *slice, struct dev_input *in, struct err *e);
/* Samples first … first+count of the test part. */
int loader_get_test(struct loader *l, int64_t first, int64_t count, struct dev_input *in,
                    struct err *e);
void loader_hint(struct loader *l, const struct slice *next);
void loader_hint_test(struct loader *l, int64_t first, int64_t count);

#endif
