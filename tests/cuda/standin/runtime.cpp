/* The device, its memory, errors, and what tests control (see standin.h). Memory of the GPU is memory of the host that only kernels, copies
 * and libraries touch; it begins full of not-a-number, so that whatever is read before it was written is seen.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>

#include "tests/cuda/standin/control.h"
#include "tests/cuda/standin/standin.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

std::recursive_mutex standin_lock;

/* GPUs that there are; -1: the driver is too old. EVENSTEP_STANDIN_DEVICES where only the environment reaches. */
static int devices_at_first(void)
{
    const char *text = getenv("EVENSTEP_STANDIN_DEVICES");
    return text ? (int)strtol(text, NULL, 10) : 1;
}

/* Bytes of the GPU; EVENSTEP_STANDIN_MEMORY likewise. */
static size_t memory_at_first(void)
{
    const char *text = getenv("EVENSTEP_STANDIN_MEMORY");
    return text ? (size_t)strtoull(text, NULL, 10) : (size_t)4 << 30;
}

static struct {
    long calls, fail_at, kernels, captures, measured, launches;
    std::string failed;
    size_t memory, used;
    int devices;
} now = {0, 0, 0, 0, 0, 0, "", memory_at_first(), 0, devices_at_first()};

struct piece {
    size_t bytes;
    enum standin_kind kind;
    size_t room; /* bytes that it really has */
};
static std::map<uintptr_t, struct piece> memory;
static std::map<const void *, std::string> objects;
static thread_local cudaError_t last;
static thread_local int capturing;

void standin_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "stand-in: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

/* EVENSTEP_STANDIN_FAIL=NAME:N, where only the environment reaches: the Nth call of this name fails. */
static bool named_call_fails(const char *name)
{
    static const char *const told = getenv("EVENSTEP_STANDIN_FAIL");
    static long calls;
    size_t length = strlen(name);
    return told && strncmp(told, name, length) == 0 && told[length] == ':' && ++calls == strtol(told + length + 1, NULL, 10);
}

bool standin_call(const char *name)
{
    LOCKED;
    now.calls++;
    if (named_call_fails(name)) {
        return true;
    }
    if (now.fail_at == 0 || now.calls != now.fail_at) {
        return false;
    }
    now.failed = name;
    return true;
}

bool standin_forbidden(void)
{
    return capturing > 0;
}

void standin_capturing(bool on)
{
    capturing += on ? 1 : -1;
    now.captures += on;
}

void standin_launched(void)
{
    now.launches++;
}

void standin_measured(void)
{
    now.measured++;
}

static cudaError_t result(cudaError_t code)
{
    last = code == cudaSuccess ? last : code;
    return code;
}

/* Fails as told, or because a capture forbids it. */
#define ENTER(name, code)     \
    LOCKED;                   \
    if (standin_call(name)) { \
        return result(code);  \
    }
#define ENTER_NO_CAPTURE(name, code)                      \
    ENTER(name, code)                                     \
    if (standin_forbidden()) {                            \
        return result(cudaErrorStreamCaptureUnsupported); \
    }

/* ---- objects, memory ---------------------------------------------------------------------------------------------------- */

void standin_born(const void *object, const char *type)
{
    LOCKED;
    objects[object] = type;
}

void standin_need(const void *object, const char *type)
{
    LOCKED;
    auto found = objects.find(object);
    if (found == objects.end() || found->second != type) {
        standin_die("%p is no live %s", object, type);
    }
}

void standin_gone(const void *object, const char *type)
{
    LOCKED;
    standin_need(object, type);
    objects.erase(object);
}

enum standin_kind standin_kind_of(const void *p, size_t bytes)
{
    LOCKED;
    uintptr_t at = (uintptr_t)p;
    auto after = memory.upper_bound(at);
    if (after != memory.begin()) {
        auto before = std::prev(after);
        uintptr_t end = before->first + before->second.bytes;
        if (at < end) {
            if (at + bytes > end) {
                standin_die("%zu bytes at %p reach past the end of their allocation", bytes, p);
            }
            return before->second.kind;
        }
    }
    if (after != memory.end() && at + bytes > after->first) {
        standin_die("%zu bytes at %p reach into an allocation", bytes, p);
    }
    return HOST;
}

