/* A oneDNN primitive with bound arguments, so that running it is one call that allocates nothing.
 *
 * An argument is bound in one of three ways:
 *
 *   to a fixed address             the step's own buffer
 *   to an offset in a block of     so that a program may serve several replicas of its network in
 *   the program's replica          turn
 *   to a variable that holds the   a value's data, since the network's input is at a new address
 *   address when the primitive     each time; the scratch memory, which is allocated after all
 *   runs                           primitives are known
 */
#ifndef KERNELS_CPU_PRIM_H
#define KERNELS_CPU_PRIM_H

#include <dnnl.h>

#include <stdbool.h>

#include "common/err.h"
#include "job/network/network.h"

enum { PRIM_ARGS = 8 };

struct cpu_program;

struct prim {
    dnnl_primitive_t handle; /* NULL: nothing to run */
    dnnl_exec_arg_t args[PRIM_ARGS];
    void **variable[PRIM_ARGS]; /* or NULL: fixed */
    int block[PRIM_ARGS]; /* enum dev_block + 1 for an offset in a block of the replica; else 0 */
    size_t place[PRIM_ARGS]; /* that offset, in floats */
    int n_args;
};

/* Makes the primitive from its operation descriptor. `pd` gets the primitive descriptor (freed by
 * the caller), for hints and formats. relu: applies y = max(y, 0) to the result. */
int prim_new(struct cpu_program *p, struct prim *prim, const_dnnl_op_desc_t op, bool relu,
             const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd, struct err *e);
int prim_fixed(struct cpu_program *p, struct prim *prim, int arg, const dnnl_memory_desc_t *md,
               void *data, struct err *e);
int prim_variable(struct cpu_program *p, struct prim *prim, int arg, const dnnl_memory_desc_t *md,
                  void **data, struct err *e);
int prim_run(struct cpu_program *p, struct prim *prim, struct err *e);
void prim_release(struct prim *prim);

/* A tensor in another format (or precision) than the flat block's. Primitives read or write `data`.
 * If the formats are equal, `data` is in the flat block itself and `copy` does nothing. */
struct prim_tensor {
    void *data;
    struct prim copy;
};
/* to_flat false: copies from the flat block to `data` (weights); true: back (their gradients). */
int prim_tensor_new(struct cpu_program *p, struct prim_tensor *t, const dnnl_memory_desc_t *flat_md,
                    float *flat, const dnnl_memory_desc_t *md, bool to_flat, struct err *e);
void prim_tensor_release(struct prim_tensor *t);

const dnnl_memory_desc_t *prim_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what);
/* An activation of this shape: NHWC, or {n} as a matrix. */
dnnl_memory_desc_t prim_value_md(const struct cpu_program *p, const struct shape *shape);
int prim_check(dnnl_status_t status, const char *what, struct err *e);

#endif
