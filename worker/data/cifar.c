/* CIFAR-10 and CIFAR-100 in their binary version: files of records, a record being one label
 * (CIFAR-100: the coarse one, then the fine one) and three planes of 32 x 32 bytes, red, green,
 * blue. They are in the folder, in the one that the archive makes in it, or in the archive itself;
 * each may be packed with gzip.
 *
 *   data_batch_1.bin   │ label │ 1024 red │ 1024 green │ 1024 blue │ label │ …
 *                      ─►  x[sample][row][column][channel]
 *
 * An archive's members come in any order. So all files are read first, each into memory of its own
 * (180 MB in all), and only then put into the order in which the data set counts its samples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "worker/data/dataset.h"

enum {
    SIDE = 32,
    PLANE = SIDE * SIDE,
    PIXELS = 3 * PLANE,
    FILES = 6,
    BLOCK = 512,
    FILE_MAX = 1 << 30
};

struct cifar {
    const char *files[FILES]; /* training files, then the test file, then NULL */
    const char *archive, *folder;
    int label_bytes, label_at; /* of a record */
    int classes;
};

static const struct cifar cifar_10 = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                       "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
                                      "cifar-10-binary.tar",
                                      "cifar-10-batches-bin",
                                      1,
                                      0,
                                      10};
static const struct cifar cifar_100_fine = {
    {"train.bin", "test.bin"}, "cifar-100-binary.tar", "cifar-100-binary", 2, 1, 100};
static const struct cifar cifar_100_coarse = {
    {"train.bin", "test.bin"}, "cifar-100-binary.tar", "cifar-100-binary", 2, 0, 20};

struct raw {        /* one file */
    uint8_t *bytes; /* owned; NULL while peeking */
    int64_t n;
    bool there;
};

static int count_files(const struct cifar *c)
{
    int n = 0;
    while (n < FILES && c->files[n]) {
        n++;
    }
    return n;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int torn(gzFile f, const char *name, int64_t at, int64_t of, struct err *e)
{
    int code;
    const char *why = gzerror(f, &code);
    if (code != Z_OK && code != Z_STREAM_END) {
        return err_set(e, ERR_DATA, "cannot read '%s' near byte %lld: %s", name, (long long)at,
                       why);
    }
    return err_set(e, ERR_DATA, "cannot read '%s': it ends at byte %lld of %lld", name,
                   (long long)at, (long long)of);
}

/* Reads `want` bytes, or with -1 up to the end. Memory grows with the bytes read, not with the size
 * in a header. */
static int read_raw(gzFile f, const char *name, int64_t want, bool peek, struct raw *out,
                    struct err *e)
{
    int64_t room = 0;
    uint8_t scratch[16384];
    out->there = true;
    while (want < 0 || out->n < want) {
        if (!peek && out->n == room) {
            room = room ? 2 * room : 1 << 16;
            uint8_t *more = room <= 2LL * FILE_MAX ? realloc(out->bytes, (size_t)room) : NULL;
            if (!more) {
                return err_set(e, ERR_MEMORY, "cannot hold '%s' beyond byte %lld", name,
                               (long long)out->n);
            }
            out->bytes = more;
        }
        int64_t most = peek ? (int64_t)sizeof(scratch) : room - out->n;
        most = want >= 0 && want - out->n < most ? want - out->n : most;
        int got = gzread(f, peek ? scratch : out->bytes + out->n, (unsigned)most);
        int code = Z_OK;
        if (got == 0) {
            gzerror(f, &code); /* a packed file that was cut off */
        }
        if (got < 0 || code != Z_OK || (got == 0 && want >= 0)) {
            return torn(f, name, out->n, want, e);
        }
        if (got == 0) {
            return 0;
        }
        out->n += got;
        if (out->n > FILE_MAX) {
            return err_set(e, ERR_DATA, "'%s' has more than %d bytes", name, FILE_MAX);
        }
    }
    return 0;
}

static int read_folder(const struct cifar *c, struct raw *raw, const char *roots, const char *dir,
                       bool peek, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < count_files(c); i++) {
        char path[4096];
        rc = dataset_file(roots, dir, c->files[i], path, e);
        gzFile f = rc == 0 ? dataset_open_file(path, c->files[i], e) : NULL;
        if (!f) {
            return rc < 0 ? rc : -ERR_IO;
        }
        struct stat st;
        if (peek && gzdirect(f) && stat(path, &st) == 0) {
            raw[i] = (struct raw){NULL, (int64_t)st.st_size, true};
        } else {
            rc = read_raw(f, c->files[i], -1, peek, &raw[i], e);
        }
        gzclose(f);
    }
    return rc;
}

