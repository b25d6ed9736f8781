/* CIFAR-10 and CIFAR-100 in their binary version: files of records, a record being one label
 * (CIFAR-100: the coarse one, then the fine one) and three planes of 32 x 32 bytes, red, green,
 * blue. They are in the folder, in the one that the archive makes in it, or in the archive itself;
 * each may be packed with gzip.
 *
 *   data_batch_1.bin   │ label │ 1024 red │ 1024 green │ 1024 blue │ label │ …
 *                      ─►  x[sample][row][column][channel]
 *
 * Records stay in their files, or in the archive, which are mapped; the channels of a pixel come
 * together when a sample is gathered. An archive's members come in any order, so all are found
 * first, and only then put into the order in which the data set counts its samples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "worker/data/dataset.h"
#include "worker/data/files/stored.h"
#include "worker/data/files/unpacked.h"

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

struct raw { /* one file */
    bool there;
    struct mapped *in; /* shared; NULL while peeking */
    size_t offset;
    int64_t n;
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

/* Counts a file's bytes by reading it to its end, because a compressed file does not tell its
 * size. */
static int count_bytes(gzFile f, const char *name, int64_t *n, struct err *e)
{
    uint8_t scratch[16384];
    for (int got; (got = gzread(f, scratch, sizeof(scratch))) != 0 && *n <= FILE_MAX; *n += got) {
        if (got < 0) {
            return unpacked_torn(f, name, *n, -1, e);
        }
    }
    int code;
    gzerror(f, &code); /* a truncated compressed file */
    if (code != Z_OK) {
        return unpacked_torn(f, name, *n, -1, e);
    }
    return *n <= FILE_MAX ? 0 : err_set(e, ERR_DATA, "'%s' has more than %d bytes", name, FILE_MAX);
}

static int read_file(gzFile f, const char *path, const char *name, bool peek, struct raw *out,
                     struct err *e)
{
    struct stat st;
    out->there = true;
    if (peek && gzdirect(f) && stat(path, &st) == 0) {
        out->n = (int64_t)st.st_size;
        return 0;
    }
    if (peek) {
        return count_bytes(f, name, &out->n, e);
    }
    struct err why = {0};
    struct unpack u = {f, path, name, -1, FILE_MAX, 0};
    out->in = unpacked_open(&u, &why);
    out->n = out->in ? (int64_t)out->in->bytes : 0;
    return out->in ? 0 : err_set(e, why.code, "%s", why.message);
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
        rc = read_file(f, path, c->files[i], peek, &raw[i], e);
        gzclose(f);
    }
    return rc;
}

/* ---- the archive (POSIX 1003.1 ustar: a block of header before each member, members padded to
 * whole blocks) -- */

/* The member's size, or -1 if the field is no number. */
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

/* An archive, read from its beginning: mapped or, while peeking, as a stream. */
struct tape {
    gzFile f;
    struct mapped *in; /* or NULL: `f` */
    const char *name;
    int64_t at;
};

/* Reads n bytes, or fewer at the end; `to` NULL: skips them. Returns how many. */
static int64_t tape_read(struct tape *t, uint8_t *to, int64_t n)
{
    uint8_t scratch[16384];
    int64_t done = 0, left = t->in ? (int64_t)t->in->bytes - t->at : n;
    n = n < left ? n : left;
    if (t->in && to) {
        memcpy(to, t->in->at + t->at, (size_t)n);
    }
    for (int got = 1; !t->in && done < n && got > 0; done += got > 0 ? got : 0) {
        int64_t most = n - done < (int64_t)sizeof(scratch) ? n - done : (int64_t)sizeof(scratch);
        got = gzread(t->f, to ? to + done : scratch, (unsigned)most);
    }
    done = t->in ? n : done;
    t->at += done;
    return done;
}

static int read_members(const struct cifar *c, struct tape *t, struct raw *raw, struct err *e)
{
    for (;;) {
        uint8_t head[BLOCK];
        int64_t begin = t->at, got = tape_read(t, head, BLOCK);
        if (got == 0 || (got == BLOCK && head[0] == '\0')) {
            return 0; /* its end */
        }
        if (got != BLOCK) {
            return unpacked_torn(t->f, c->archive, t->at, begin + BLOCK, e);
        }
        int64_t size = octal(head + 124, 12);
        if (size < 0 || size > FILE_MAX) {
            return err_set(e, ERR_DATA, "'%s' is not a tar archive: there is no size at byte %lld",
                           c->archive, (long long)begin + 124);
        }
        int i = find_member(c, head);
        if (i >= 0 && !raw[i].there) {
            raw[i] = (struct raw){true, t->in ? mapped_share(t->in) : NULL, (size_t)t->at, size};
        }
        got = tape_read(t, NULL, size);
        if (got != size) {
            return unpacked_torn(t->f, i >= 0 ? c->files[i] : c->archive, got, size, e);
        }
        tape_read(t, NULL, (BLOCK - size % BLOCK) % BLOCK);
    }
}

