/* The cursor and its permutation (docs/semantics.md#samples): which samples come next.
 *
 * An epoch's order is a keyed bijection over [0, n): six rounds of a Feistel network on the
 * smallest power of four that holds n, walked until the value falls below n (that power is less
 * than four times n, so fewer than four walks on average).
 *
 *      position ─► | left | right |        round r:  left, right = right, left ^ F(key_r, right)
 *                    ▲        │
 *                    └─ F ◄───┘            result ≥ n?  then encrypt the result again
 *
 * Nothing is stored or shuffled: any rank finds the sample at any position in constant time, and a
 * restart needs only (epoch, position). A slice never crosses an epoch's end, because an epoch
 * visits every sample exactly once; the last slice is smaller.
 */
#include "job/sample.h"

#include "common/err.h"
#include "common/rng.h"

enum { ROUNDS = 6 };

static uint64_t feistel(uint64_t key, uint64_t value, int half_bits)
{
    uint64_t mask = (1ull << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t r = 0; r < ROUNDS; r++) {
        uint64_t next = left ^ (rng_mix(key + r, right) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

int64_t sample_index(uint64_t seed, int64_t epoch, int64_t position, int64_t samples, bool shuffle)
{
    BUG_ON(position < 0 || position >= samples);
    if (!shuffle || samples == 1) {
        return position;
    }
    int half_bits = 1;
    while (1ull << (2 * half_bits) < (uint64_t)samples) {
        half_bits++;
    }
    uint64_t key = rng_mix(rng_mix(seed, 0x73616d706c65ull), (uint64_t)epoch);
    uint64_t value = (uint64_t)position;
    do {
        value = feistel(key, value, half_bits);
    } while (value >= (uint64_t)samples);
    return (int64_t)value;
}

void cursor_init(struct cursor *c, int64_t samples, int64_t epochs)
{
    BUG_ON(samples <= 0);
    *c = (struct cursor){.samples = samples, .epochs = epochs};
}

bool cursor_done(const struct cursor *c)
{
    return c->epoch >= c->epochs;
}

bool cursor_take(struct cursor *c, int64_t want, struct slice *out)
{
    BUG_ON(want <= 0);
    if (cursor_done(c)) {
        return false;
    }
    int64_t left = c->samples - c->position;
    *out =
        (struct slice){.epoch = c->epoch, .start = c->position, .count = want < left ? want : left};
    c->position += out->count;
    if (c->position == c->samples) {
        c->position = 0;
        c->epoch++;
    }
    return true;
}

void sample_split(int64_t count, const int *sizes, int workers, int64_t *out)
{
    int64_t total = 0, given = 0;
    for (int i = 0; i < workers; i++) {
        total += sizes[i];
    }
    BUG_ON(total <= 0 || count < 0 || count > INT64_MAX / (total + 1));
    for (int i = 0; i < workers; i++) {
        out[i] = count * sizes[i] / total;
        given += out[i];
    }
    /* largest remainder; fewer than `workers` samples are left. A rank whose share has been rounded
     * up is recognised by out * total > count * size, so no marks are needed. */
    for (; given < count; given++) {
        int best = -1;
        int64_t best_rest = 0;
        for (int i = 0; i < workers; i++) {
            int64_t rest = count * sizes[i] - out[i] * total;
            if (rest > best_rest) {
                best = i;
                best_rest = rest;
            }
        }
        BUG_ON(best < 0);
        out[best]++;
    }
}
