/* The format "images": JPEG and PNG files in a folder for each class (folders.h).
 *
 *   folders ─► bytes of all files ─► digest            (every rank, when it opens the data set)
 *                     │
 *                     ├─► cache of the host has room: decoded once, mapped by all ranks (stored.h)
 *                     └─► else: decoded whenever a sample is asked for (pictures.h)
 *
 * Either way a sample is the same bytes: resized, its middle cut out, without chance. Windows and
 * mirrors are chosen afterwards, as for every format (gather.c). The digest is over names and bytes
 * of the files, not over values, so that it needs no decoding.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/hex.h"
#include "common/log.h"
#include "worker/data/dataset.h"
#include "worker/data/images/pictures.h"
#include "worker/data/files/stored.h"
#include "worker/data/files/unpacked.h"

enum { BLOCK_BYTES = 8 << 20, FILL_THREADS = 16 };

/* ---- what samples become --------------------------------------------------------------------- */

/* Values that the spec leaves open come from the first picture; only a list leaves any open
 * (list.c). */
static int choose_form(struct image_form *out, const struct data_spec *spec, struct album *a,
                       struct err *e)
{
    struct image_head head = {0};
    size_t n = 0;
    *out = (struct image_form){.height = spec->size[0],
                               .width = spec->size[1],
                               .channels = spec->channels,
                               .stretch = spec->stretch};
    if (out->height > 0 && out->width > 0 && out->channels > 0) {
        return 0;
    }
    uint8_t *bytes = album_file(a, 0, &n, e);
    int rc =
        bytes ? image_head(bytes, n, folders_name(album_folders(a), 0), &head, e) : -(int)e->code;
    free(bytes);
    if (rc == 0) {
        out->height = out->height ? out->height : head.height;
        out->width = out->width ? out->width : head.width;
        out->channels = out->channels ? out->channels : head.channels;
    }
    return rc;
}

/* ---- the cache ------------------------------------------------------------------------------- */

struct filling {
    struct album *album;
    size_t each;
    uint8_t *block;
};

static void put(void *ctx, int64_t i, const uint8_t *values)
{
    struct filling *f = ctx;
    memcpy(f->block + (size_t)i * f->each, values, f->each);
}

static int fill_blocks(struct filling *f, struct pictures *all, int64_t most, struct incoming *in,
                       struct err *e)
{
    int64_t n = album_folders(f->album)->n;
    int64_t *index = malloc((size_t)most * sizeof(*index));
    int rc = index ? 0 : err_set(e, ERR_MEMORY, "cannot decode pictures: memory ran out");
    for (int64_t first = 0, count; rc == 0 && first < n; first += count) {
        count = n - first < most ? n - first : most;
        for (int64_t i = 0; i < count; i++) {
            index[i] = first + i;
        }
        pictures_visit(all, index, count, put, f);
        if ((rc = pictures_check(all, e)) == 0) {
            rc = received_write(in, f->block, (size_t)count * f->each, e);
        }
    }
    free(index);
    return rc;
}

/* Writes the samples of all pictures, one after the other. */
static int fill(void *ctx, struct incoming *in, struct err *e)
{
    struct filling *f = ctx;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t n = album_folders(f->album)->n,
            most = f->each < BLOCK_BYTES ? BLOCK_BYTES / (int64_t)f->each : 1;
    struct pictures *all = pictures_new(f->album, NULL, 0, n);
    f->block = malloc((size_t)most * f->each);
    int rc = all && f->block ? 0 : err_set(e, ERR_MEMORY, "cannot decode pictures: memory ran out");
    if (rc == 0) {
        log_info("data", "decodes the pictures once for this host", "pictures=%lld bytes=%lld",
                 (long long)n, (long long)(n * (int64_t)f->each));
        album_staff(f->album, cores < FILL_THREADS ? (int)cores : FILL_THREADS);
        rc = fill_blocks(f, all, most, in, e);
        album_staff(f->album, 1);
    }
    free(f->block);
    pictures_free(all);
    return rc;
}

static void cache_key(const struct image_form *form, const char *digest, char out[65])
{
    char text[160];
    unsigned char sum[EVP_MAX_MD_SIZE];
    int n = snprintf(text, sizeof(text), "pictures 1 %d %d %d %d %s\n", form->height, form->width,
                     form->channels, form->stretch, digest);
    BUG_ON(EVP_Digest(text, (size_t)n, sum, NULL, EVP_sha256(), NULL) != 1);
    hex_of(out, sum, 32);
}

