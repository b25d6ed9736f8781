/* The few calls of the CUDA driver that bench_gpu makes itself: memory on the device, copies, and
 * waiting. A library that is not there is no error before driver_open(). */
#ifndef TESTS_BENCH_DRIVER_H
#define TESTS_BENCH_DRIVER_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

static struct {
    void *library;
    int (*alloc)(address *, size_t);
    int (*release)(address);
    int (*copy)(address, address, size_t);
    int (*clear)(address, unsigned char, size_t);
    int (*upload)(address, const void *, size_t);
    int (*wait)(void);
} driver;

static inline int driver_find(const char *name, void *function)
{
    void *symbol = dlsym(driver.library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol ? 0 : -1;
}

static inline int driver_open(void)
{
    const char *named = getenv("EVENSTEP_CUDA_DRIVER");
    driver.library = dlopen(named && *named ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver.library && driver_find("cuMemAlloc_v2", &driver.alloc) == 0 &&
                   driver_find("cuMemFree_v2", &driver.release) == 0 &&
                   driver_find("cuMemcpyDtoD_v2", &driver.copy) == 0 &&
                   driver_find("cuMemsetD8_v2", &driver.clear) == 0 &&
                   driver_find("cuCtxSynchronize", &driver.wait) == 0 &&
                   driver_find("cuMemcpyHtoD_v2", &driver.upload) == 0
               ? 0
               : -1;
}

/* n arrays of `floats` zeros; 0, or -1 with nothing kept. */
static inline int take(address *at, int n, size_t floats)
{
    for (int i = 0; i < n; i++) {
        if (driver.alloc(&at[i], floats * sizeof(float)) != 0 ||
            driver.clear(at[i], 0, floats * sizeof(float)) != 0) {
            for (int k = 0; k < i; k++) {
                driver.release(at[k]);
            }
            return -1;
        }
    }
    return 0;
}

static inline void give(const address *at, int n)
{
    for (int i = 0; i < n; i++) {
        driver.release(at[i]);
    }
}

#endif
