/* The device, errors, launches of kernels, and what tests control (see standin.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>

#include "tests/cuda/standin/control.h"
#include "tests/cuda/standin/standin.h"

standin_turns standin_lock;

void standin_turns::lock(void)
{
    std::unique_lock<std::mutex> locked(mutex);
    if (depth == 0 || owner != std::this_thread::get_id()) {
        unsigned long mine = next++;
        turn.wait(locked, [&] { return served == mine; });
        owner = std::this_thread::get_id();
    }
    depth++;
}

void standin_turns::unlock(void)
{
    std::lock_guard<std::mutex> locked(mutex);
    if (--depth == 0) {
        owner = std::thread::id();
        served++;
        turn.notify_all();
    }
}

/* GPUs that there are, EVENSTEP_STANDIN_DEVICES; -1: the driver is too old. */
static int devices_at_first(void)
{
    const char *text = getenv("EVENSTEP_STANDIN_DEVICES");
    return text ? (int)strtol(text, NULL, 10) : 2;
}

static const int devices = devices_at_first();
static thread_local int here = -1;

static struct {
    long calls, fail_at, kernels, captures, measured, launches;
    std::string failed;
} now = {};

struct object {
    std::string type;
    int device;
};
static std::map<const void *, struct object> objects;
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

/* EVENSTEP_STANDIN_FAIL=NAME:N, where only the environment reaches: the Nth call of this name
 * fails; a kernel's name is that of its function. */
static bool named_call_fails(const char *name)
{
    static const char *const told = getenv("EVENSTEP_STANDIN_FAIL");
    static long calls;
    size_t length = strlen(name);
    return told && strncmp(told, name, length) == 0 && told[length] == ':' &&
           ++calls == strtol(told + length + 1, NULL, 10);
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

cudaError_t standin_result(cudaError_t code)
{
    last = code == cudaSuccess ? last : code;
    return code;
}

/* ---- objects --------------------------------------------------------------------------------- */

void standin_born(const void *object, const char *type)
{
    LOCKED;
    objects[object] = {type, standin_here()};
}

void standin_need(const void *object, const char *type)
{
    LOCKED;
    auto found = objects.find(object);
    if (found == objects.end() || found->second.type != type) {
        standin_die("%p is no live %s", object, type);
    }
}

void standin_need_here(const void *object, const char *type)
{
    LOCKED;
    standin_need(object, type);
    if (objects[object].device != standin_here()) {
        standin_die("a %s of GPU %d is used by a thread whose GPU is %d", type,
                    objects[object].device, standin_here());
    }
}

void standin_gone(const void *object, const char *type)
{
    LOCKED;
    standin_need(object, type);
    objects.erase(object);
}

/* ---- kernels --------------------------------------------------------------------------------- */

cudaError_t standin_enqueue_grid(const char *name, unsigned blocks, unsigned threads,
                                 cudaStream_t stream, std::function<void()> thread)
{
    CALL(name, cudaErrorLaunchFailure);
    if (blocks == 0 || blocks > 0x7fffffffu || threads == 0 || threads > 1024) {
        return standin_result(cudaErrorInvalidConfiguration);
    }
    now.kernels++;
    return standin_push(stream, [=] { standin_run_grid(blocks, threads, thread); });
}

/* ---- device, errors -------------------------------------------------------------------------- */

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
    CALL("cudaGetDeviceCount", cudaErrorNoDevice);
    if (devices < 1) {
        return standin_result(devices < 0 ? cudaErrorInsufficientDriver : cudaErrorNoDevice);
    }
    *count = devices;
    return cudaSuccess;
}

extern "C" cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= devices) {
        return standin_result(cudaErrorInvalidDevice);
    }
    here = device;
    return cudaSuccess;
}

int standin_here(void)
{
    if (here < 0) {
        standin_die("a thread uses a GPU and has not said which");
    }
    return here;
}

extern "C" cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    CALL("cudaGetDeviceProperties", cudaErrorInvalidDevice);
    *prop = {"host stand-in, no GPU", standin_memory, 9, 0, 2};
    return cudaSuccess;
}

/* ---- control --------------------------------------------------------------------------------- */

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
    return standin_pieces() + (long)objects.size();
}

static void set_memory(size_t bytes)
{
    LOCKED;
    standin_memory = bytes;
}

extern "C" __attribute__((visibility("default"))) const struct standin_control *
standin_control(void)
{
    static const struct standin_control control = {
        fail_at,
        [] { return now.calls; },
        [] { return now.failed.c_str(); },
        live,
        set_memory,
        standin_set_eager,
        [] { return now.kernels; },
        [] { return now.captures; },
        [] { return now.measured; },
        standin_set_shy,
        standin_waiting,
        [] { return now.launches; },
    };
    return &control;
}
