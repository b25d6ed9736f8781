/* The CPU backend's own picture: a device, the programs it runs, and the table that every operator
 * fills.
 *
 * A device's program is a team (cpu/team.c): one program on all threads, or one for each thread and
 * its part of the minibatch. A program is an array of steps in the network's layer order; forward
 * goes up, backward down. Steps that form a group take turns on tiles, parts of the minibatch that
 * fit into the cache (cpu/tiles.c). A step owns what its operator prepared (oneDNN primitives,
 * masks); a value is one activation with its gradient. If several steps read a value, the first of
 * them in backward order writes its gradient, and the others write to spare memory that the program
 * adds; operators write to `in_grad` and need not know.
 *
 * Activations may be fp32 or bf16 (cpu/element.h). In the backward pass only those are valid that
 * an operator declares to read (cpu/memory_plan.c). A value's `data` and `grad` point to the
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

/* Compiles a hot loop for several instruction sets; the right one is chosen when the program is
 * loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

/* Of a loop over elements: its arrays may be the same one, but do not overlap otherwise. */
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
    int n, taken, most_taken; /* most_taken: at once, so far */
};

struct cpu_device {
    struct device base;
    int threads;
    struct cpu_arenas arenas;
    dnnl_engine_t engine;
    /* of replicas that are made from now on; a replica's `impl` is its own */
    const char *precision;
    char line[160];
};

struct cpu_value {
    struct shape shape; /* of one sample, as stored */
    size_t count;       /* elements of one sample */
    /* [samples][count] of the tile under way; the network's input borrows the caller's */
    void *data;
    void *grad;      /* [samples][count], or NULL where no parameter is before it */
    bool needs_grad; /* some parameter is before it */
    bool has_grad;   /* while building: a step that runs earlier in backward writes it already */
    struct cpu_step *maker;
    int again_before; /* the step before whose backward pass it is made again; -1: none */
};

struct cpu_program;
struct cpu_team;
struct cpu_step;

/* What of a step's activations its backward pass reads. */
enum cpu_reads {
    CPU_READS_IN = 1,
    CPU_READS_OUT = 2,
    CPU_READS_RELU = 4 /* the output, if a relu is a part of the step */
};

struct cpu_op {
    const char *name;
    /* works on p->samples samples, whichever they are; else on all of them at once */
    bool by_tiles;
    bool takes_relu;  /* a relu that follows can become a part of it (cpu_step.relu) */
    bool keeps_shape; /* the output is stored as the first input is, whatever the layer's shape
                         says */
    unsigned backward_reads; /* enum cpu_reads; what is not declared may be gone by then */
    /* Called once the step's inputs and output are known, before memory is there. */
    int (*prepare)(struct cpu_program *p, struct cpu_step *s, struct err *e);
    int (*forward)(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   struct err *e);
    /* Reads out->grad (may change it), writes each in_grad that is not NULL, and the step's range
     * of the flat block. */
    int (*backward)(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                    struct err *e);
    /* NULL, or: gathers from the current tile what `forward` (in training) or `backward` must know
     * about the whole minibatch. It runs on every tile of the previous group, so it reads inputs
     * and out->grad before the step itself runs; it may use p->gathered until then. */
    void (*gather)(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   bool backward);
    /* With `gather`: puts together what all programs of the team have gathered, before the step's
     * turn; forward without training, too. */
    void (*begin)(const struct cpu_team *team, int step, const struct dev_input *in, bool backward);
    /* NULL, or: writes the output of the last forward pass again, the same bits, from inputs that
     * the backward pass reads anyway. */
    void (*again)(struct cpu_program *p, struct cpu_step *s);
    void (*release)(struct cpu_step *s);
};

struct cpu_step {
    const struct cpu_op *op;
    const struct layer *layer;
    int index; /* of the layer in the network: the counter of random choices */
    int n_in;
    struct cpu_value *in[NET_INPUTS], *out;
    void **in_grad[NET_INPUTS]; /* where the input's gradient goes; NULL: it is not needed */
    bool adds[NET_INPUTS];      /* it goes to `spare`, and is added afterwards */
    void *spare[NET_INPUTS];
    bool relu;     /* a relu that follows is done here too */
    bool backward; /* takes part in the backward pass */
    void *state;   /* the operator's; freed by its release */
};

/* Steps that take turns on one tile after another. */
struct cpu_group {
    int first, end;  /* forward: steps first to end - 1; then step `end` gathers, if it belongs to
                        the group backward (top) */
    int top, bottom; /* backward: steps top down to bottom; then step bottom - 1 gathers, if it
                        belongs to the group forward */
    int samples;     /* of a tile: a divisor of the batch */
};

