/* The CPU backend: a device, the programs that it runs, and the table that every operator fills.
 *
 * A device's program is a team (cpu/team.c): either one program on all threads, or one program per
 * thread for that thread's part of the minibatch. A program is an array of steps in the network's
 * layer order; forward goes up, backward down. The steps of a group run one after the other on each
 * tile, a part of the minibatch that fits into the cache (cpu/tiles.c). A step owns what its
 * operator prepared (oneDNN primitives, masks). A value is one activation with its gradient. If
 * several steps read a value, the first of them in backward order writes its gradient; the others
 * write to spare memory, which the program adds. Operators write to `in_grad` and need not know.
 *
 * Activations are fp32 or bf16 (cpu/element.h). In the backward pass only the activations that an
 * operator declares to read are valid (cpu/memory_plan.c). A value's `data` and `grad` point to the
 * p->samples samples of the current tile, which begins at sample p->from of the minibatch. A
 * value's shape is the one in which it is STORED: a flattened image is still stored row, column,
 * channel, and the dense layer that reads it permutes its own copy (cpu/dense.c).
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include <pthread.h>

#include "kernels/cpu/element.h"
#include "kernels/cpu/prim.h"
#include "kernels/host_replica.h"

/* Compiles a hot loop for several instruction sets; the loader chooses when the program starts. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

/* For a loop over elements: its arrays may be identical, but do not overlap otherwise. */
#if defined(__GNUC__) && !defined(__clang__)
#define CPU_ELEMENTWISE _Pragma("GCC ivdep")
#else
#define CPU_ELEMENTWISE
#endif

struct cpu_arena { /* memory for one run of a program at a time */
    struct cpu_arena *next;
    size_t bytes;
    char *memory;
    bool taken;
};
struct cpu_arenas {
    pthread_mutex_t lock; /* guards what follows */
    struct cpu_arena *first;
    int n, taken, most_taken; /* most_taken: the most at one time */
};

struct cpu_device {
    struct device base;
    int threads;
    struct cpu_arenas arenas;
    dnnl_engine_t engine;
    /* of replicas made from now on; a replica's `impl` is its own precision */
    const char *precision;
    char line[160];
};

struct cpu_value {
    struct shape shape; /* of one sample, as stored */
    size_t count;       /* elements of one sample */
    /* [samples][count] of the current tile; the network's input borrows the caller's memory */
    void *data;
    void *grad;      /* [samples][count], or NULL if no parameter comes before it */
    bool needs_grad; /* some parameter comes before it */
    bool has_grad;   /* while building: a step that runs earlier in backward already writes it */
    struct cpu_step *maker;
    int again_before; /* recomputed before the backward pass of this step; -1: never */
};

struct cpu_program;
struct cpu_team;
struct cpu_step;

/* The activations of a step that its backward pass reads. */
enum cpu_reads {
    CPU_READS_IN = 1,
    CPU_READS_OUT = 2,
    CPU_READS_RELU = 4 /* the output, if the step includes a relu */
};

struct cpu_op {
    const char *name;
    /* works on any p->samples samples; else on the whole minibatch at once */
    bool by_tiles;
    bool takes_relu;  /* a relu that follows can become part of it (cpu_step.relu) */
    bool keeps_shape; /* the output is stored as the first input is, whatever the layer's shape
                         says */
    unsigned backward_reads; /* enum cpu_reads; other values may be gone by then */
    /* Called once the step's inputs and output are known, before memory is allocated. */
    int (*prepare)(struct cpu_program *p, struct cpu_step *s, struct err *e);
    int (*forward)(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   struct err *e);
    /* Reads out->grad (may change it). Writes each in_grad that is not NULL, and the step's range
     * of the flat block. */
    int (*backward)(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                    struct err *e);
    /* NULL, or: gathers from the current tile what `forward` (in training) or `backward` must know
     * about the whole minibatch. It runs on every tile of the previous group, so it reads inputs
     * and out->grad before the step itself runs. Until then it may use p->gathered. */
    void (*gather)(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   bool backward);
    /* With `gather`: combines what all programs of the team have gathered, before the step runs;
     * also for a forward pass without training. */
    void (*begin)(const struct cpu_team *team, int step, const struct dev_input *in, bool backward);
    /* NULL, or: recomputes the output of the last forward pass, with the same bits, from inputs
     * that the backward pass reads anyway. */
    void (*again)(struct cpu_program *p, struct cpu_step *s);
    void (*release)(struct cpu_step *s);
};

