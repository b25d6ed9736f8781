/* How busy this host was: processors, memory and network since the last reading, and means of such
 * readings over longer times.
 *
 * In a container the machine's figures are not ours: where the control group has a CPU quota or a
 * memory limit, shares are of that.
 */
#ifndef COMMON_MACHINE_LOAD_H
#define COMMON_MACHINE_LOAD_H

#include <jansson.h>
#include <stdbool.h>

/* NaN: not known, or not there. */
struct load {
    double seconds;                     /* that the figures are a mean of */
    double cpu;                         /* share of the processors that this host may use, 0 to 1 */
    double memory_used, memory;         /* bytes: used by the host, and that it may use */
    double received, sent;              /* bytes a second over its network, loopback left out */
    double gpu;                         /* share of the time in which the node's GPU computed */
    double gpu_memory_used, gpu_memory; /* bytes */
};

/* Every figure but the seconds, in the order of the struct. */
enum { LOAD_FIGURES = 8 };
void load_figures(struct load *l, double *out[LOAD_FIGURES]);

struct load_meter {
    double at; /* clock_now() of the reading before; 0: none yet */
    double cpu_used, cpu_all, received, sent;
};
/* The figures of a GPU are NaN, and at the first call those that need two readings. */
void load_read(struct load_meter *m, struct load *out);
/* Fills in the figures of a node's GPU (a document of common/machine/gpu.h); NULL: nothing. */
void load_take_gpu(struct load *l, const json_t *gpu);

/* ---- means ----------------------------------------------------------------------------------- */

/* Loads are kept in tiers, each of its own step, so that a week takes little room. */
enum { LOAD_TIERS = 3 };
struct load_tier {
    int seconds, kept; /* a mean over so many seconds; the last so many are kept */
};
extern const struct load_tier load_tiers[LOAD_TIERS];

struct load_mean {
    struct load sum, weight; /* seconds of each figure that is known */
};
struct load_means {
    struct load_mean tiers[LOAD_TIERS];
};
/* Adds a reading. True: a mean over the tier's time is complete, is *out, and the next one begins.
 */
bool load_mean_add(struct load_means *m, int tier, const struct load *l, struct load *out);

#endif