/* A pointer that is set anew for each run, whose arena it points into, and for each tile. */
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
    const struct cpu_program *lead; /* the first of its team; NULL: that is this one */
    int first, threads; /* this program's first sample in the minibatch; threads that run it */
    const struct network *net;
    bool bf16; /* activations, their gradients, and the weights that products read are bf16; all
                  else is fp32 */
    dnnl_stream_t stream;
    struct cpu_step *steps;
    int n_steps;
    struct cpu_group *groups; /* cpu/tiles.c */
    int n_groups;
    /* cpu/memory_plan.c; [0]: the network's input, which is no part of the arena */
    struct cpu_address *addresses;
    int n_addresses;
    size_t arena_bytes; /* that a run needs */
    int from,
        samples; /* the tile under way; while a step is prepared: how many samples it will have */
    struct cpu_value *values;    /* [0]: the network's input; then at most one per layer */
    struct cpu_value **of_layer; /* [n_layers] */
    struct cpu_value *output;    /* what the loss reads */
    void *padded; /* [batch][input], for minibatches that do not fill the program, or are rounded;
                     here and below of the run's arena */
    /* what the loss reads and writes: the output, or its copy in fp32 */
    struct cpu_value head_fp32;
    void *scratch; /* working memory, shared by all steps */
    size_t scratch_bytes;
    void *gathered; /* floats, for what is gathered (cpu_op.gather) */
    size_t gathered_floats;
    struct cpu_chunk *chunks; /* everything that cpu_alloc allocated */
};

/* A minibatch on all threads: shared out among programs, each of which runs on one of them, or one
 * program's (cpu/team.c). */
struct cpu_member {
    struct cpu_program *program;
    struct dev_replica replica; /* the program's */
    float *grads;               /* of its own, or NULL: the replica's */
    size_t at;                  /* byte of the arena where its part begins */
};
struct cpu_team {
    struct dev_program_head head;
    struct cpu_device *dev;
    struct cpu_member *members; /* [n] */
    int n;
    int *bucket_layer;  /* [n_buckets] the layer after whose backward pass each bucket is
                           complete */
    size_t arena_bytes; /* that a run needs */
};

/* NULL: this device has none (cpu/graph.c). */
const struct cpu_op *cpu_op_of(int layer_type);
/* Fills steps, values, of_layer and output (cpu/graph.c); their arrays are there. Returns the
 * number of values. */
int cpu_graph_build(struct cpu_program *p, struct err *e);
/* Puts steps into groups (cpu/tiles.c); p->groups is there. */
void cpu_tiles(struct cpu_program *p);
/* The group in which step i runs. */
const struct cpu_group *cpu_group_of(const struct cpu_program *p, int i, bool backward);
/* Gives every value and gradient its offset in the arena (cpu/memory_plan.c); p->addresses is
 * allocated. */
int cpu_plan_memory(struct cpu_program *p, struct err *e);
/* Reserves `bytes` of the arena, to which *at points during a run; they are not initialised. */
void cpu_plan_buffer(struct cpu_program *p, void **at, size_t bytes);
/* Values and gradients are those of these samples from here on. */
void cpu_move(struct cpu_program *p, int from, int samples);
/* cpu/arena.c. `prepare`: some run will need so many bytes. False, NULL: memory ran out. */
int cpu_arenas_init(struct cpu_arenas *a);
void cpu_arenas_release(struct cpu_arenas *a);
bool cpu_arenas_prepare(struct cpu_arenas *a, size_t bytes);
struct cpu_arena *cpu_arena_take(struct cpu_arenas *a, size_t bytes);
void cpu_arena_return(struct cpu_arenas *a, struct cpu_arena *one);
/* Uses large pages for a large block if the kernel has some: with small pages a step takes up to a
 * tenth longer. Not cleared; freed by free.
 */
void *cpu_aligned(size_t bytes);

/* cpu/operands.c: what an operator asks of its program. */
/* Zeroed floats aligned to 64 bytes, freed with the program. NULL: memory ran out, reported. */
float *cpu_alloc(struct cpu_program *p, size_t floats, struct err *e);
/* While a step is prepared: it will need so much of p->scratch. */
void cpu_scratch(struct cpu_program *p, size_t bytes);
/* The flat block's range of a step's tensor (0: weight, 1: bias). */
float *cpu_param(struct cpu_program *p, const struct cpu_step *s, int tensor);
float *cpu_param_grad(struct cpu_program *p, const struct cpu_step *s, int tensor);
/* How many samples of the current tile the minibatch really has: 0 to p->samples. */
int cpu_present(const struct cpu_program *p, const struct dev_input *in);
/* Everything that cpu_alloc() gave. */
void cpu_free_chunks(struct cpu_program *p);

/* Loss (cpu/loss.c) of p->head_fp32: adds to the sums in `out`, writes its part of the gradient of
 * the mean over in->count samples when training, zero for the samples beyond. */
int cpu_loss(const struct cpu_program *p, const struct dev_input *in, struct dev_result *out,
             struct err *e);
int cpu_update_part(struct dev_replica *r, size_t first, size_t n, double lr, double scale,
                    bool last, struct err *e);

/* cpu/program.c: the program of `batch` samples from `first` on, which so many threads run. */
struct cpu_program *cpu_program_new(struct dev_replica *r, const struct cpu_program *lead,
                                    int first, int batch, int threads, struct err *e);
void cpu_program_free(struct cpu_program *p);
/* A run: its arena and input, groups forward, the loss, groups backward. */
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
