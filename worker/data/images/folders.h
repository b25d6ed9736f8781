/* Which pictures a data set has: a folder for each class, beneath train/ and test/ or beneath the
 * data set's folder itself.
 *
 *   DATA/train/cat/1.jpg    DATA/test/cat/7.jpg        DATA/cat/1.jpg
 *   DATA/train/dog/1.png    DATA/test/dog/9.JPEG       DATA/dog/1.png
 *
 * Labels are the classes' numbers in the order of their names, byte by byte. Names that begin with
 * a dot do not count, nor do files beside the folders of classes. A file in a class that is neither
 * .jpg, .jpeg nor .png is refused, so that none is left out without a word. Only names are read
 * here, no file is opened. */
#ifndef WORKER_DATA_IMAGES_FOLDERS_H
#define WORKER_DATA_IMAGES_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { FOLDERS_CLASSES = 100000, FOLDERS_PICTURES = 20000000, FOLDERS_PATH = 4096 };

struct folders {
    char dir[FOLDERS_PATH]; /* the data set's */
    char **classes;         /* [n_classes], sorted; owned */
    int n_classes;
    char *names; /* of all pictures beneath dir, each with a NUL; owned */
    size_t names_bytes, names_room;
    struct picture {
        size_t name; /* where it begins in `names` */
        int32_t label;
        uint64_t stamp; /* of its size and time when it was first read; 0: not yet */
    } * pictures;       /* [n], sorted by part, class and name; owned */
    int64_t n, room;
    int64_t n_train; /* the first ones; n without a test part */
};

/* Does the folder look like a data set of this format? Looks at a few names only. */
bool folders_match(const char *dir);
/* Fills f from the folder `dir`, an absolute path. Needs folders_release() after success. */
int folders_read(struct folders *f, const char *dir, struct err *e);
void folders_release(struct folders *f);
/* The path of picture i beneath dir. */
const char *folders_name(const struct folders *f, int64_t i);

#endif
