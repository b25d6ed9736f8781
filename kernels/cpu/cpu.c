/* The CPU as a device (kernels/device.h). Blocks are host memory (host_replica.c); programs are
 * made in cpu/program.c.
 *
 * In OpenMP the number of threads is a setting of the calling thread. So every entry into the
 * device sets it, also in the thread that prepares programs while another one trains.
 */
#include <dnnl.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine/memory.h"
#include "kernels/cpu/cpu.h"

enum { MOST_THREADS = 1024 };

static int cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set)
                                                                               : 1;
}

static int read_threads(const char *args, struct err *e)
{
    if (!args || !*args) {
        return cores();
    }
    char *end;
    long n = strtol(args, &end, 10);
    if (*end || n < 1 || n > MOST_THREADS) {
        return err_set(
            e, ERR_INVALID,
            "the device 'cpu:%.40s' needs a number of threads from 1 to %d after the colon", args,
            MOST_THREADS);
    }
    return (int)n;
}

/* ---- what it is and has ---------------------------------------------------------------------- */

static bool has_bf16(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
           dnnl_cpu_isa_avx512_core_bf16;
}

static const char *instruction_set(void)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return has_bf16()                        ? "avx512 with bf16"
           : isa >= dnnl_cpu_isa_avx512_core ? "avx512"
           : isa >= dnnl_cpu_isa_avx2        ? "avx2"
           : isa >= dnnl_cpu_isa_avx         ? "avx"
                                             : "sse4";
}

/* The text after the colon of the first line that begins with `key`, without the newline. */
static bool read_line(const char *path, const char *key, char *out, size_t out_bytes)
{
    char line[256];
    FILE *f = fopen(path, "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof(line), f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon) {
            line[strcspn(line, "\n")] = 0;
            snprintf(out, out_bytes, "%s", colon + 1 + strspn(colon + 1, " \t"));
            found = true;
        }
    }
    if (f) {
        fclose(f);
    }
    return found;
}

static void write_line(struct cpu_device *d)
{
    char model[80];
    if (!read_line("/proc/cpuinfo", "model name", model, sizeof(model))) {
        snprintf(model, sizeof(model), "CPU");
    }
    snprintf(d->line, sizeof(d->line), "%s, %d thread%s, %s", model, d->threads,
             d->threads == 1 ? "" : "s", instruction_set());
}

static size_t cpu_memory_bytes(struct device *dev)
{
    (void)dev;
    return (size_t)memory_read().room;
}

static const char *cpu_describe(struct device *dev)
{
    return ((struct cpu_device *)dev)->line;
}

static int cpu_threads(struct device *dev)
{
    return ((struct cpu_device *)dev)->threads;
}

static int cpu_use_precision(struct device *dev, const char *precision, struct err *e)
{
    bool bf16 = strcmp(precision, "bf16") == 0;
    if (strcmp(precision, "fp32") != 0 && !(bf16 && has_bf16())) {
        return dev_lacks_precision(dev, precision, e);
    }
    ((struct cpu_device *)dev)->precision = bf16 ? "bf16" : "fp32";
    return 0;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static void cpu_close(struct device *dev)
{
    struct cpu_device *d = (struct cpu_device *)dev;
    if (d->engine) {
        dnnl_engine_destroy(d->engine);
    }
    cpu_arenas_release(&d->arenas);
    free(d);
}

struct device *cpu_open(const char *args, struct err *e)
{
    int threads = read_threads(args, e);
    if (threads < 0) {
        return NULL;
    }
    struct cpu_device *d = calloc(1, sizeof(*d));
    if (!d) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    if (cpu_arenas_init(&d->arenas) < 0) {
        free(d);
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    d->base.ops = &cpu_device_ops;
    d->threads = threads;
    d->precision = "fp32";
    if (prim_check(dnnl_engine_create(&d->engine, dnnl_cpu, 0), "open the CPU", e) < 0) {
        d->engine = NULL;
        cpu_close(&d->base);
        return NULL;
    }
    write_line(d);
    return &d->base;
}

/* ---- replicas -------------------------------------------------------------------------------- */

/* A replica's `impl` is its precision. */
static int cpu_replica_init(struct device *dev, struct dev_replica *r, const struct network *net,
                            const struct optimizer_spec *opt, struct err *e)
{
    int rc = host_replica_init(dev, r, net, opt, e);
    r->impl = (void *)(uintptr_t)((struct cpu_device *)dev)->precision;
    return rc;
}

static int update(struct dev_replica *r, double lr, double scale, struct err *e)
{
    omp_set_num_threads(((struct cpu_device *)r->dev)->threads);
    return cpu_update(r, lr, scale, e);
}

static int update_part(struct dev_replica *r, size_t first, size_t n, double lr, double scale,
                       bool last, struct err *e)
{
    omp_set_num_threads(((struct cpu_device *)r->dev)->threads);
    return cpu_update_part(r, first, n, lr, scale, last, e);
}

static const struct dev_parts_ops parts_ops = {.update = update_part};
static const struct dev_precision_ops precision_ops = {.use = cpu_use_precision};

const struct device_ops cpu_device_ops = {
    .name = "cpu",
    .close = cpu_close,
    .describe = cpu_describe,
    .memory_bytes = cpu_memory_bytes,
    .threads = cpu_threads,
    .replica_init = cpu_replica_init,
    .replica_release = host_replica_release,
    .fetch = host_replica_copy,
    .store = host_replica_copy,
    .program_new = cpu_team_new,
    .program_free = cpu_team_free,
    .compute = cpu_team_compute,
    .update = update,
    .parts = &parts_ops,
    .precision = &precision_ops,
};
