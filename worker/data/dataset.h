/* A data set: training and test samples in the form of their files, read-only once open. Each
 * format has one file here (idx.c npy.c glyphs.c …). Samples stay in their files, which are mapped.
 * They are in memory only if a format has no file (glyphs) or scatters a sample over it (Fortran
 * order). Data sets are found below the folders of EVENSTEP_DATA, never outside (symbolic links are
 * resolved). Errors name the file and the byte.
 */
#ifndef WORKER_DATA_DATASET_H
#define WORKER_DATA_DATASET_H

#include "job/spec/spec.h"

struct stored;
struct pictures;
struct dataset_part {
    int64_t samples;
    void *x;               /* [samples][input], NHWC: uint8_t or float; NULL: `stored` has them */
    void *y;               /* int32_t [samples], or float [samples][target]; owned */
    struct stored *stored; /* in mapped files, owned; x: into them, or NULL */
    struct pictures *pictures; /* decoded on demand, owned; x and stored are NULL */
};
struct dataset {
    struct shape input;
    bool x_bytes;  /* x is uint8_t, to be normalised; else float, used as it is */
    bool y_labels; /* int32 labels, or float targets */
    int classes;   /* of labels: largest + 1 */
    int target;    /* floats of a float target */
    struct dataset_part train, test;
    char digest[65]; /* SHA-256 over all values (images: over names and bytes of the files), hex */
};

/* roots: colon-separated folders (EVENSTEP_DATA). d needs dataset_release() only after success. */
/* With `validation` above 0, that share of the training samples, chosen by the seed, replaces the
 * test samples. */
int dataset_open(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                 struct err *e);
/* The same without a digest: no value is read before it is needed. */
int dataset_open_unread(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                        const char *roots, struct err *e);
/* Reads only shapes, counts and classes, no samples; quick. For the keeper and the coordinator's
 * dry run: x, y, stored and pictures stay NULL. */
int dataset_peek(struct dataset *d, const struct data_spec *spec, const char *roots, struct err *e);
/* Does the network take these samples, normalised and cropped as `spec` says? */
int dataset_check(const struct dataset *d, const struct data_spec *spec, const struct network *net,
                  struct err *e);
/* The shape of a sample for the network: the data set's, or that of the cropped window. */
struct shape dataset_shape(const struct dataset *d, const struct data_spec *spec);
void dataset_release(struct dataset *d);
/* Finds PATH below one of the roots into out[4096], with symbolic links resolved. ERR_FORBIDDEN if
 * it leads outside all of them, ERR_NOT_FOUND if it is below none. Only the hint names the roots:
 * they concern those who may put a data set there, not everyone who reads the message. */
int dataset_find(const char *roots, const char *path, char *out, struct err *e);
/* As dataset_find(), for the file NAME or NAME.gz of folder `dir`. */
int dataset_file(const char *roots, const char *dir, const char *name, char *out, struct err *e);
/* Opens a file that dataset_file() found, compressed or not. NULL after an error, which calls the
 * file `name`. */
struct gzFile_s *dataset_open_file(const char *path, const char *name, struct err *e);
/* {"path","format","shape","classes","samples","test_samples","digest"} of every data set below the
 * roots, two levels deep. The digest is that of dataset_open() with the format's defaults. It takes
 * reading everything, so the file `cache` (NULL: none) keeps it with the sizes and times of the
 * files. It is null for data sets that were not reached within `seconds`. New reference. */
json_t *dataset_list(const char *roots, const char *cache, double seconds, struct err *e);
/* The path of the data set whose name is most similar to `path`, which is no data set: for typing
 * errors. NULL: none is similar. The caller frees it. */
char *dataset_nearest(const char *roots, const char *path);

/* The names of its classes, at least `classes` of them; NULL: unknown. New reference. */
json_t *dataset_names(const struct data_spec *spec, const char *roots, int classes);

/* One format. `read` reads into d; `dir` is the folder that the path led to ("" for glyphs), whose
 * files dataset_file() finds. peek: shapes, counts and classes only. `read` may set the digest;
 * otherwise it is computed over the values. A folder has this format if it has any file of
 * `markers`, or if `match` returns true; without both, the format needs no folder. */
struct dataset_format {
    int id;                 /* CAT_FORMAT_… */
    const char *markers[3]; /* ends with NULL */
    int (*read)(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                const char *dir, bool peek, struct err *e);
    bool (*match)(const char *dir); /* NULL: by markers */
    double test_share;              /* of training samples to hold out if none are for tests */
};
extern const struct dataset_format dataset_idx, dataset_cifar_10, dataset_cifar_100, dataset_npy,
    dataset_images, dataset_glyphs;