/* ---- the archive (POSIX 1003.1 ustar: a block of header before each member, members padded to
 * whole blocks) -- */

/* The member's size, or -1 if it is no number. */
static int64_t octal(const uint8_t *p, int n)
{
    int64_t v = 0;
    while (n > 0 && *p == ' ') {
        p++;
        n--;
    }
    for (; n > 0 && *p >= '0' && *p <= '7'; p++, n--) {
        v = v * 8 + (*p - '0');
    }
    return n == 0 || *p == '\0' || *p == ' ' ? v : -1;
}

static int find_member(const struct cifar *c, const uint8_t head[BLOCK])
{
    char name[101];
    memcpy(name, head, 100);
    name[100] = '\0';
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    for (int i = 0; (head[156] == '0' || head[156] == '\0') && i < count_files(c); i++) {
        if (strcmp(base, c->files[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int read_members(const struct cifar *c, gzFile f, struct raw *raw, bool peek, struct err *e)
{
    int64_t at = 0;
    for (;;) {
        uint8_t head[BLOCK];
        int got = gzread(f, head, BLOCK);
        if (got == 0 || (got == BLOCK && head[0] == '\0')) {
            return 0; /* its end */
        }
        if (got != BLOCK) {
            return torn(f, c->archive, at + (got > 0 ? got : 0), at + BLOCK, e);
        }
        int64_t size = octal(head + 124, 12), padded = (size + BLOCK - 1) / BLOCK * BLOCK;
        if (size < 0 || size > FILE_MAX) {
            return err_set(e, ERR_DATA, "'%s' is no tar archive: there is no size at byte %lld",
                           c->archive, (long long)at + 124);
        }
        int i = find_member(c, head);
        struct raw none = {0}, *out = i >= 0 && !raw[i].there ? &raw[i] : &none;
        int rc = read_raw(f, i >= 0 ? c->files[i] : c->archive, size, peek || out == &none, out, e);
        at += BLOCK + padded;
        if (rc < 0) {
            return rc;
        }
        if (gzseek(f, padded - size, SEEK_CUR) < 0) {
            return torn(f, c->archive, at, at, e);
        }
    }
}

static int read_archive(const struct cifar *c, struct raw *raw, const char *path, bool peek,
                        struct err *e)
{
    gzFile f = dataset_open_file(path, c->archive, e);
    if (!f) {
        return -ERR_IO;
    }
    int rc = read_members(c, f, raw, peek, e);
    gzclose(f);
    for (int i = 0; rc == 0 && i < count_files(c); i++) {
        if (!raw[i].there) {
            rc = err_set(e, ERR_DATA, "'%s' holds no '%s'", c->archive, c->files[i]);
        }
    }
    return rc;
}

/* In the folder, in the archive's folder in it, in the archive. */
static int read_files(const struct cifar *c, struct raw *raw, const char *roots, const char *dir,
                      bool peek, struct err *e)
{
    char path[4096], below[128], inner[4096];
    struct err why = {0};
    snprintf(below, sizeof(below), "%s/%s", c->folder, c->files[0]);
    if (dataset_file(roots, dir, c->files[0], path, &why) == 0) {
        return read_folder(c, raw, roots, dir, peek, e);
    }
    if (why.code == ERR_NOT_FOUND && dataset_file(roots, dir, below, path, &why) == 0) {
        return snprintf(inner, sizeof(inner), "%s/%s", dir, c->folder) < (int)sizeof(inner)
                   ? read_folder(c, raw, roots, inner, peek, e)
                   : err_set(e, ERR_INVALID, "the path is too long");
    }
    if (why.code == ERR_NOT_FOUND && dataset_file(roots, dir, c->archive, path, &why) == 0) {
        return read_archive(c, raw, path, peek, e);
    }
    if (why.code == ERR_FORBIDDEN) {
        return err_set(e, ERR_FORBIDDEN, "%s", why.message);
    }
    err_set(e, ERR_NOT_FOUND, "there is no file '%s' in '%.300s', and no '%s.gz'", c->files[0], dir,
            c->archive);
    err_hint(e, "put the binary version there: %s.gz, or what is in it", c->archive);
    return -ERR_NOT_FOUND;
}

/* ---- records --------------------------------------------------------------------------------- */

static int check_records(const struct cifar *c, const struct raw *raw, const char *name,
                         int64_t *records, struct err *e)
{
    int64_t each = c->label_bytes + PIXELS;
    *records = raw->n / each;
    if (raw->n == 0 || raw->n % each != 0) {
        return err_set(e, ERR_DATA,
                       "'%s' ends at byte %lld, within its record %lld: records have %lld bytes",
                       name, (long long)raw->n, (long long)*records + 1, (long long)each);
    }
    return 0;
}

/* Appends a file's records to a part that has room for them. */
static int decode(const struct cifar *c, const struct raw *raw, const char *name,
                  struct dataset_part *part, int64_t at, struct err *e)
{
    int64_t each = c->label_bytes + PIXELS, n = raw->n / each;
    for (int64_t r = 0; r < n; r++) {
        const uint8_t *record = raw->bytes + r * each, *planes = record + c->label_bytes;
        uint8_t *x = (uint8_t *)part->x + (at + r) * PIXELS;
        int label = record[c->label_at];
        if (label >= c->classes) {
            return err_set(
                e, ERR_DATA, "'%s' has the label %d at byte %lld (record %lld); labels are 0 to %d",
                name, label, (long long)(r * each + c->label_at), (long long)r + 1, c->classes - 1);
        }
        ((int32_t *)part->y)[at + r] = label;
        for (int i = 0; i < PLANE; i++) {
            x[3 * i] = planes[i];
            x[3 * i + 1] = planes[PLANE + i];
            x[3 * i + 2] = planes[2 * PLANE + i];
        }
    }
    return 0;
}

static int fill(const struct cifar *c, struct dataset *d, struct raw *raw, bool peek, struct err *e)
{
    int files = count_files(c), rc = 0;
    int64_t records[FILES];
    for (int i = 0; i < files; i++) {
        rc = check_records(c, &raw[i], c->files[i], &records[i], e);
        if (rc < 0) {
            return rc;
        }
        *(i < files - 1 ? &d->train.samples : &d->test.samples) += records[i];
    }
    for (int p = 0; !peek && p < 2; p++) {
        struct dataset_part *part = p == 0 ? &d->train : &d->test;
        part->x = malloc((size_t)part->samples * PIXELS);
        part->y = malloc((size_t)part->samples * sizeof(int32_t));
        if (!part->x || !part->y) {
            return err_set(e, ERR_MEMORY, "cannot hold %lld pictures: memory ran out",
                           (long long)part->samples);
        }
    }
    int64_t at = 0;
    for (int i = 0; !peek && rc == 0 && i < files; i++) {
        rc = decode(c, &raw[i], c->files[i], i < files - 1 ? &d->train : &d->test,
                    i < files - 1 ? at : 0, e);
        at += records[i];
    }
    return rc;
}

static int read_cifar(const struct cifar *c, struct dataset *d, const char *roots, const char *dir,
                      bool peek, struct err *e)
{
    struct raw raw[FILES] = {{0}};
    d->input = (struct shape){3, {SIDE, SIDE, 3}};
    d->x_bytes = true;
    d->y_labels = true;
    d->classes = c->classes;
    int rc = read_files(c, raw, roots, dir, peek, e);
    if (rc >= 0) {
        rc = fill(c, d, raw, peek, e);
    }
    for (int i = 0; i < FILES; i++) {
        free(raw[i].bytes);
    }
    return rc;
}

static int cifar_10_read(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                         const char *roots, const char *dir, bool peek, struct err *e)
{
    return read_cifar(&cifar_10, d, roots, dir, peek, e);
}

static int cifar_100_read(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                          const char *roots, const char *dir, bool peek, struct err *e)
{
    return read_cifar(spec->coarse ? &cifar_100_coarse : &cifar_100_fine, d, roots, dir, peek, e);
}

const struct dataset_format dataset_cifar_10 = {
    CAT_FORMAT_CIFAR_10, {"data_batch_1.bin", "cifar-10-binary.tar"}, cifar_10_read};
const struct dataset_format dataset_cifar_100 = {
    CAT_FORMAT_CIFAR_100, {"train.bin", "cifar-100-binary.tar"}, cifar_100_read};
