/* Sums over the rows of a matrix, column by column: gradients of biases, batch norm, means of images.
 *
 *              channels (a tile of up to 256 packs)
 *            ┌──────────────────┐
 *   chunk 0  │ block 0          │   one block adds up one chunk of rows for one tile: thread t has pack t % lanes and every
 *            ├──────────────────┤   (256 / lanes)th row, so that a warp reads what stands together;
 *   chunk 1  │ block 1          │   threads of the same pack are then joined in pairs through shared memory
 *            └──────────────────┘
 *
 * A pack is N neighbouring channels, 16 bytes, which a thread reads at once; N = 1 where the channels are no multiple. Results of the
 * chunks go to memory, [chunk][channel], and a second kernel adds them in double. No atomic addition: chunks are fixed by the program's
 * size, so a run gives the same bits each time.
 */
#ifndef KERNELS_CUDA_COLUMNS_H
#define KERNELS_CUDA_COLUMNS_H

#include "kernels/cuda/cuda.h"

struct columns {
    size_t channels, chunk; /* rows of one chunk */
    unsigned packs;         /* of a row */
    unsigned tiles, chunks;
};

/* chunk: rows of one, or 0: as many as give every multiprocessor its share. */
static inline struct columns columns_cut(const struct cuda_program *p, size_t rows, size_t channels, size_t chunk)
{
    size_t packs = channels / cuda_pack(p, channels);
    size_t lanes = packs < PORT_THREADS ? packs : (size_t)PORT_THREADS, across = PORT_THREADS / lanes;
    size_t tiles = (packs + PORT_THREADS - 1) / PORT_THREADS, most = (size_t)p->dev->processors * 4 / tiles;
    if (chunk == 0) {
        chunk = (rows + (most > 0 ? most : 1) - 1) / (most > 0 ? most : 1);
        chunk = chunk < 8 * across ? 8 * across : chunk;
    }
    return {channels, chunk, (unsigned)packs, (unsigned)tiles, (unsigned)((rows + chunk - 1) / chunk)};
}

/* A thread's part. */
struct column {
    size_t channel, first, last, step; /* rows first, first+step, … below last; none if the thread is idle */
    size_t rows;                       /* of the whole chunk that are there */
    unsigned lanes, across, row, chunk;
    bool writes; /* has what was found of its channels to write */
};

template <int N> DEVICE_FN struct column column_of(struct columns c, size_t rows)
{
    unsigned tile = blockIdx.x % c.tiles;
    struct column t;
    t.lanes = c.packs < PORT_THREADS ? c.packs : (unsigned)PORT_THREADS;
    t.across = PORT_THREADS / t.lanes;
    t.row = threadIdx.x / t.lanes;
    t.chunk = blockIdx.x / c.tiles;
    t.channel = ((size_t)tile * PORT_THREADS + threadIdx.x % t.lanes) * N;
    size_t begin = t.chunk * c.chunk, end = begin + c.chunk < rows ? begin + c.chunk : rows;
    begin = begin < end ? begin : end;
    t.rows = end - begin;
    bool active = t.row < t.across && t.channel < c.channels;
    t.first = active ? begin + t.row : end;
    t.last = end;
    t.step = t.across;
    t.writes = t.row == 0 && t.channel < c.channels;
    return t;
}

/* Joins the threads of the same channels in pairs, in an order that depends on the cut alone; every thread of the block calls it, and the
 * first row's have the result. Each has K numbers; join(mine, other) brings another's to mine. shared: [K][PORT_THREADS]. */
template <int K, typename Join> DEVICE_FN void column_join(const struct column &t, float *mine, float *shared, Join join)
{
    for (unsigned left = t.across; left > 1; left = (left + 1) / 2) {
        unsigned half = (left + 1) / 2;
        for (int k = 0; k < K; k++) {
            shared[k * PORT_THREADS + threadIdx.x] = mine[k];
        }
        port_sync();
        if (t.row + half < left) {
            float other[K];
            for (int k = 0; k < K; k++) {
                other[k] = shared[k * PORT_THREADS + threadIdx.x + half * t.lanes];
            }
            join(mine, other);
        }
        port_sync();
    }
}

template <int K> DEVICE_FN void column_sum(const struct column &t, float *mine, float *shared)
{
    column_join<K>(t, mine, shared, [](float *sum, const float *other) {
        for (int k = 0; k < K; k++) {
            sum[k] += other[k];
        }
    });
}

/* What each of the N elements from channel c on has of a number per channel. WHOLE: none of them is of the next row. */
template <int N, bool WHOLE> DEVICE_FN port_some<float, N> column_numbers(const float *of, unsigned c, unsigned channels)
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
