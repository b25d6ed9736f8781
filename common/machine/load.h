/* How busy this host was since the last reading (processors, memory, network), and means of
 * readings over longer times.
 *
 * In a container, the machine's figures are not those of the process. If the control group has a
 * CPU quota or a memory limit, the shares refer to that.
 */
#ifndef COMMON_MACHINE_LOAD_H
#define COMMON_MACHINE_LOAD_H

#include <jansson.h>
#include <stdbool.h>

/* NaN: unknown, or the host has no such device. */
struct load {
    double seconds;                     /* the time over which the figures are a mean */
    double cpu;                         /* share of the processors that this host may use, 0 to 1 */
    double memory_used, memory;         /* bytes: used on the host, and available to it */
    double received, sent;              /* network bytes per second, without loopback */
    double gpu;                         /* share of the time in which the node's GPU computed */
    double gpu_memory_used, gpu_memory; /* bytes */
};

/* All figures except `seconds`, in the order of the struct. */
enum { LOAD_FIGURES = 8 };
void load_figures(struct load *l, double *out[LOAD_FIGURES]);

struct load_meter {
    double at; /* clock_now() of the previous reading; 0: none yet */
    double cpu_used, cpu_all, received, sent;
};
/* Leaves the figures of the GPU at NaN. On the first call, figures that need two readings are NaN
 * too. */
void load_read(struct load_meter *m, struct load *out);
/* Fills in the figures of a node's GPU (a document of common/machine/gpu.h). NULL changes
 * nothing. */
void load_take_gpu(struct load *l, const json_t *gpu);

/* ---- means ----------------------------------------------------------------------------------- */

/* Loads are kept in tiers with different steps, so that a week takes little room. */
enum { LOAD_TIERS = 3 };
struct load_tier {
    int seconds, kept; /* seconds of one mean; number of means kept */
};
extern const struct load_tier load_tiers[LOAD_TIERS];

struct load_mean {
    struct load sum, weight; /* for each figure, the seconds for which it is known */
};
struct load_means {
    struct load_mean tiers[LOAD_TIERS];
};
/* Adds a reading. True: the mean over the tier's time is complete; it is in *out, and a new one
 * starts. */
bool load_mean_add(struct load_means *m, int tier, const struct load *l, struct load *out);

#endif
