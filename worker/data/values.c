/* What is done with the values of every data set, whatever its format: the digest by which nodes
 * know that they have the same data, the validation part, and copies of samples that are still in
 * their files (stored.h).
 *
 * A data set may be larger than memory. So opening it makes one pass over the values, in order (for
 * the digest, and to find NaN and infinite values), and a validation part is a list of indices, not
 * a copy.
 */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/hex.h"
#include "common/rng.h"
#include "job/sample.h"
#include "worker/data/dataset.h"
#include "worker/data/images/pictures.h"
#include "worker/data/files/stored.h"
#include "worker/data/files/unpacked.h"

enum { BLOCK_BYTES = 1 << 20, COPIED = 256 };

size_t dataset_x_bytes(const struct dataset *d)
{
    return shape_count(&d->input) * (d->x_bytes ? sizeof(uint8_t) : sizeof(float));
}

size_t dataset_y_bytes(const struct dataset *d)
{
    return d->y_labels ? sizeof(int32_t) : (size_t)d->target * sizeof(float);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void part_release(struct dataset_part *p)
{
    if (!p->stored) {
        free(p->x);
    }
    free(p->y);
    stored_free(p->stored);
    pictures_free(p->pictures);
    p->x = NULL;
    p->y = NULL;
    p->stored = NULL;
    p->pictures = NULL;
}

void dataset_release(struct dataset *d)
{
    part_release(&d->train);
    part_release(&d->test);
}

struct copying {
    uint8_t *to;
    size_t each;
};

static void copy_picture(void *ctx, int64_t i, const uint8_t *values)
{
    const struct copying *c = ctx;
    memcpy(c->to + (size_t)i * c->each, values, c->each);
}

static void copy_pictures(const struct dataset *d, const struct dataset_part *part, int64_t first,
                          int64_t n, void *to)
{
    struct copying c = {to, dataset_x_bytes(d)};
    int64_t index[COPIED];
    for (int64_t done = 0, count; done < n; done += count, c.to += (size_t)count * c.each) {
        count = n - done < COPIED ? n - done : COPIED;
        for (int64_t i = 0; i < count; i++) {
            index[i] = first + done + i;
        }
        pictures_visit(part->pictures, index, count, copy_picture, &c);
    }
}

void dataset_copy(const struct dataset *d, const struct dataset_part *part, int64_t first,
                  int64_t n, void *to)
{
    size_t each = dataset_x_bytes(d);
    if (part->pictures) {
        copy_pictures(d, part, first, n, to);
        return;
    }
    if (part->x) {
        memcpy(to, (const char *)part->x + (size_t)first * each, (size_t)n * each);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        stored_copy(part->stored, &d->input, first + i, (char *)to + (size_t)i * each);
    }
}

static void pass_over(void *ctx, int64_t i, const uint8_t *values)
{
    (void)ctx;
    (void)i;
    (void)values;
}

int dataset_try(const struct dataset *d, struct err *e)
{
    char digest[sizeof(d->digest)];
    if (!d->train.pictures) {
        return dataset_digest(d, digest, e);
    }
    pictures_visit(d->train.pictures, NULL, d->train.samples, pass_over, NULL);
    if (d->test.pictures) {
        pictures_visit(d->test.pictures, NULL, d->test.samples, pass_over, NULL);
    }
    return dataset_intact(d, e);
}

int dataset_intact(const struct dataset *d, struct err *e)
{
    const struct stored *train = d->train.stored, *test = d->test.stored;
    int rc = train ? stored_check(train, e) : 0;
    rc = rc == 0 && test ? stored_check(test, e) : rc;
    return rc == 0 && d->train.pictures ? pictures_check(d->train.pictures, e) : rc;
}

void dataset_shuffled(const struct dataset *d)
{
    if (d->train.stored) {
        stored_shuffled(d->train.stored);
    }
}

void dataset_ahead(const struct dataset_part *part, const struct once *once, const int64_t *index,
                   int64_t n)
{
    if (part->stored) {
        stored_ahead(part->stored, once, index, n);
    }
}

/* Bytes of the part's files that do not belong to `other` too. */
static double file_bytes(const struct stored *s, const struct stored *other)
{
    double bytes = 0;
    for (int i = 0; s && i < s->n; i++) {
        bytes += other && s->run[i].file == other->run[i].file ? 0 : (double)s->run[i].file->bytes;
    }
    return bytes;
}

double dataset_kept(const struct dataset *d, int64_t room)
{
    double all = file_bytes(d->train.stored, NULL) + file_bytes(d->test.stored, d->train.stored);
    return (double)room >= all ? 1 : room > 0 ? (double)room / all : 0;
}

/* ---- the validation part --------------------------------------------------------------------- */

/* Sample i of `to` is sample order[i] of the training part. Takes `order` over. */
static int part_pick(const struct dataset *d, struct dataset_part *to, int64_t *order, int64_t n,
                     struct err *e)
{
    const struct dataset_part *from = &d->train;
    size_t nx = dataset_x_bytes(d), ny = dataset_y_bytes(d);
    to->samples = n;
    to->y = malloc((size_t)n * ny + 1);
    if (from->stored && (to->stored = stored_new(&from->stored->form))) {
        for (int i = 0; i < from->stored->n; i++) {
            const struct stored_run *run = &from->stored->run[i];
            stored_add(to->stored, run->file, (size_t)(run->at - run->file->at), run->samples);
        }
        to->stored->order = order;
    } else if (from->pictures) {
        to->pictures = pictures_pick(from->pictures, order, n);
    } else if (!from->stored) {
        to->x = malloc((size_t)n * nx + 1);
    }
    bool holds = to->y && (to->x || to->stored || to->pictures);
    for (int64_t i = 0; holds && i < n; i++) {
        memcpy((char *)to->y + (size_t)i * ny, (const char *)from->y + (size_t)order[i] * ny, ny);
        if (to->x) {
            dataset_copy(d, from, order[i], 1, (char *)to->x + (size_t)i * nx);
        }
    }
    for (int64_t i = 0; to->stored && from->stored->order && i < n; i++) {
        order[i] = from->stored->order[order[i]];
    }
    if (!to->stored) {
        free(order);
    }
    return holds ? 0
                 : err_set(e, ERR_MEMORY, "cannot hold %lld samples: memory ran out", (long long)n);
}

/* The samples at positions first … first+count of a seeded permutation of n. NULL: memory ran
 * out. */
static int64_t *positions(uint64_t seed, int64_t first, int64_t count, int64_t n)
{
    int64_t *out = malloc(((size_t)count + 1) * sizeof(*out));
    uint64_t key = rng_mix(seed, 0x76616c6964ull);
    for (int64_t p = 0; out && p < count; p++) {
        out[p] = sample_index(key, 0, first + p, n, true);
    }
    return out;
}

int dataset_hold_out(struct dataset *d, double share, uint64_t seed, bool peek, struct err *e)
{
    int64_t n = d->train.samples, held = (int64_t)((double)n * share);
    if (held < 1 || held >= n) {
        return err_set(e, ERR_INVALID,
                       "a validation share of %g leaves %lld of %lld samples for training", share,
                       (long long)(n - held), (long long)n);
    }
    if (peek) {
        d->train.samples = n - held;
        d->test.samples = held;
        return 0;
    }
    struct dataset_part train = {0}, test = {0};
    int64_t *first = positions(seed, 0, held, n), *rest = positions(seed, held, n - held, n);
    int rc = first && rest ? 0 : err_set(e, ERR_MEMORY, "cannot hold out samples: memory ran out");
    if (rc < 0) {
        free(first);
        free(rest);
        return rc;
    }
    rc = part_pick(d, &test, first, held, e);
    if (rc >= 0) {
        rc = part_pick(d, &train, rest, n - held, e);
    }
    if (rc < 0) {
        part_release(&train);
        part_release(&test);
        return rc;
    }
    part_release(&d->train);
    part_release(&d->test);
    d->train = train;
    d->test = test;
    return 0;
}

/* ---- the digest ------------------------------------------------------------------------------ */

/* Are all floats finite from sample `first` on? For a part in mapped files. */
static int check_floats(const struct dataset *d, const struct dataset_part *part, int64_t first,
                        int64_t n, const float *values, struct err *e)
{
    size_t each = shape_count(&d->input);
    for (size_t j = 0; part->stored && !d->x_bytes && j < (size_t)n * each; j++) {
        uint32_t bits; /* an exponent of ones: NaN or infinite */
        memcpy(&bits, &values[j], sizeof(bits));
        if ((bits & 0x7f800000u) == 0x7f800000u) {
            return stored_finite(part->stored, &d->input, first + (int64_t)(j / each), e);
        }
    }
    return 0;
}

static int digest_part(EVP_MD_CTX *md, const struct dataset *d, const struct dataset_part *part,
                       struct err *e)
{
    size_t each = dataset_x_bytes(d);
    int64_t most = each < BLOCK_BYTES ? BLOCK_BYTES / (int64_t)each : 1;
    void *block = part->x ? NULL : malloc((size_t)most * each);
    int rc = part->x || block ? 0 : err_set(e, ERR_MEMORY, "cannot read values: memory ran out");
    for (int64_t i = 0; rc == 0 && i < part->samples; i += most) {
        int64_t n = part->samples - i < most ? part->samples - i : most;
        if (block) {
            dataset_copy(d, part, i, n, block);
        }
        const void *values = block ? block : (const char *)part->x + (size_t)i * each;
        rc = check_floats(d, part, i, n, values, e);
        EVP_DigestUpdate(md, values, (size_t)n * each);
    }
    free(block);
    EVP_DigestUpdate(md, part->y, (size_t)part->samples * dataset_y_bytes(d));
    return rc;
}

int dataset_digest(const struct dataset *d, char out[65], struct err *e)
{
    if (d->train.pictures) {
        return pictures_digest(d->train.pictures, out, e);
    }
    char head[160];
    int n = snprintf(head, sizeof(head), "%d %d %d %d %d %d %d %lld %lld\n", d->input.rank,
                     d->input.dim[0], d->input.dim[1], d->input.dim[2], d->x_bytes, d->y_labels,
                     d->target, (long long)d->train.samples, (long long)d->test.samples);
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    BUG_ON(!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1);
    EVP_DigestUpdate(md, head, (size_t)n);
    int rc = digest_part(md, d, &d->train, e);
    if (rc == 0) {
        rc = digest_part(md, d, &d->test, e);
    }
    EVP_DigestFinal_ex(md, sum, &length);
    EVP_MD_CTX_free(md);
    hex_of(out, sum, 32);
    return rc == 0 ? dataset_intact(d, e) : rc;
}
