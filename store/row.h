/* A step row as it travels: fixed size, little-endian, packed by the pulse, unpacked by the monitor
 * and by history. */
#ifndef STORE_ROW_H
#define STORE_ROW_H

#include <stdint.h>

struct row { /* 80 bytes, no padding; little-endian hosts only */
    int64_t step, local_step;
    uint64_t bytes;
    double time, epoch;
    float loss, accuracy, compute_s, exchange_s, wait_s;
    float extra[2];
    int32_t batch, staleness;
    int16_t rank, attempt;
};
_Static_assert(sizeof(struct row) == 80, "struct row is 80 bytes");

#endif