extern const struct dataset_format *const dataset_formats[]; /* ends with NULL */

/* SHA-256 over shapes, counts and all values. Fails on a NaN or infinite value. */
int dataset_digest(const struct dataset *d, char out[65], struct err *e);
/* Copies samples first … first+n, in the order of the part, as bytes or floats, channels last. */
void dataset_copy(const struct dataset *d, const struct dataset_part *part, int64_t first,
                  int64_t n, void *to);
/* Reads all samples, as a job would. Fails on a NaN or infinite value, and on a picture that cannot
 * be decoded. */
int dataset_try(const struct dataset *d, struct err *e);
/* Fails if a file was shortened or changed since the data set was opened; samples gathered since
 * may be wrong. */
int dataset_intact(const struct dataset *d, struct err *e);
struct once;
/* Starts to read samples index[0..n) from their file, without waiting. once (stored.h): which of
 * them do not stay in memory; NULL: all do. */
void dataset_ahead(const struct dataset_part *part, const struct once *once, const int64_t *index,
                   int64_t n);
/* The share of each file that stays in the page cache if files may take `room` bytes; 1: all of it.
 * For a data set larger than memory, the end of each file stays from one epoch to the next. Samples
 * before it leave the cache after reading, because each would push out one that is needed
 * sooner. */
double dataset_kept(const struct dataset *d, int64_t room);

/* One visit of a sample. The sample's random choices depend only on this and on its index. */
struct visit {
    bool training; /* false: nothing is random; windows come from the middle */
    uint64_t seed;
    int64_t epoch;
    const struct once *once; /* of samples that do not stay in memory (stored.h); NULL: all do */
};
/* Copies samples index[0..n) into x (float, normalised, augmented: [n][dataset_shape]) and y. Pure;
 * the loader's thread and the simulator use it. */
void dataset_gather(const struct dataset *d, const struct dataset_part *part,
                    const struct data_spec *spec, const struct visit *visit, const int64_t *index,
                    int64_t n, float *x, void *y);

/* For devices that keep samples and gather themselves (kernels/samples.h). */
enum { DATASET_CHANNELS = 16 };
struct dev_source;
struct dev_view;
/* What a device needs to keep a part's samples; false: only the host can gather them (floats, or
 * pictures with a mean image). `out` points into part and table. */
bool dataset_source(const struct dataset *d, const struct dataset_part *part,
                    const struct data_spec *spec, struct dev_source *out,
                    float table[DATASET_CHANNELS][256]);
/* Views of samples index[0..n); false: samples are whole, and out is not written. */
bool dataset_views(const struct dataset *d, const struct data_spec *spec, const struct visit *visit,
                   const int64_t *index, int64_t n, struct dev_view *out);
void dataset_targets(const struct dataset *d, const struct dataset_part *part, const int64_t *index,
                     int64_t n, void *y);

/* ---- for the files of this folder ------------------------------------------------------------ */
size_t dataset_x_bytes(const struct dataset *d); /* of one sample */
size_t dataset_y_bytes(const struct dataset *d);
struct form;
struct unpack;
/* Gives these samples to the part, which takes them over (stored.h). */
void dataset_take(const struct dataset *d, struct dataset_part *part, struct stored *s);
/* Gives the part all samples in one file after byte `head` (unpacked.h). */
int dataset_take_file(const struct dataset *d, struct dataset_part *part, struct unpack *u,
                      size_t head, const struct form *form, struct err *e);
/* Replaces the test samples by a share of the training samples, chosen by the seed. */
int dataset_hold_out(struct dataset *d, double share, uint64_t seed, bool peek, struct err *e);
/* Announces that samples will be read in random order. */
void dataset_shuffled(const struct dataset *d);
/* The format (CAT_FORMAT_…) of a folder by its markers, or -1. */
int dataset_detect(const char *roots, const char *dir);
/* The next root of a colon-separated list into out[4096], resolved; false at the end. Skips roots
 * that do not exist. */
bool dataset_next_root(const char **roots, char *out);
enum resolved { RESOLVED_NOTHING, RESOLVED_FOUND };
/* Resolves dir/name into out[4096]. Returns enum resolved; negative: it leads outside the roots. */
int dataset_resolve(const char *roots, const char *dir, const char *name, char *out, struct err *e);

#endif
