/* The meter: how long each kernel took, with the bytes that it must move or the floating-point
 * operations that it must make at the least. For bench-gpu.
 *
 * Every kernel is started by LAUNCH, which passes its name and bytes; calls of the libraries that
 * multiply pass their operations. While a thread meters, an event is recorded before and after
 * each; else the cost is one test of a variable. A program is metered in its first run
 * (program.cu), which is not captured; `update` then starts its kernels one by one.
 *
 * An event within a capture has no time, so what is captured is not metered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

struct row {
    struct row *next;
    char name[64];
    double bytes, flops;
    cudaEvent_t begin, end;
    bool complete;
};

static thread_local bool metering;
static thread_local struct row *rows, *under_way; /* the newest first */

bool cuda_metering(void)
{
    return metering;
}

/* Makes "pool.max_forward" from "kernels/cuda/pool.cu" and "(max_forward<T, uint8_t>)". */
static void write_name(char *out, size_t room, const char *file, const char *kernel)
{
    const char *slash = strrchr(file, '/'), *stem = slash ? slash + 1 : file;
    kernel += *kernel == '(';
    snprintf(out, room, "%.*s.%.*s", (int)strcspn(stem, "."), stem, (int)strcspn(kernel, "<)"),
             kernel);
}

static void free_row(struct row *r)
{
    cudaEvent_t events[] = {r->begin, r->end};
    for (cudaEvent_t event : events) {
        if (event) {
            cudaEventDestroy(event);
        }
    }
    free(r);
}

void cuda_meter_begin(const char *file, const char *name, double bytes, double flops,
                      cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    under_way = NULL;
    if (!metering || cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
        status != cudaStreamCaptureStatusNone) {
        return;
    }
    struct row *r = (struct row *)calloc(1, sizeof(*r));
    if (!r) {
        return;
    }
    write_name(r->name, sizeof(r->name), file, name);
    r->bytes = bytes;
    r->flops = flops;
    if (cudaEventCreateWithFlags(&r->begin, cudaEventDefault) != cudaSuccess ||
        cudaEventCreateWithFlags(&r->end, cudaEventDefault) != cudaSuccess ||
        cudaEventRecord(r->begin, stream) != cudaSuccess) {
        free_row(r);
        return;
    }
    r->next = rows;
    rows = under_way = r;
}

cudaError_t cuda_meter_end(cudaStream_t stream, cudaError_t code)
{
    if (under_way) {
        under_way->complete =
            code == cudaSuccess && cudaEventRecord(under_way->end, stream) == cudaSuccess;
        under_way = NULL;
    }
    return code;
}

static json_t *row_json(const struct row *r)
{
    float ms = 0;
    if (!r->complete || cudaEventSynchronize(r->end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, r->begin, r->end) != cudaSuccess) {
        return NULL;
    }
    return json_pack("{s:s, s:f, s:f, s:f}", "kernel", r->name, "bytes", r->bytes, "flops",
                     r->flops, "seconds", (double)ms / 1e3);
}

/* Appends the rows to the list (NULL: nowhere) in the order of their starts, and frees them. */
static void take_rows(struct device *dev, json_t *list)
{
    cudaSetDevice(((struct cuda_device *)dev)->index);
    for (struct row *r = rows, *next; r; r = next) {
        json_t *row = list ? row_json(r) : NULL;
        next = r->next;
        if (row) {
            json_array_insert_new(list, 0, row);
        }
        free_row(r);
    }
    rows = under_way = NULL;
    cudaGetLastError();
}

void cuda_metering_begin(struct device *dev)
{
    take_rows(dev, NULL);
    metering = true;
}

json_t *cuda_metering_end(struct device *dev)
{
    json_t *list = json_array();
    take_rows(dev, list);
    metering = false;
    return list;
}