static int read_archive(const struct cifar *c, struct raw *raw, const char *path, bool peek,
                        struct err *e)
{
    gzFile f = dataset_open_file(path, c->archive, e);
    if (!f) {
        return -ERR_IO;
    }
    struct raw whole = {0};
    int rc = peek ? 0 : read_file(f, path, c->archive, false, &whole, e);
    if (rc == 0) {
        rc = read_members(c, &(struct tape){f, whole.in, c->archive, 0}, raw, e);
    }
    mapped_close(whole.in);
    gzclose(f);
    for (int i = 0; rc == 0 && i < count_files(c); i++) {
        if (!raw[i].there) {
            rc = err_set(e, ERR_DATA, "'%s' holds no '%s'", c->archive, c->files[i]);
        }
    }
    return rc;
}

/* Looks in the folder, then in the archive's folder in it, then in the archive. */
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
    err_set(e, ERR_NOT_FOUND, "there is no file '%s', and no '%s.gz'", c->files[0], c->archive);
    err_hint(e, "put the binary version there: %s.gz, or its contents", c->archive);
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

/* Appends a file's labels. */
static int read_labels(const struct cifar *c, const struct raw *raw, const char *name,
                       int32_t *labels, struct err *e)
{
    int64_t each = c->label_bytes + PIXELS, n = raw->n / each;
    const uint8_t *record = raw->in->at + raw->offset;
    for (int64_t r = 0; r < n; r++, record += each) {
        int label = record[c->label_at];
        if (label >= c->classes) {
            return err_set(
                e, ERR_DATA, "'%s' has the label %d at byte %lld (record %lld); labels are 0 to %d",
                name, label, (long long)(r * each + c->label_at), (long long)r + 1, c->classes - 1);
        }
        labels[r] = label;
    }
    return 0;
}

/* Makes a part of files first … end. */
static int fill_part(const struct cifar *c, struct dataset *d, struct dataset_part *part,
                     const struct raw *raw, const int64_t *records, int first, int end,
                     struct err *e)
{
    struct form form = {
        .kind = 'u', .width = 1, .sample = (size_t)c->label_bytes + PIXELS, .channel = PLANE};
    struct stored *s = stored_new(&form);
    part->y = malloc((size_t)part->samples * sizeof(int32_t));
    int rc = s && part->y ? 0
                          : err_set(e, ERR_MEMORY, "cannot hold %lld labels: memory ran out",
                                    (long long)part->samples);
    for (int64_t i = first, at = 0; rc == 0 && i < end; at += records[i++]) {
        rc = read_labels(c, &raw[i], c->files[i], (int32_t *)part->y + at, e);
        stored_add(s, raw[i].in, raw[i].offset + (size_t)c->label_bytes, records[i]);
    }
    if (rc < 0) {
        stored_free(s);
        return rc;
    }
    dataset_take(d, part, s);
    return 0;
}

static int fill(const struct cifar *c, struct dataset *d, const struct raw *raw, bool peek,
                struct err *e)
{
    int files = count_files(c);
    int64_t records[FILES];
    for (int i = 0; i < files; i++) {
        int rc = check_records(c, &raw[i], c->files[i], &records[i], e);
        if (rc < 0) {
            return rc;
        }
        *(i < files - 1 ? &d->train.samples : &d->test.samples) += records[i];
    }
    int rc = peek ? 0 : fill_part(c, d, &d->train, raw, records, 0, files - 1, e);
    return rc < 0 || peek ? rc : fill_part(c, d, &d->test, raw, records, files - 1, files, e);
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
        mapped_close(raw[i].in);
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
    .id = CAT_FORMAT_CIFAR_10,
    .markers = {"data_batch_1.bin", "cifar-10-binary.tar"},
    .read = cifar_10_read};
const struct dataset_format dataset_cifar_100 = {.id = CAT_FORMAT_CIFAR_100,
                                                 .markers = {"train.bin", "cifar-100-binary.tar"},
                                                 .read = cifar_100_read};