void standin_need_device(const void *p, size_t bytes, size_t alignment, const char *what)
{
    if (!p || standin_kind_of(p, bytes) != DEVICE) {
        standin_die("%s: %p is no memory of the GPU", what, p);
    }
    if ((uintptr_t)p % alignment != 0) {
        standin_die("%s: %p is not aligned to %zu bytes", what, p, alignment);
    }
}

void standin_guard(void *from, size_t bytes)
{
    ASAN_POISON_MEMORY_REGION(from, bytes);
}

/* Large pieces that were given back, by size: to touch new pages takes longer than all that tests do with them. Nobody may read them. */
static std::multimap<size_t, void *> &idle = *new std::multimap<size_t, void *>(); /* never destroyed: what is in it is no leak */
enum { LARGE = 1 << 20 };

static void *take(size_t bytes, enum standin_kind kind)
{
    size_t rounded = (bytes + 255) / 256 * 256;
    auto old = rounded < LARGE ? idle.end() : idle.lower_bound(rounded);
    size_t room = old != idle.end() ? old->first : rounded;
    void *p = old != idle.end() ? old->second : aligned_alloc(256, rounded ? rounded : 256);
    if (old != idle.end()) {
        idle.erase(old);
        ASAN_UNPOISON_MEMORY_REGION(p, rounded);
    }
    if (p) {
        memset(p, 0xff, rounded ? rounded : 256);
        memory[(uintptr_t)p] = {bytes, kind, room};
    }
    return p;
}

static void give_back(void *p, enum standin_kind kind)
{
    auto found = memory.find((uintptr_t)p);
    if (found == memory.end() || found->second.kind != kind) {
        standin_die("%p was not allocated, or is freed twice", p);
    }
    size_t bytes = found->second.bytes, room = found->second.room;
    now.used -= kind == DEVICE ? bytes : 0;
    memory.erase(found);
    if (bytes < LARGE) {
        ASAN_UNPOISON_MEMORY_REGION(p, bytes);
        free(p);
    } else {
        ASAN_POISON_MEMORY_REGION(p, room);
        idle.insert({room, p});
    }
}

extern "C" cudaError_t cudaMalloc(void **out, size_t bytes)
{
    ENTER_NO_CAPTURE("cudaMalloc", cudaErrorMemoryAllocation);
    if (bytes > now.memory - now.used || !(*out = take(bytes, DEVICE))) {
        return result(cudaErrorMemoryAllocation);
    }
    now.used += bytes;
    return cudaSuccess;
}

extern "C" cudaError_t cudaFree(void *p)
{
    LOCKED;
    if (standin_forbidden()) {
        standin_die("memory is freed while a stream is captured");
    }
    standin_drain_all(); /* as CUDA does */
    if (p) {
        give_back(p, DEVICE);
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    ENTER_NO_CAPTURE("cudaHostAlloc", cudaErrorMemoryAllocation);
    *out = take(bytes, PINNED);
    return *out ? cudaSuccess : result(cudaErrorMemoryAllocation);
}

extern "C" cudaError_t cudaFreeHost(void *p)
{
    LOCKED;
    standin_drain_all();
    if (p) {
        give_back(p, PINNED);
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaMemGetInfo(size_t *there, size_t *all)
{
    ENTER("cudaMemGetInfo", cudaErrorInvalidValue);
    *there = now.memory - now.used;
    *all = now.memory;
    return cudaSuccess;
}

/* ---- copies ---------------------------------------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    ENTER("cudaMemsetAsync", cudaErrorInvalidValue);
    standin_need_device(to, bytes, 1, "cudaMemsetAsync");
    return standin_push(stream, [=] { memset(to, byte, bytes); });
}

/* Pinned memory is read and written when the copy runs; other memory of the host now, and a capture cannot have that. */
extern "C" cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    ENTER("cudaMemcpyAsync", cudaErrorInvalidValue);
    enum standin_kind source = standin_kind_of(from, bytes), target = standin_kind_of(to, bytes);
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if ((source == DEVICE) != from_device || (target == DEVICE) != to_device) {
        standin_die("a copy of %zu bytes from %p to %p is not of the kind %d that it is said to be", bytes, from, to, (int)kind);
    }
    if (source == HOST || target == HOST) {
        if (standin_forbidden()) {
            return result(cudaErrorStreamCaptureUnsupported);
        }
        if (target == HOST) {
            standin_die("a copy to memory that is not pinned waits for the GPU; none of ours may");
        }
        std::string now_there((const char *)from, bytes);
        return standin_push(stream, [=] { memcpy(to, now_there.data(), bytes); });
    }
    return standin_push(stream, [=] { memcpy(to, from, bytes); });
}

/* ---- kernels ----------------------------------------------------------------------------------------------------------------- */

cudaError_t standin_enqueue_grid(unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> thread)
{
    ENTER("the launch of a kernel", cudaErrorLaunchFailure);
    if (blocks == 0 || blocks > 0x7fffffffu || threads == 0 || threads > 1024) {
        return result(cudaErrorInvalidConfiguration);
    }
    now.kernels++;
    return standin_push(stream, [=] { standin_run_grid(blocks, threads, thread); });
}

/* ---- device, errors ------------------------------------------------------------------------------------------------------------ */

extern "C" const char *cudaGetErrorString(cudaError_t code)
{
    switch (code) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorLaunchFailure:
        return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
        return "capturing stream has unjoined work";
    default:
        return "invalid argument";
    }
}

extern "C" cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last;
    last = cudaSuccess;
    return code;
}