/* NULL without an error: this host has no cache, or no room in it. */
static struct mapped *from_cache(struct album *a, const struct image_form *form, const char *digest,
                                 struct err *e)
{
    struct filling f = {.album = a, .each = image_form_bytes(form)};
    struct err why = {0};
    char key[65], quoted[600];
    int64_t bytes = album_folders(a)->n * (int64_t)f.each;
    struct unpacking u = {key, "the decoded pictures", bytes, bytes, fill, &f};
    cache_key(form, digest, key);
    struct mapped *m = unpacked_once(&u, &why);
    if (!m && why.code == ERR_DATA) {
        *e = why;
    } else if (!m && why.code != ERR_NONE) {
        log_warn("data", "pictures are decoded whenever they are used", "why=%s",
                 log_quote(quoted, sizeof(quoted), why.message));
    }
    return m;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int take_stored(struct dataset *d, struct mapped *m, const struct image_form *form,
                       struct err *e)
{
    struct form bytes = {.kind = 'u', .width = 1, .sample = image_form_bytes(form)};
    struct stored *train = stored_new(&bytes), *test = stored_new(&bytes);
    if (!train || !test) {
        stored_free(train);
        stored_free(test);
        return err_set(e, ERR_MEMORY, "cannot map pictures: memory ran out");
    }
    stored_add(train, m, 0, d->train.samples);
    stored_add(test, m, (size_t)d->train.samples * bytes.sample, d->test.samples);
    dataset_take(d, &d->train, train);
    dataset_take(d, &d->test, test);
    return 0;
}

static int take_labels(struct dataset_part *part, const struct folders *f, int64_t first,
                       struct err *e)
{
    int32_t *y = malloc(((size_t)part->samples + 1) * sizeof(*y));
    for (int64_t i = 0; y && i < part->samples; i++) {
        y[i] = f->pictures[first + i].label;
    }
    part->y = y;
    return y ? 0 : err_set(e, ERR_MEMORY, "cannot hold labels: memory ran out");
}

static int take_samples(struct dataset *d, const struct data_spec *spec, struct album *a,
                        const struct image_form *form, struct err *e)
{
    const struct folders *f = album_folders(a);
    int rc;
    if (unpacked_keeps() && (rc = album_digest(a, d->digest, e)) < 0) {
        return rc;
    }
    if ((rc = take_labels(&d->train, f, 0, e)) < 0 ||
        (rc = take_labels(&d->test, f, d->train.samples, e)) < 0) {
        return rc;
    }
    struct err why = {0};
    struct mapped *m = d->digest[0] ? from_cache(a, form, d->digest, &why) : NULL;
    if (m) {
        rc = take_stored(d, m, form, e);
        mapped_close(m);
        return rc;
    }
    if (why.code != ERR_NONE) {
        *e = why;
        return -(int)why.code;
    }
    album_staff(a, spec->threads);
    d->train.pictures = pictures_new(a, NULL, 0, d->train.samples);
    d->test.pictures = pictures_new(a, NULL, d->train.samples, d->test.samples);
    return d->train.pictures && d->test.pictures
               ? 0
               : err_set(e, ERR_MEMORY, "cannot hold the names of pictures: memory ran out");
}

static int images_read(struct dataset *d, const struct data_spec *spec, uint64_t seed,
                       const char *roots, const char *dir, bool peek, struct err *e)
{
    struct folders f;
    struct image_form form;
    int rc = folders_read(&f, dir, e);
    if (rc < 0) {
        return rc;
    }
    d->x_bytes = true;
    d->y_labels = true;
    d->classes = f.n_classes;
    d->train.samples = f.n_train;
    d->test.samples = f.n - f.n_train;
    if (f.n_train == 0) {
        folders_release(&f);
        return 0; /* the caller says that there are none */
    }
    struct album *a = album_new(&f, roots, e);
    if (!a) {
        return -(int)e->code;
    }
    if ((rc = choose_form(&form, spec, a, e)) == 0) {
        d->input = (struct shape){3, {form.height, form.width, form.channels}};
    }
    if (rc == 0 && !peek && (rc = album_form(a, &form, e)) == 0) {
        rc = take_samples(d, spec, a, &form, e);
    }
    album_close(a);
    return rc;
}

const struct dataset_format dataset_images = {
    .id = CAT_FORMAT_IMAGES, .read = images_read, .match = folders_match, .test_share = 0.2};
