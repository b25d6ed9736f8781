/* Sums over the rows of a matrix, column by column: gradients of biases, and batch norm.
 *
 *              channels (a tile of up to 256)
 *            ┌──────────────────┐
 *   chunk 0  │ block 0          │   one block adds up one chunk of rows for one tile: thread t has channel t % lanes
 *            ├──────────────────┤   and every (256 / lanes)th row, so that a warp reads what stands together;
 *   chunk 1  │ block 1          │   threads of the same channel then add up through shared memory
 *            └──────────────────┘
 *
 * Sums of the chunks go to memory, [chunk][channel], and a second kernel adds them in double. No atomic addition: chunks are fixed by the
 * program's size, so a run gives the same bits each time.
 */
#ifndef KERNELS_CUDA_COLUMNS_H
#define KERNELS_CUDA_COLUMNS_H

#include "kernels/cuda/cuda.h"

struct columns {
    size_t channels, chunk; /* rows of one chunk */
    unsigned tiles, chunks;
};

static inline struct columns columns_cut(const struct cuda_device *d, size_t rows, size_t channels)
{
    size_t lanes = channels < PORT_THREADS ? channels : (size_t)PORT_THREADS, across = PORT_THREADS / lanes;
    size_t tiles = (channels + PORT_THREADS - 1) / PORT_THREADS, most = (size_t)d->processors * 4 / tiles;
    size_t chunk = (rows + (most > 0 ? most : 1) - 1) / (most > 0 ? most : 1);
    chunk = chunk < 8 * across ? 8 * across : chunk;
    return {channels, chunk, (unsigned)tiles, (unsigned)((rows + chunk - 1) / chunk)};
}

/* A thread's part. */
struct column {
    size_t channel, first, last, step; /* rows first, first+step, … below last; none if the thread is idle */
    size_t rows;                       /* of the whole chunk that are there */
    unsigned lanes, chunk;
    bool writes; /* has the sum of its channel to write */
};

DEVICE_FN struct column column_of(struct columns c, size_t rows)
{
    unsigned tile = blockIdx.x % c.tiles, lanes = c.channels < PORT_THREADS ? (unsigned)c.channels : (unsigned)PORT_THREADS;
    unsigned across = PORT_THREADS / lanes, lane = threadIdx.x % lanes, row = threadIdx.x / lanes;
    struct column t;
    t.chunk = blockIdx.x / c.tiles;
    t.lanes = lanes;
    t.channel = (size_t)tile * PORT_THREADS + lane;
    size_t begin = t.chunk * c.chunk, end = begin + c.chunk < rows ? begin + c.chunk : rows;
    begin = begin < end ? begin : end;
    t.rows = end - begin;
    bool active = row < across && t.channel < c.channels;
    t.first = active ? begin + row : end;
    t.last = end;
    t.step = across;
    t.writes = row == 0 && t.channel < c.channels;
    return t;
}

/* The sum over all threads of the same channel, in a fixed order; every thread of the block calls it. shared: [PORT_THREADS]. */
DEVICE_FN float column_sum(struct column t, float x, float *shared)
{
    shared[threadIdx.x] = x;
    port_sync();
    float sum = 0;
    for (unsigned i = threadIdx.x % t.lanes; i < t.lanes * (PORT_THREADS / t.lanes); i += t.lanes) {
        sum += shared[i];
    }
    port_sync();
    return sum;
}

#endif
