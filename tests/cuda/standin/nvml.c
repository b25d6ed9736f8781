/* A stand-in for libnvidia-ml.so.1 (common/machine/gpu.c finds it through EVENSTEP_NVML): two GPUs,
 * of which the second tells less, as cards of passive servers and virtual ones do.
 * EVENSTEP_NVML_FAILS=1: the driver is there and does not start. EVENSTEP_NVML_COUNT: other than
 * two.
 */
#include <stdlib.h>
#include <string.h>

struct memory {
    unsigned long long total, free, used;
};
struct utilization {
    unsigned gpu, memory;
};
enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9 };
static int open_sessions;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *out);
int nvmlDeviceGetUtilizationRates(void *device, struct utilization *out);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);

static unsigned count_of(void)
{
    const char *text = getenv("EVENSTEP_NVML_COUNT");
    return text ? (unsigned)strtol(text, NULL, 10) : 2;
}

/* Devices are 1, 2, …: a NULL is seen. */
static int index_of(void *device)
{
    size_t n = (size_t)device;
    if (open_sessions == 0 || n == 0 || n > count_of()) {
        abort();
    }
    return (int)n - 1;
}

int nvmlInit_v2(void)
{
    if (getenv("EVENSTEP_NVML_FAILS")) {
        return DRIVER_NOT_LOADED;
    }
    open_sessions++;
    return 0;
}

int nvmlShutdown(void)
{
    if (open_sessions-- == 0) {
        abort();
    }
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = count_of();
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (index >= count_of()) {
        return NOT_FOUND;
    }
    *device = (void *)(size_t)(index + 1);
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    index_of(device);
    strncpy(name, "stand-in, no GPU", length);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *out)
{
    int index = index_of(device);
    *out = (struct memory){(unsigned long long)(index + 1) << 30, 0,
                           (unsigned long long)(index + 1) << 28};
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *out)
{
    index_of(device);
    *out = (struct utilization){87, 12};
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out)
{
    if (sensor != 0 || index_of(device) == 1) {
        return NOT_SUPPORTED;
    }
    *out = 64;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    if (index_of(device) == 1) {
        return NOT_SUPPORTED;
    }
    *milliwatts = 351500;
    return 0;
}