extern "C" cudaError_t cudaGetDeviceCount(int *count)
{
    ENTER("cudaGetDeviceCount", cudaErrorNoDevice);
    if (now.devices < 1) {
        return result(now.devices < 0 ? cudaErrorInsufficientDriver : cudaErrorNoDevice);
    }
    *count = now.devices;
    return cudaSuccess;
}

extern "C" cudaError_t cudaSetDevice(int device)
{
    LOCKED;
    return device == 0 ? cudaSuccess : result(cudaErrorInvalidDevice);
}

extern "C" cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    ENTER("cudaGetDeviceProperties", cudaErrorInvalidDevice);
    *prop = {"host stand-in, no GPU", now.memory, 9, 0, 2};
    return cudaSuccess;
}

/* ---- the driver: what tests and benches use of it, for memory of their own ------------------------------------------------ */

#define DRIVER extern "C" __attribute__((visibility("default"))) int

DRIVER cuMemAlloc_v2(unsigned long long *out, size_t bytes)
{
    void *p = NULL;
    cudaError_t code = cudaMalloc(&p, bytes);
    *out = (uintptr_t)p;
    return code;
}

DRIVER cuMemFree_v2(unsigned long long p)
{
    return cudaFree((void *)p);
}

DRIVER cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    standin_need_device((void *)to, bytes, 1, "cuMemcpyHtoD");
    standin_drain_all();
    memcpy((void *)to, from, bytes);
    return 0;
}

DRIVER cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    standin_need_device((void *)from, bytes, 1, "cuMemcpyDtoH");
    standin_drain_all();
    memcpy(to, (void *)from, bytes);
    return 0;
}

DRIVER cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, size_t bytes)
{
    standin_need_device((void *)to, bytes, 1, "cuMemcpyDtoD");
    standin_need_device((void *)from, bytes, 1, "cuMemcpyDtoD");
    standin_drain_all();
    memcpy((void *)to, (void *)from, bytes);
    return 0;
}

DRIVER cuMemsetD8_v2(unsigned long long to, unsigned char byte, size_t bytes)
{
    standin_need_device((void *)to, bytes, 1, "cuMemsetD8");
    standin_drain_all();
    memset((void *)to, byte, bytes);
    return 0;
}

DRIVER cuCtxSynchronize(void)
{
    standin_drain_all();
    return 0;
}

/* ---- control ---------------------------------------------------------------------------------------------------------------------- */

extern void standin_set_eager(int on);
extern long standin_waiting(void);
extern void standin_set_shy(int on);

static void fail_at(long n)
{
    LOCKED;
    now.calls = now.kernels = now.captures = now.measured = now.launches = 0;
    now.failed = "";
    now.fail_at = n;
}

static long live(void)
{
    LOCKED;
    return (long)(memory.size() + objects.size());
}

static void set_memory(size_t bytes)
{
    LOCKED;
    now.memory = bytes > now.used ? bytes : now.used;
}

extern "C" __attribute__((visibility("default"))) const struct standin_control *standin_control(void)
{
    static const struct standin_control control = {
        fail_at,
        [] { return now.calls; },
        [] { return now.failed.c_str(); },
        live,
        set_memory,
        standin_set_eager,
        [](int n) { now.devices = n; },
        [] { return now.kernels; },
        [] { return now.captures; },
        [] { return now.measured; },
        standin_set_shy,
        standin_waiting,
        [] { return now.launches; },
    };
    return &control;
}
