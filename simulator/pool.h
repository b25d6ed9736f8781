/* A device that computes gradients of many virtual nodes at once, on all cores, with the CPU
 * device's kernels.
 *
 * Programs (kernels, activations, copies of weights) belong to cores, not to nodes: a node has its
 * blocks alone. A gradient is begun when its node's step begins and waited for when the node first
 * needs it, which on the virtual clock is at the end of the step; gradients that other nodes begin
 * meanwhile are computed at the same time. The bits are those of the CPU device with one thread:
 * which core computes, and when, changes nothing.
 */
#ifndef SIMULATOR_POOL_H
#define SIMULATOR_POOL_H

#include "kernels/device.h"

/* How many idle programs are kept: one per core of each size, and at most this many per core of all
 * sizes. */
enum { POOL_PROGRAMS = 8 };

/* threads: how many gradients at a time; 0: one per core. Closed with dev_close. */
struct device *pool_open(int threads, struct err *e);
int pool_threads(const struct device *dev);

#endif
