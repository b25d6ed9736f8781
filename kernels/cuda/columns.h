/* Sums over the rows of a matrix, column by column: gradients of biases, batch norm, means of
 * images.
 *
 *              channels (a tile of up to 64, or 16 packs)
 *            ┌──────────────────┐
 *   chunk 0  │ block 0          │   one block adds up one chunk of rows for one tile
 *            ├──────────────────┤
 *   chunk 1  │ block 1          │
 *            └──────────────────┘
 *
 * In a block, thread t has pack t % lanes and every (256 / lanes)th row, so that a warp reads
 * adjacent memory; then threads of the same pack are added up in pairs through shared memory. A
 * pack is N neighbouring channels, 16 bytes, which a thread reads at once; N = 1 where the channels
 * are no multiple.
 *
 * Each chunk's sums go to memory. The block of a tile that ends last adds them up in double, in the
 * order of the chunks. There are no atomic additions of numbers, and chunks depend on the program's
 * size alone, so a run gives the same bits each time, whichever block was the last.
 *
 * All kernels use the same counters of finished blocks (`parts.done`), so they run on one stream;
 * each kernel leaves them zero.
 */
#ifndef KERNELS_CUDA_COLUMNS_H
#define KERNELS_CUDA_COLUMNS_H

#include "kernels/cuda/cuda.h"

struct columns {
    size_t channels, chunk; /* rows of one chunk */
    unsigned lanes;         /* packs of a tile; the last tile may have fewer */
    unsigned tiles, chunks;
};

/* chunk: rows per chunk, or 0: chosen so that every multiprocessor gets its share. */
static inline struct columns columns_cut(const struct cuda_program *p, size_t rows, size_t channels,
                                         size_t chunk)
{
    size_t pack = cuda_pack(p, channels), packs = channels / pack, widest = pack > 1 ? 16 : 64;
    size_t tiles = (packs + widest - 1) / widest, lanes = (packs + tiles - 1) / tiles,
           across = PORT_THREADS / lanes;
    size_t most = (size_t)p->dev->processors * 4 / tiles;
    if (chunk == 0) {
        chunk = (rows + (most > 0 ? most : 1) - 1) / (most > 0 ? most : 1);
        chunk = chunk < 4 * across ? 4 * across : chunk;
    }
    return {channels, chunk, (unsigned)lanes, (unsigned)tiles,
            (unsigned)((rows + chunk - 1) / chunk)};
}

/* One thread's part. */
struct column {
    size_t channel, first, last,
        step; /* rows first, first+step, … below last; none if the thread is idle */
    unsigned tile, lanes, lane, across, row, chunk;
    bool active; /* the thread has rows in a full chunk */
    bool writes; /* the thread writes the results of its channels */
};

template <int N> DEVICE_FN struct column column_of(struct columns c, size_t rows)
{
    struct column t;
    t.tile = blockIdx.x % c.tiles;
    t.lanes = c.lanes;
    t.lane = threadIdx.x % c.lanes;
    t.across = PORT_THREADS / c.lanes;
    t.row = threadIdx.x / c.lanes;
    t.chunk = blockIdx.x / c.tiles;
    t.channel = ((size_t)t.tile * c.lanes + t.lane) * N;
    size_t begin = t.chunk * c.chunk, end = begin + c.chunk < rows ? begin + c.chunk : rows;
    begin = begin < end ? begin : end;
    t.active = t.row < t.across && t.channel < c.channels;
    t.first = t.active ? begin + t.row : end;
    t.last = end;
    t.step = t.across;
    t.writes = t.row == 0 && t.channel < c.channels;
    return t;
}

/* Combines the threads of the same channels in pairs, in an order that depends only on the cut.
 * Every thread of the block calls it; the threads of the first row get the result. Each has K
 * numbers; join(mine, other) adds another thread's to mine. shared: [K][PORT_THREADS]. */
