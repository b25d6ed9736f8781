/* What the stand-ins share: one lock, one count of calls that may be told to fail, lists of memory
 * and of live objects, and work on streams.
 *
 *   runtime.cpp   device, errors, launches    memory.cpp   memory, copies       stream.cpp streams,
 * events, capture, graphs block.cpp     threads of a block as fibers dnn.cpp, blas.cpp   the two
 * libraries on plain loops (plain.cpp)        control.h   what tests ask and tell
 *
 * A mistake that the real library might forgive, or answer with a crash much later, is answered
 * with standin_die: the test fails there.
 */
#ifndef TESTS_CUDA_STANDIN_H
#define TESTS_CUDA_STANDIN_H

#include <cublas_v2.h>
#include <cudnn.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

/* The one lock: recursive, and threads get it in the order in which they asked. A mutex gives no
 * order, and a thread that calls without a pause would keep all others out. */
class standin_turns
{
  public:
    void lock(void);
    void unlock(void);

  private:
    std::mutex mutex;
    std::condition_variable turn;
    unsigned long next = 0, served = 0;
    std::thread::id owner;
    int depth = 0;
};

extern standin_turns standin_lock;
#define LOCKED std::lock_guard<standin_turns> locked(standin_lock)

[[noreturn]] void standin_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts a call; true: it is the one that is to fail. `name`: for messages. */
bool standin_call(const char *name);
/* What a call returns; if it is an error of CUDA's runtime, cudaGetLastError has it too. */
cudaError_t standin_result(cudaError_t code);
static inline cudnnStatus_t standin_result(cudnnStatus_t code)
{
    return code;
}
static inline cublasStatus_t standin_result(cublasStatus_t code)
{
    return code;
}
/* How every call begins: it fails as told, or because a capture forbids it. */
#define CALL(name, code)             \
    LOCKED;                          \
    if (standin_call(name)) {        \
        return standin_result(code); \
    }
#define CALL_OUTSIDE_CAPTURES(name, code)                         \
    CALL(name, code)                                              \
    if (standin_forbidden()) {                                    \
        return standin_result(cudaErrorStreamCaptureUnsupported); \
    }
/* The calling thread is capturing a stream, and may do nothing that waits or allocates. */
bool standin_forbidden(void);
void standin_capturing(bool on);
/* A graph is started. */
void standin_launched(void);
/* Algorithms are measured. */
void standin_measured(void);

/* The calling thread's GPU; dies if it has not said which (CUDA would take the first one). */
int standin_here(void);

void standin_need_device(const void *p, size_t bytes, size_t alignment, const char *what);
/* While one lives the GPU works: its memory can be reached (memory.cpp). */
struct standin_working {
    standin_working();
    ~standin_working();
    standin_working(const standin_working &) = delete;
};
/* Memory of each GPU in all; pieces of memory of any kind. */
extern size_t standin_memory;
long standin_pieces(void);

/* Live objects of every type: created, used, destroyed once. */
void standin_born(const void *object, const char *type);
void standin_need(const void *object, const char *type);
void standin_gone(const void *object, const char *type);
/* It is live, and the calling thread's GPU is the one that it was created for. */
void standin_need_here(const void *object, const char *type);

/* Work on a stream, or in the graph that it captures. */
cudaError_t standin_push(cudaStream_t stream, std::function<void()> work);
/* Everything that is waiting, on every stream. */
void standin_drain_all(void);
void standin_run_grid(unsigned blocks, unsigned threads, const std::function<void()> &thread);

/* ---- plain loops (plain.cpp): floats, NHWC; the callers have checked every range ------------- */

struct plain_conv {
    int n, h, w, c, k, kh, kw, oh, ow, stride[2], padding[2];
};
void plain_forward(const struct plain_conv &d, const float *x, const float *w, float *y);
void plain_data(const struct plain_conv &d, const float *w, const float *dy, float *dx);
void plain_filter(const struct plain_conv &d, const float *x, const float *dy, float *dw);
/* c [n][m] (m innermost) = op(a) op(b), as BLAS counts */
void plain_gemm(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b,
                int ldb, float *c, int ldc);
/* To and from bf16; tf32 keeps 10 bits of the fraction. */
void plain_widen(float *to, const uint16_t *from, size_t n);
void plain_round(uint16_t *to, const float *from, size_t n);
void plain_tf32(float *x, size_t n);

#endif
