/* What tests tell the stand-ins and ask them; found in the plug-in by dlsym (tests/cuda/judge.h).
 * C11 and C++. */
#ifndef TESTS_CUDA_CONTROL_H
#define TESTS_CUDA_CONTROL_H

#include <stddef.h>

struct standin_control {
    /* The nth call from now on that can fail does; 0: none. */
    void (*fail_at)(long n);
    /* Calls since fail_at; the name of the one that failed, or "". */
    long (*calls)(void);
    const char *(*failed)(void);
    /* Live objects: allocations, streams, events, graphs, handles, descriptors. */
    long (*live)(void);
    /* Memory of each GPU in all; what is taken stays. */
    void (*set_memory)(size_t bytes);
    /* Work runs when it is put on its stream, not when somebody waits. */
    void (*set_eager)(int on);
    /* Kernels that were started, graphs that were captured, since fail_at. */
    long (*kernels)(void);
    long (*captures)(void);
    /* Times that the algorithms of a convolution's pass were measured, since fail_at. */
    long (*measured)(void);
    /* cuDNN's lists of algorithms tell (1) of arithmetic that was not asked for alone, or (2) of
     * nothing that is repeatable. */
    void (*set_shy)(int on);
    /* Work, marks and waits that were put on streams and have not run. */
    long (*waiting)(void);
    /* Graphs that were started, since fail_at. */
    long (*launches)(void);
};
#define STANDIN_CONTROL "standin_control"
typedef const struct standin_control *standin_control_fn(void);

#endif
