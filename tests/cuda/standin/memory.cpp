/* Memory, and copies. Memory of the GPU is a range of the host's addresses that can be reached only
 * while the GPU works, that is while work on a stream runs: code of the host that follows a pointer
 * into it ends there, as it would with a GPU. (While one thread waits for the GPU the others can
 * reach it too.) It begins full of not-a-number, so that whatever is read before it was written is
 * seen; what lies behind a piece, or was given back, AddressSanitizer knows. And no kernel is given
 * a pointer to memory of the host that is not pinned.
 *
 * Tests that hand its pointers to an MPI leave it open: EVENSTEP_STANDIN_DEVICE_POINTERS=1.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <map>

#include "tests/cuda/standin/control.h"
#include "tests/cuda/standin/standin.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define TELL_WHERE() __sanitizer_print_stack_trace()
#else
#define TELL_WHERE() ((void)0)
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* Bytes of the GPU; EVENSTEP_STANDIN_MEMORY where only the environment reaches. */
static size_t memory_at_first(void)
{
    const char *text = getenv("EVENSTEP_STANDIN_MEMORY");
    return text ? (size_t)strtoull(text, NULL, 10) : (size_t)4 << 30;
}

enum kind { HOST, PINNED, DEVICE };

size_t standin_memory = memory_at_first();
static std::map<int, size_t> taken; /* of each GPU */

struct piece {
    size_t bytes;
    enum kind kind;
    int device;
    size_t room; /* of the range, from its address on; 0 if it is no memory of the GPU */
};
static std::map<uintptr_t, struct piece> pieces;

/* ---- the range of the GPU's memory ----------------------------------------------------------- */

enum { PAGE = 4096, LARGE_PAGE = 2 << 20, WAITING = 4 << 20 };

static struct {
    char *at;
    size_t bytes, used; /* from its start */
} range;                /* of all GPUs */
static int working;     /* how many wait for one */

/* What was given back and may be taken again, by size; before that it waits, up to so many bytes,
 * so that whoever still uses it is seen. */
static std::multimap<size_t, char *> &idle =
    *new std::multimap<size_t, char *>(); /* never destroyed: what is in it is no leak */
static std::deque<std::pair<size_t, char *>> &waiting =
    *new std::deque<std::pair<size_t, char *>>();
static size_t bytes_waiting;

static struct sigaction before;

static void fault(int signal, siginfo_t *info, void *context)
{
    char *at = (char *)info->si_addr;
    if (at >= range.at && at < range.at + range.bytes) {
        fprintf(stderr, "stand-in: code of the host reads or writes the GPU's memory at %p\n",
                (void *)at);
        TELL_WHERE();
        abort();
    }
    sigaction(SIGSEGV, &before, NULL); /* it happens again, and is theirs */
}

bool standin_device_pointers(void)
{
    static const char *const told = getenv("EVENSTEP_STANDIN_DEVICE_POINTERS");
    return told && *told == '1';
}

/* A library of tests sets its own for each test. */
static void catch_faults(void)
{
    struct sigaction action = {}, other;
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &other);
    before = other.sa_sigaction == fault ? before : other;
}

