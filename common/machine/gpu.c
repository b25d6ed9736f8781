/* GPUs through NVML: see gpu.h. The library comes with the driver, so this program does not link
 * it: it finds the functions by name, and declares their few types as NVML's documentation does.
 * NVML numbers devices by PCI bus, CUDA by speed unless told otherwise. Workers are started with
 * CUDA_DEVICE_ORDER=PCI_BUS_ID, so that cuda:1 is the same card for both.
 */
#include "common/machine/gpu.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory;
};

struct gpus {
    void *library;
    unsigned count;
    int (*shutdown)(void);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *name, unsigned length);
    int (*memory)(void *device, struct nvml_memory *out);
    int (*utilization)(void *device, struct nvml_utilization *out);
    int (*temperature)(void *device, int sensor, unsigned *out);
    int (*power)(void *device, unsigned *milliwatts);
};

/* ISO C cannot cast an object pointer to a function pointer; POSIX guarantees that they look
 * alike. */
static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
}

struct gpus *gpus_open(void)
{
    const char *named = getenv("EVENSTEP_NVML");
    void *library = dlopen(named && *named ? named : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    struct gpus *g = library ? calloc(1, sizeof *g) : NULL;
    int (*init)(void) = NULL, (*count)(unsigned *) = NULL;
    if (!g) {
        if (library) {
            dlclose(library);
        }
        return NULL;
    }
    g->library = library;
    find(library, "nvmlInit_v2", &init);
    find(library, "nvmlShutdown", &g->shutdown);
    find(library, "nvmlDeviceGetCount_v2", &count);
    find(library, "nvmlDeviceGetHandleByIndex_v2", &g->handle);
    find(library, "nvmlDeviceGetName", &g->name);
    find(library, "nvmlDeviceGetMemoryInfo", &g->memory);
    find(library, "nvmlDeviceGetUtilizationRates", &g->utilization);
    find(library, "nvmlDeviceGetTemperature", &g->temperature);
    find(library, "nvmlDeviceGetPowerUsage", &g->power);
    if (!init || !count || !g->handle || init() != 0) {
        dlclose(library);
        free(g);
        return NULL;
    }
    if (count(&g->count) != 0 || g->count == 0) {
        gpus_close(g);
        return NULL;
    }
    return g;
}

void gpus_close(struct gpus *g)
{
    if (g) {
        if (g->shutdown) {
            g->shutdown();
        }
        dlclose(g->library);
        free(g);
    }
}

int gpus_count(const struct gpus *g)
{
    return g ? (int)g->count : 0;
}

static void *device_of(const struct gpus *g, int index)
{
    void *device = NULL;
    return g && index >= 0 && (unsigned)index < g->count && g->handle((unsigned)index, &device) == 0
               ? device
               : NULL;
}

int64_t gpus_memory(const struct gpus *g, int index)
{
    void *device = device_of(g, index);
    struct nvml_memory m = {0};
    return device && g->memory && g->memory(device, &m) == 0 ? (int64_t)m.total : 0;
}

json_t *gpus_json(const struct gpus *g, int index)
{
    void *device = device_of(g, index);
    struct nvml_memory m = {0};
    struct nvml_utilization u = {0};
    char name[96] = "";
    unsigned celsius = 0, milliwatts = 0;
    if (!device) {
        return NULL;
    }
    json_t *out = json_pack("{s:i}", "index", index);
    if (g->name && g->name(device, name, sizeof name) == 0) {
        json_object_set_new(out, "name", json_string(name));
    }
    if (g->memory && g->memory(device, &m) == 0) {
        json_object_set_new(out, "memory_bytes", json_integer((json_int_t)m.total));
        json_object_set_new(out, "memory_used_bytes", json_integer((json_int_t)m.used));
    }
    if (g->utilization && g->utilization(device, &u) == 0) {
        json_object_set_new(out, "busy", json_real(u.gpu / 100.0));
    }
    if (g->temperature && g->temperature(device, 0, &celsius) == 0) {
        json_object_set_new(out, "celsius", json_integer(celsius));
    }
    if (g->power && g->power(device, &milliwatts) == 0) {
        json_object_set_new(out, "watts", json_real(milliwatts / 1000.0));
    }
    return out;
}

json_t *gpus_of_device(const struct gpus *g, const char *device)
{
    return g && device && strncmp(device, "cuda:", 5) == 0
               ? gpus_json(g, (int)strtol(device + 5, NULL, 10))
               : NULL;
}

static double figure(const json_t *gpu, const char *key)
{
    const json_t *v = json_object_get(gpu, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

void gpus_figures(const json_t *gpu, double *busy, double *memory_used, double *memory)
{
    *busy = figure(gpu, "busy");
    *memory_used = figure(gpu, "memory_used_bytes");
    *memory = figure(gpu, "memory_bytes");
}
