/* Which pictures a data set has: a folder for each class, beneath train/ and test/ or beneath the
 * data set's folder itself.
 *
 *   DATA/train/cat/1.jpg    DATA/test/cat/7.jpg        DATA/cat/1.jpg
 *   DATA/train/dog/1.png    DATA/test/dog/9.JPEG       DATA/dog/1.png
 *
 * Labels are the numbers of the classes, sorted by name, byte by byte. Hidden names do not count,
 * nor do files next to the class folders. A file in a class that is not .jpg, .jpeg or .png is an
 * error, so that none is left out silently. This file only reads names; it opens no file.
 */
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
    char *names; /* names of all pictures below dir, each with a NUL; owned */
    size_t names_bytes, names_room;
    struct picture {
        size_t name; /* its offset in `names` */
        int32_t label;
        uint64_t stamp; /* of its size and time at the first reading; 0: not yet */
    } * pictures;       /* [n], sorted by part, class and name; owned */
    int64_t n, room;
    int64_t n_train; /* they come first; n without a test part */
};

/* Does the folder look like a data set of this format? Reads only a few names. */
bool folders_match(const char *dir);
/* Fills f from the folder `dir`, an absolute path. Needs folders_release() after success. */
int folders_read(struct folders *f, const char *dir, struct err *e);
void folders_release(struct folders *f);
/* The path of picture i below dir. */
const char *folders_name(const struct folders *f, int64_t i);

#endif