struct cpu_step {
    const struct cpu_op *op;
    const struct layer *layer;
    int index; /* of the layer in the network: the counter of random choices */
    int n_in;
    struct cpu_value *in[NET_INPUTS], *out;
    void **in_grad[NET_INPUTS]; /* where the input's gradient goes; NULL: not needed */
    bool adds[NET_INPUTS];      /* it goes to `spare`, and is added later */
    void *spare[NET_INPUTS];
    bool relu;     /* the step also does the relu that follows */
    bool backward; /* takes part in the backward pass */
    void *state;   /* the operator's; freed by its release */
};

/* Steps that run one after the other on each tile. */
struct cpu_group {
    int first, end;  /* forward: steps first to end - 1; then step `end` gathers, if it belongs to
                        the group backward (top) */
    int top, bottom; /* backward: steps top down to bottom; then step bottom - 1 gathers, if it
                        belongs to the group forward */
    int samples;     /* of a tile: a divisor of the batch */
};

/* A pointer that is set for each run, into its arena, and for each tile. */
struct cpu_address {
    void **at;
    size_t first;  /* byte of the arena */
    char *block;   /* that address in this run */
    size_t stride; /* bytes from sample to sample; 0: all tiles use the same memory, one after
                      another */
};

struct cpu_program {
    struct dev_replica *replica;
    int batch;
    struct cpu_device *dev;
    const struct cpu_program *lead; /* the first program of its team; NULL: this one */
    int first, threads; /* this program's first sample in the minibatch; its number of threads */
    const struct network *net;
    bool bf16; /* activations, their gradients, and the weights that products read are bf16; all
                  else is fp32 */
    dnnl_stream_t stream;
    struct cpu_step *steps;
    int n_steps;
    struct cpu_group *groups; /* cpu/tiles.c */
    int n_groups;
    /* cpu/memory_plan.c; [0]: the network's input, which is not in the arena */
    struct cpu_address *addresses;
    int n_addresses;
    size_t arena_bytes; /* of a run */
    int from,
        samples; /* the tile under way; while a step is prepared: how many samples it will have */
    struct cpu_value *values;    /* [0]: the network's input; then at most one per layer */
    struct cpu_value **of_layer; /* [n_layers] */
    struct cpu_value *output;    /* what the loss reads */
    void *padded; /* [batch][input], for minibatches that do not fill the program, or are rounded;
                     here and below of the run's arena */
    /* read and written by the loss: the output, or its copy in fp32 */
    struct cpu_value head_fp32;
    void *scratch; /* working memory, shared by all steps */
    size_t scratch_bytes;
    void *gathered; /* floats, for cpu_op.gather */
    size_t gathered_floats;
    struct cpu_chunk *chunks; /* owns all memory from cpu_alloc() */
};

/* A minibatch on all threads (cpu/team.c): divided among programs that each run on one thread, or
 * given to one program. */
struct cpu_member {
    struct cpu_program *program;
    struct dev_replica replica; /* the program's */
    float *grads;               /* its own, or NULL: the replica's */
    size_t at;                  /* byte of the arena where its part starts */
};
struct cpu_team {
    struct dev_program_head head;
    struct cpu_device *dev;
    struct cpu_member *members; /* [n] */
    int n;
    int *bucket_layer;  /* [n_buckets] the layer after whose backward pass each bucket is
                           complete */
    size_t arena_bytes; /* of a run */
};

/* NULL: this device lacks it (cpu/graph.c). */
const struct cpu_op *cpu_op_of(int layer_type);
/* Fills steps, values, of_layer and output (cpu/graph.c), whose arrays exist. Returns the number of
 * values. */
