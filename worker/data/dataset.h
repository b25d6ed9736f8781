/* A data set in memory: training and test samples as the file has them, read-only once open, with
 * one file per format (idx.c npy.c glyphs.c …). Looked up beneath the folders of EVENSTEP_DATA,
 * never outside them (symbolic links are resolved). Mistakes name the file and the byte.
 */
#ifndef WORKER_DATA_DATASET_H
#define WORKER_DATA_DATASET_H

#include "job/spec.h"

struct dataset_part {
    int64_t samples;
    void *x; /* [samples][input], NHWC: uint8_t or float; owned */
    void *y; /* int32_t [samples], or float [samples][target] */
};
struct dataset {
    struct shape input;
    bool x_bytes;  /* x is uint8_t (normalise) or float (used as it is) */
    bool y_labels; /* int32 labels, or float targets */
    int classes;   /* of labels: largest + 1 */
    int target;    /* floats of a float target */
    struct dataset_part train, test;
    char digest[65]; /* SHA-256 over all values, hex */
};

/* roots: colon-separated folders (EVENSTEP_DATA). d needs dataset_release only after success. */
/* `validation` above 0: that share of the training samples, chosen by the seed, takes the test
 * samples' place. */
int dataset_open(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                 struct err *e);
/* Only shapes, counts and labels (classes), no pictures; quick. For the keeper and the
 * coordinator's dry run: x and y stay NULL. */
int dataset_peek(struct dataset *d, const struct data_spec *spec, const char *roots, struct err *e);
/* Does the network take these samples, as `spec` normalises them and cuts windows out of them? */
int dataset_check(const struct dataset *d, const struct data_spec *spec, const struct network *net,
                  struct err *e);
/* Of a sample as the network gets it: the data set's shape, or the window's. */
struct shape dataset_shape(const struct dataset *d, const struct data_spec *spec);
void dataset_release(struct dataset *d);
/* Finds PATH beneath one of the roots into out[4096], symbolic links resolved; ERR_FORBIDDEN if it
 * leads outside all of them, ERR_NOT_FOUND if it is beneath none. */
int dataset_find(const char *roots, const char *path, char *out, struct err *e);
/* The same for file NAME or NAME.gz of folder `dir`. */
int dataset_file(const char *roots, const char *dir, const char *name, char *out, struct err *e);
/* A gzFile of what dataset_file found, which reads what is packed and what is not; NULL after an
 * error, which calls the file `name`. */
struct gzFile_s *dataset_open_file(const char *path, const char *name, struct err *e);
/* {"path","format","shape","classes","samples","test_samples","digest"} of every data set beneath
 * the roots, two levels deep. The digest is that of dataset_open with the format's defaults; it
 * takes reading everything, so it is kept in the file `cache` (NULL: none) with the sizes and times
 * of the files, and is null where `seconds` were over before its turn came. New reference. */
json_t *dataset_list(const char *roots, const char *cache, double seconds, struct err *e);

/* One format: reads into d. `dir` is the folder that path led to ("" for glyphs); files in it are
 * found by dataset_file. peek: shapes, counts and classes only. Any file of `markers` identifies a
 * folder of this format; none: it needs no folder. */
struct dataset_format {
    int id;                 /* CAT_FORMAT_… */
    const char *markers[3]; /* ends with NULL */
    int (*read)(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                const char *dir, bool peek, struct err *e);
};
extern const struct dataset_format dataset_idx, dataset_cifar_10, dataset_cifar_100, dataset_npy,
    dataset_glyphs;
extern const struct dataset_format *const dataset_formats[]; /* ends with NULL */

/* SHA-256 over shapes, counts and all values. */
void dataset_digest(const struct dataset *d, char out[65]);

/* When a sample is visited: its random choices depend on these and on its index alone. */
struct visit {
    bool training; /* false: nothing is random, windows come from the middle */
    uint64_t seed;
    int64_t epoch;
};
/* Copies samples index[0..n) into x (float, normalised, augmented: [n][dataset_shape]) and y. Pure;
 * used by the loader's thread and the simulator. */
void dataset_gather(const struct dataset *d, const struct dataset_part *part,
                    const struct data_spec *spec, const struct visit *visit, const int64_t *index,
                    int64_t n, float *x, void *y);

/* For devices that keep samples and gather themselves (kernels/samples.h). */
enum { DATASET_CHANNELS = 16 };
struct dev_source;
struct dev_view;
/* What a device is to keep of a part; false: only the host can gather it (floats, pictures with a
 * mean of their own). `out` points into part and table. */
bool dataset_source(const struct dataset *d, const struct dataset_part *part,
                    const struct data_spec *spec, struct dev_source *out,
                    float table[DATASET_CHANNELS][256]);
/* How samples index[0..n) are viewed; false: whole, and out is not written. */
bool dataset_views(const struct dataset *d, const struct data_spec *spec, const struct visit *visit,
                   const int64_t *index, int64_t n, struct dev_view *out);
void dataset_targets(const struct dataset *d, const struct dataset_part *part, const int64_t *index,
                     int64_t n, void *y);

/* ---- for the files of this folder ------------------------------------------------------------ */
size_t dataset_x_bytes(const struct dataset *d); /* of a sample */
size_t dataset_y_bytes(const struct dataset *d);
/* The format (CAT_FORMAT_…) of a folder by its markers, or -1. */
int dataset_detect(const char *roots, const char *dir);
/* The next root of a colon-separated list into out[4096], resolved; false at the end. Roots that
 * are not there are skipped. */
bool dataset_next_root(const char **roots, char *out);
enum resolved { RESOLVED_NOTHING, RESOLVED_FOUND };
/* dir/name resolved into out[4096]. Returns enum resolved; negative: it leads outside the roots. */
int dataset_resolve(const char *roots, const char *dir, const char *name, char *out, struct err *e);

#endif