/* In large pages: they are fewer. */
static void protect(void)
{
    size_t bytes = (range.used + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    if (bytes > 0 && mprotect(range.at, bytes,
                              working > 0 || standin_device_pointers() ? PROT_READ | PROT_WRITE
                                                                       : PROT_NONE) != 0) {
        standin_die("the GPU's memory cannot be opened or closed");
    }
}

static void reserve(void)
{
    range.bytes = (size_t)1 << 40;
    void *at =
        mmap(NULL, range.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        standin_die("no addresses for the GPU's memory");
    }
    range.at = (char *)(((uintptr_t)at + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
    range.bytes -= LARGE_PAGE;
    madvise(range.at, range.bytes, MADV_HUGEPAGE);
}

standin_working::standin_working()
{
    LOCKED;
    if (working++ == 0) {
        protect();
    }
}

standin_working::~standin_working()
{
    LOCKED;
    if (--working == 0) {
        protect();
        catch_faults();
    }
}

static void *take_from_range(size_t bytes)
{
    if (!range.at) {
        reserve();
    }
    size_t room = (bytes + 2 * PAGE - 1) / PAGE * PAGE; /* at least a byte behind it is nobody's */
    auto old = idle.lower_bound(room);
    char *at;
    if (old != idle.end() && old->first / 2 <= room) {
        room = old->first;
        at = old->second;
        idle.erase(old);
    } else {
        at = range.at + range.used;
        range.used += room;
        if (range.used > range.bytes) {
            standin_die("the GPU's memory has no addresses left");
        }
        protect();
    }
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    ASAN_POISON_MEMORY_REGION(at + bytes, room - bytes);
    pieces[(uintptr_t)at] = {bytes, DEVICE, standin_here(), room};
    struct standin_working here;
    memset(at, 0xff, bytes);
    return at;
}

static void give_to_range(char *at, size_t room)
{
    ASAN_POISON_MEMORY_REGION(at, room);
    waiting.push_back({room, at});
    bytes_waiting += room;
    while (bytes_waiting > WAITING) {
        bytes_waiting -= waiting.front().first;
        idle.insert(waiting.front());
        waiting.pop_front();
    }
}

void standin_guard(void *from, size_t bytes)
{
    ASAN_POISON_MEMORY_REGION(from, bytes);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

long standin_pieces(void)
{
    return (long)pieces.size();
}

/* The piece that [p, p+bytes) is a part of, or NULL: it is none. */
static const struct piece *piece_of(const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p;
    auto after = pieces.upper_bound(at);
    if (after != pieces.begin()) {
        auto before = std::prev(after);
        uintptr_t end = before->first + before->second.bytes;
        if (at < end) {
            if (at + bytes > end) {
                standin_die("%zu bytes at %p reach past the end of their allocation", bytes, p);
            }
            return &before->second;
        }
    }
    if (after != pieces.end() && at + bytes > after->first) {
        standin_die("%zu bytes at %p reach into an allocation", bytes, p);
    }
    return NULL;
}

static enum kind kind_of(const void *p, size_t bytes)
{
    const struct piece *piece = piece_of(p, bytes);
    return piece ? piece->kind : HOST;
}

/* Not while the GPU works: then the calling thread is any that waits for it. */
static void need_same_device(const struct piece *piece, const void *p)
{
    if (piece->kind == DEVICE && working == 0 && piece->device != standin_here()) {
        standin_die("%p is memory of GPU %d, and the thread's is GPU %d", p, piece->device,
                    standin_here());
    }
}

void standin_need_device(const void *p, size_t bytes, size_t alignment, const char *what)
{
    LOCKED;
    const struct piece *piece = p ? piece_of(p, bytes) : NULL;
    if (!piece || piece->kind != DEVICE) {
        standin_die("%s: %p is no memory of the GPU", what, p);
    }
    if ((uintptr_t)p % alignment != 0) {
        standin_die("%s: %p is not aligned to %zu bytes", what, p, alignment);
    }
    need_same_device(piece, p);
}

/* A kernel's argument, a pointer or a struct: no part may be a pointer to memory of the host. A
 * number that looks like one is not mapped; in a struct a small one behind which padding kept what
 * it was before is none. */
void standin_check_argument(const void *argument, size_t bytes, bool pointer)
{
    LOCKED;
    static const uintptr_t first = (uintptr_t)0x10008
                                   << 28; /* below it is AddressSanitizer's own */
    for (size_t i = 0; i + sizeof(void *) <= bytes; i += sizeof(void *)) {
        uintptr_t at;
        memcpy(&at, (const char *)argument + i, sizeof(at));
        bool address =
            at >= first && at < (uintptr_t)1 << 47 && (pointer || (uint32_t)at > UINT16_MAX);
        const struct piece *piece = address ? piece_of((void *)at, 1) : NULL;
        if (piece) {
            need_same_device(piece, (void *)at);
        } else if (address && msync((void *)(at / PAGE * PAGE), PAGE, MS_ASYNC) == 0) {
            standin_die("a kernel is given %p, which is neither the GPU's memory nor pinned",
                        (void *)at);
        }
    }
}

static struct piece drop(void *p, enum kind kind)
{
    auto found = pieces.find((uintptr_t)p);
    if (found == pieces.end() || found->second.kind != kind) {
        standin_die("%p was not allocated, or is freed twice", p);
    }
    struct piece piece = found->second;
    pieces.erase(found);
    return piece;
}

/* Bytes of the thread's GPU that nobody has. */
static size_t left(void)
{
    size_t used = taken[standin_here()];
    return standin_memory > used ? standin_memory - used : 0;
}

extern "C" cudaError_t cudaMalloc(void **out, size_t bytes)
{
    CALL_OUTSIDE_CAPTURES("cudaMalloc", cudaErrorMemoryAllocation);
    if (bytes > left()) {
        return standin_result(cudaErrorMemoryAllocation);
    }
    *out = take_from_range(bytes);
    taken[standin_here()] += bytes;
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
        struct piece piece = drop(p, DEVICE);
        taken[piece.device] -= piece.bytes;
        give_to_range((char *)p, piece.room);
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    CALL_OUTSIDE_CAPTURES("cudaHostAlloc", cudaErrorMemoryAllocation);
    size_t rounded = (bytes + 255) / 256 * 256;
    *out = aligned_alloc(256, rounded ? rounded : 256);
    if (!*out) {
        return standin_result(cudaErrorMemoryAllocation);
    }
    memset(*out, 0xff, rounded ? rounded : 256);
    pieces[(uintptr_t)*out] = {bytes, PINNED, -1, 0};
    return cudaSuccess;
}

extern "C" cudaError_t cudaFreeHost(void *p)
{
    LOCKED;
    standin_drain_all();
    if (p) {
        drop(p, PINNED);
        free(p);
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaMemGetInfo(size_t *there, size_t *all)
{
    CALL("cudaMemGetInfo", cudaErrorInvalidValue);
    *there = left();
    *all = standin_memory;
    return cudaSuccess;
}

/* ---- copies ---------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    CALL("cudaMemsetAsync", cudaErrorInvalidValue);
    standin_need_device(to, bytes, 1, "cudaMemsetAsync");
    return standin_push(stream, [=] { memset(to, byte, bytes); });
}

/* Pinned memory is read and written when the copy runs; other memory of the host now, and a capture
 * cannot have that. */
extern "C" cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                       cudaMemcpyKind kind, cudaStream_t stream)
{
    CALL("cudaMemcpyAsync", cudaErrorInvalidValue);
    enum kind source = kind_of(from, bytes), target = kind_of(to, bytes);
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if ((source == DEVICE) != from_device || (target == DEVICE) != to_device) {
        standin_die("a copy of %zu bytes from %p to %p is not of the kind %d that it is said to be",
                    bytes, from, to, (int)kind);
    }
    if (source == HOST || target == HOST) {
        if (standin_forbidden()) {
            return standin_result(cudaErrorStreamCaptureUnsupported);
        }
        if (target == HOST) {
            standin_die("a copy to memory that is not pinned waits for the GPU; none of ours may");
        }
        std::string now_there((const char *)from, bytes);
        return standin_push(stream, [=] { memcpy(to, now_there.data(), bytes); });
    }
    return standin_push(stream, [=] { memcpy(to, from, bytes); });
}

/* ---- the driver: what tests and benches use of it, for memory of their own ------------------- */

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
    struct standin_working here;
    memcpy((void *)to, from, bytes);
    return 0;
}

DRIVER cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    standin_need_device((void *)from, bytes, 1, "cuMemcpyDtoH");
    standin_drain_all();
    struct standin_working here;
    memcpy(to, (void *)from, bytes);
    return 0;
}

DRIVER cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, size_t bytes)
{
    standin_need_device((void *)to, bytes, 1, "cuMemcpyDtoD");
    standin_need_device((void *)from, bytes, 1, "cuMemcpyDtoD");
    standin_drain_all();
    struct standin_working here;
    memcpy((void *)to, (void *)from, bytes);
    return 0;
}

DRIVER cuMemsetD8_v2(unsigned long long to, unsigned char byte, size_t bytes)
{
    standin_need_device((void *)to, bytes, 1, "cuMemsetD8");
    standin_drain_all();
    struct standin_working here;
    memset((void *)to, byte, bytes);
    return 0;
}

DRIVER cuCtxSynchronize(void)
{
    standin_drain_all();
    return 0;
}