template <int K, typename F, typename Join>
DEVICE_FN void column_join(const struct column &t, F *mine, F *shared, Join join)
{
    for (unsigned left = t.across; left > 1; left = (left + 1) / 2) {
        unsigned half = (left + 1) / 2;
        for (int k = 0; k < K; k++) {
            shared[k * PORT_THREADS + threadIdx.x] = mine[k];
        }
        port_sync();
        if (t.row + half < left) {
            F other[K];
            for (int k = 0; k < K; k++) {
                other[k] = shared[k * PORT_THREADS + threadIdx.x + half * t.lanes];
            }
            join(mine, other);
        }
        port_sync();
    }
}

template <int K, typename F> DEVICE_FN void column_sum(const struct column &t, F *mine, F *shared)
{
    column_join<K>(t, mine, shared, [](F *sum, const F *other) {
        for (int k = 0; k < K; k++) {
            sum[k] += other[k];
        }
    });
}

/* ---- the sums of all chunks ------------------------------------------------------------------ */

/* Reserves `kinds` numbers for each channel of each chunk. */
static inline void columns_reserve(struct cuda_program *p, struct columns c, size_t kinds)
{
    size_t floats = (size_t)c.chunks * kinds * c.channels;
    p->parts_floats = floats > p->parts_floats ? floats : p->parts_floats;
    p->parts_tiles = c.tiles > p->parts_tiles ? c.tiles : p->parts_tiles;
}

/* Bytes that are written and read for them. */
static inline size_t columns_bytes(struct columns c, size_t kinds)
{
    return 2 * c.chunks * kinds * c.channels * sizeof(float);
}

/* A thread has found K numbers for each of its N channels, [K][N], in its chunk. The tile's last
 * block adds up those of all chunks: it calls add(double sums[K][N], const float found[K][N],
 * chunk) for each chunk and then, once per channel, done(channel, const double sums[K]). shared:
 * [K*N][PORT_THREADS]. Every thread calls it. */
template <int K, int N, typename Add, typename Done>
DEVICE_FN void column_sums(struct columns c, const struct column &t, const float *found,
                           struct cuda_parts parts, double *shared, Add add, Done done)
{
    typedef port_some<float, N> pack;
    size_t stride = (size_t)K * c.channels; /* sums: [chunks][K][channels] */
    for (int k = 0; t.writes && k < K; k++) {
        pack some;
        for (int i = 0; i < N; i++) {
            some.v[i] = found[k * N + i];
        }
        *(pack *)(parts.sums + t.chunk * stride + k * c.channels + t.channel) = some;
    }
    if (!port_is_last(parts.done + t.tile, c.chunks)) {
        return;
    }
    double sums[K * N] = {};
    for (unsigned chunk = t.row; t.active && chunk < c.chunks; chunk += t.across) {
        float there[K * N];
        for (int k = 0; k < K; k++) {
            pack some = *(const pack *)(parts.sums + chunk * stride + k * c.channels + t.channel);
            for (int i = 0; i < N; i++) {
                there[k * N + i] = some.v[i];
            }
        }
        add(sums, there, chunk);
    }
    column_sum<K * N>(t, sums, shared);
    unsigned width = t.lanes * N; /* from here on one thread per channel: [K][width] */
    for (int k = 0; t.writes && k < K * N; k++) {
        shared[k / N * width + t.lane * N + k % N] = sums[k];
    }
    port_sync();
    size_t channel = (size_t)t.tile * width + threadIdx.x;
    if (threadIdx.x < width && channel < c.channels) {
        double all[K];
        for (int k = 0; k < K; k++) {
            all[k] = shared[k * width + threadIdx.x];
        }
        done(channel, all);
    }
}

/* of[channel] for each of the N elements from channel c on. WHOLE: all of them belong to one
 * row. */
template <int N, bool WHOLE>
DEVICE_FN port_some<float, N> column_numbers(const float *of, unsigned c, unsigned channels)
{
    if constexpr (WHOLE) {
        return *(const port_some<float, N> *)(of + c);
    } else {
        port_some<float, N> r;
        for (int k = 0; k < N; k++) {
            r.v[k] = of[c];
            c = c + 1 < channels ? c + 1 : 0;
        }
        return r;
    }
}

#endif
