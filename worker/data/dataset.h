/* A data set: training and test samples as their files have them, read-only once open, with one
 * file per format (idx.c npy.c glyphs.c …). Samples stay in their files, which are mapped, or are
 * in memory where a format has no file (glyphs) or scatters a sample over it (Fortran order).
 * Looked up beneath the folders of EVENSTEP_DATA, never outside them (symbolic links are resolved).
 * Mistakes name the file and the byte.
 */
#ifndef WORKER_DATA_DATASET_H
#define WORKER_DATA_DATASET_H

#include "job/spec/spec.h"

struct stored;
struct pictures;
struct dataset_part {
    int64_t samples;
    void *x; /* [samples][input], NHWC: uint8_t or float; NULL: only `stored` has them */
    void *y; /* int32_t [samples], or float [samples][target]; owned */
    struct stored *stored; /* samples in mapped files, owned; x then points into them, or is NULL.
                              NULL: x is owned */
    struct pictures *pictures; /* samples that are decoded when they are asked for, owned; x and
                                  stored are NULL then */
};
struct dataset {
    struct shape input;
    bool x_bytes;  /* x is uint8_t (normalise) or float (used as it is) */
    bool y_labels; /* int32 labels, or float targets */
    int classes;   /* of labels: largest + 1 */
    int target;    /* floats of a float target */
    struct dataset_part train, test;
    char digest[65]; /* SHA-256 over all values (images: over names and bytes of the files), hex */
};

/* roots: colon-separated folders (EVENSTEP_DATA). d needs dataset_release only after success. */
/* `validation` above 0: that share of the training samples, chosen by the seed, takes the test
 * samples' place. */
int dataset_open(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                 struct err *e);
/* The same without a digest: no value is read before it is asked for. */
int dataset_open_unread(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                        const char *roots, struct err *e);
/* Only shapes, counts and labels (classes), no samples; quick. For the keeper and the
 * coordinator's dry run: x, y, stored and pictures stay NULL. */
int dataset_peek(struct dataset *d, const struct data_spec *spec, const char *roots, struct err *e);
/* Does the network take these samples, as `spec` normalises them and cuts windows out of them? */
int dataset_check(const struct dataset *d, const struct data_spec *spec, const struct network *net,
                  struct err *e);
/* The shape of a sample as the network gets it: the data set's, or the window's. */
struct shape dataset_shape(const struct dataset *d, const struct data_spec *spec);
void dataset_release(struct dataset *d);
/* Finds PATH beneath one of the roots into out[4096], symbolic links resolved; ERR_FORBIDDEN if it
 * leads outside all of them, ERR_NOT_FOUND if it is beneath none. Only its hint names the roots:
 * they concern who may put a data set there, and not all who read the message. */
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
/* The path of the data set whose name is nearest to this one, which is no data set's: a slip of a
 * letter or two; NULL: none is near. The caller frees it. */
char *dataset_nearest(const char *roots, const char *path);

/* The names of its classes, at least so many; NULL: they are not known. New reference. */
json_t *dataset_names(const struct data_spec *spec, const char *roots, int classes);

/* One format: reads into d. `dir` is the folder that path led to ("" for glyphs); files in it are
 * found by dataset_file. peek: shapes, counts and classes only. `read` may set the digest, else it
 * is taken over the values. A folder is of this format if it has any file of `markers`, or if
 * `match` says so; with neither the format needs no folder. */
struct dataset_format {
    int id;                 /* CAT_FORMAT_… */
    const char *markers[3]; /* ends with NULL */
    int (*read)(struct dataset *d, const struct data_spec *spec, uint64_t seed, const char *roots,
                const char *dir, bool peek, struct err *e);
    bool (*match)(const char *dir); /* NULL: by markers */
    double test_share; /* of the training samples, taken out where there are no test samples; 0: it
                          must have some */
};
extern const struct dataset_format dataset_idx, dataset_cifar_10, dataset_cifar_100, dataset_npy,
    dataset_images, dataset_glyphs;
extern const struct dataset_format *const dataset_formats[]; /* ends with NULL */

/* SHA-256 over shapes, counts and all values. Fails where a float is not finite. */
int dataset_digest(const struct dataset *d, char out[65], struct err *e);
/* Copies samples first … first+n, in the order of the part, as bytes or floats, channels last. */
void dataset_copy(const struct dataset *d, const struct dataset_part *part, int64_t first,
                  int64_t n, void *to);
/* Reads all samples, as a job would sooner or later: fails where a float is not finite or a picture
 * cannot be decoded. */
int dataset_try(const struct dataset *d, struct err *e);
/* Fails if a file was shortened or changed since the data set was opened: what was gathered since
 * may be wrong. */
int dataset_intact(const struct dataset *d, struct err *e);
struct once;
/* Begins to read samples index[0..n) from their file, without waiting; once (stored.h): which of
 * them do not stay in memory, NULL: all do. */
void dataset_ahead(const struct dataset_part *part, const struct once *once, const int64_t *index,
                   int64_t n);
/* The share of each file that stays in the page cache if files may take `room` bytes; 1: all of it.
 * For a data set that is larger than memory the end of each file stays from one epoch to the next.
 * Samples before it leave the cache once they were read, because each would push out one that is
 * needed sooner. */
double dataset_kept(const struct dataset *d, int64_t room);

/* When a sample is visited: its random choices depend on these and on its index alone. */
struct visit {
    bool training; /* false: nothing is random, windows come from the middle */
    uint64_t seed;
    int64_t epoch;
    const struct once *once; /* of samples that do not stay in memory (stored.h); NULL: all do */
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
struct form;
struct unpack;
/* The part's samples are these, which it takes over (stored.h). */
void dataset_take(const struct dataset *d, struct dataset_part *part, struct stored *s);
/* The part's samples are all that is in one file after byte `head` (unpacked.h). */
int dataset_take_file(const struct dataset *d, struct dataset_part *part, struct unpack *u,
                      size_t head, const struct form *form, struct err *e);
/* A share of the training samples, chosen by the seed, takes the test samples' place. */
int dataset_hold_out(struct dataset *d, double share, uint64_t seed, bool peek, struct err *e);
/* Samples will be asked for in no order. */
void dataset_shuffled(const struct dataset *d);
/* The format (CAT_FORMAT_…) of a folder by its markers, or -1. */
int dataset_detect(const char *roots, const char *dir);
/* The next root of a colon-separated list into out[4096], resolved; false at the end. Roots that
 * are not there are skipped. */
bool dataset_next_root(const char **roots, char *out);
enum resolved { RESOLVED_NOTHING, RESOLVED_FOUND };
/* dir/name resolved into out[4096]. Returns enum resolved; negative: it leads outside the roots. */
int dataset_resolve(const char *roots, const char *dir, const char *name, char *out, struct err *e);

#endif
