/* A data set in memory: training and test samples as they stand in the file, read-only once open, with one file per
 * format (idx.c npy.c glyphs.c …). Looked up beneath the folders of EVENSTEP_DATA, never outside them (symbolic
 * links are resolved). Mistakes name the file and the byte.
 */
#ifndef WORKER_DATA_DATASET_H
#define WORKER_DATA_DATASET_H

#include "job/spec.h"

struct dataset_part {
    int64_t samples;
    void *x;        /* [samples][input], NHWC: uint8_t or float; owned */
    void *y;        /* int32_t [samples], or float [samples][target] */
};
struct dataset {
    struct shape input;
    bool x_bytes;   /* x is uint8_t (normalise) or float (used as it is) */
    bool y_labels;  /* int32 labels, or float targets */
    int classes;    /* of labels: largest + 1 */
    int target;     /* floats of a float target */
    struct dataset_part train, test;
    char digest[65]; /* SHA-256 over all values, hex */
};

/* roots: colon-separated folders (EVENSTEP_DATA). d needs dataset_release only after success. */
/* `validation` above 0: that share of the training samples, chosen by the seed, takes the test samples' place. */
int dataset_open(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots, struct err *e);
/* Only shapes, counts and labels (classes), no pictures; quick. For the keeper and the coordinator's dry run: x and y stay NULL. */
int dataset_peek(struct dataset *d, const struct data_spec *spec, const char *roots, struct err *e);
int dataset_check(const struct dataset *d, const struct network *net, struct err *e);
void dataset_release(struct dataset *d);
/* Finds PATH beneath one of the roots into out[4096], symbolic links resolved; ERR_FORBIDDEN if it leads outside all of them,
 * ERR_NOT_FOUND if it is beneath none. */
int dataset_find(const char *roots, const char *path, char *out, struct err *e);
/* The same for file NAME or NAME.gz of folder `dir`. */
int dataset_file(const char *roots, const char *dir, const char *name, char *out, struct err *e);
/* {"path","format","shape","classes","samples","test_samples"} of every data set beneath the roots, two levels deep. New reference. */
json_t *dataset_list(const char *roots, struct err *e);

/* One format: reads into d. `dir` is the folder that path led to ("" for glyphs); files in it are found by dataset_file.
 * peek: shapes, counts and classes only. `marker` is a file that tells a folder of this format, NULL: it needs none. */
struct dataset_format {
    int id; /* CAT_FORMAT_… */
    const char *marker;
    int (*read)(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots, const char *dir, bool peek,
                struct err *e);
};
extern const struct dataset_format dataset_idx, dataset_npy, dataset_glyphs;

/* SHA-256 over shapes, counts and all values. */
void dataset_digest(const struct dataset *d, char out[65]);

/* Copies samples index[0..n) into x (float, normalised, [n][input]) and y. Pure; used by the loader thread and the simulator. */
void dataset_gather(const struct dataset *d, const struct dataset_part *part, const struct data_spec *spec,
                    const int64_t *index, int64_t n, float *x, void *y);

#endif