int cpu_graph_build(struct cpu_program *p, struct err *e);
/* Puts steps into groups (cpu/tiles.c); p->groups is allocated. */
void cpu_tiles(struct cpu_program *p);
/* The group in which step i runs. */
const struct cpu_group *cpu_group_of(const struct cpu_program *p, int i, bool backward);
/* Gives every value and gradient its offset in the arena (cpu/memory_plan.c); p->addresses is
 * allocated. */
int cpu_plan_memory(struct cpu_program *p, struct err *e);
/* Reserves `bytes` of the arena; *at points there during a run. They are not initialised. */
void cpu_plan_buffer(struct cpu_program *p, void **at, size_t bytes);
/* From here on, values and gradients point to these samples. */
void cpu_move(struct cpu_program *p, int from, int samples);
/* cpu/arena.c. `prepare`: a run will need this many bytes. False, NULL: memory ran out. */
int cpu_arenas_init(struct cpu_arenas *a);
void cpu_arenas_release(struct cpu_arenas *a);
bool cpu_arenas_prepare(struct cpu_arenas *a, size_t bytes);
struct cpu_arena *cpu_arena_take(struct cpu_arenas *a, size_t bytes);
void cpu_arena_return(struct cpu_arenas *a, struct cpu_arena *one);
/* Uses large pages for a large block if the kernel has them: with small pages a step takes up to a
 * tenth longer. The memory is not cleared; free it with free(). */
void *cpu_aligned(size_t bytes);

/* cpu/operands.c: what an operator gets from its program. */
/* Zeroed floats aligned to 64 bytes, freed with the program. NULL with an error if memory ran
 * out. */
float *cpu_alloc(struct cpu_program *p, size_t floats, struct err *e);
/* Call it while a step is prepared: the step will need this much of p->scratch. */
void cpu_scratch(struct cpu_program *p, size_t bytes);
/* The flat block's range of a step's tensor (0: weight, 1: bias). */
float *cpu_param(struct cpu_program *p, const struct cpu_step *s, int tensor);
float *cpu_param_grad(struct cpu_program *p, const struct cpu_step *s, int tensor);
/* How many samples of the current tile are in the minibatch: 0 to p->samples. */
int cpu_present(const struct cpu_program *p, const struct dev_input *in);
/* Frees all memory from cpu_alloc(). */
void cpu_free_chunks(struct cpu_program *p);

/* The loss (cpu/loss.c) of p->head_fp32. Adds to the sums in `out`. In training, writes its part of
 * the gradient of the mean over in->count samples, and zero for samples past the end. */
int cpu_loss(const struct cpu_program *p, const struct dev_input *in, struct dev_result *out,
             struct err *e);
int cpu_update_part(struct dev_replica *r, size_t first, size_t n, double lr, double scale,
                    bool last, struct err *e);

/* cpu/program.c: the program for `batch` samples starting at `first`, on this many threads. */
struct cpu_program *cpu_program_new(struct dev_replica *r, const struct cpu_program *lead,
                                    int first, int batch, int threads, struct err *e);
void cpu_program_free(struct cpu_program *p);
/* A run: binds its arena and input, then runs groups forward, the loss, groups backward. */
void cpu_program_bind(struct cpu_program *p, char *memory, const struct dev_input *in);
int cpu_program_group(struct cpu_program *p, int group, const struct dev_input *in, bool backward,
                      struct err *e);
int cpu_program_loss(struct cpu_program *p, const struct dev_input *in, struct dev_result *out,
                     float *logits, struct err *e);

struct dev_program *cpu_team_new(struct dev_replica *r, int batch, size_t bucket_bytes,
                                 struct err *e);
void cpu_team_free(struct dev_program *program);
int cpu_team_compute(struct dev_program *program, const struct dev_input *in,
                     struct dev_result *out, float *logits, dev_mark_fn *mark, void *ctx,
                     struct err *e);

extern const struct device_ops cpu_device_ops;
extern const struct cpu_op cpu_conv, cpu_dense, cpu_max_pool, cpu_average_pool, cpu_global_pool,
    cpu_batch_norm, cpu_lrn, cpu_relu, cpu_leaky, cpu_tanh, cpu_sigmoid, cpu_dropout, cpu_flatten,
    cpu_add, cpu_concat;

#endif
