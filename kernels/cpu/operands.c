/* What an operator gets from its program: memory, its layer's parameters, how many samples are in
 * use. See cpu.h. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

struct cpu_chunk {
    struct cpu_chunk *next;
    void *memory;
};

float *cpu_alloc(struct cpu_program *p, size_t floats, struct err *e)
{
    struct cpu_chunk *chunk = malloc(sizeof(*chunk));
    size_t bytes = ((floats ? floats : 1) * sizeof(float) + 63) / 64 * 64;
    void *memory = chunk ? cpu_aligned(bytes) : NULL;
    if (!memory) {
        free(chunk);
        err_set(e, ERR_MEMORY, "it does not fit into memory: %zu bytes more were not there", bytes);
        return NULL;
    }
    memset(memory, 0, bytes);
    chunk->memory = memory;
    chunk->next = p->chunks;
    p->chunks = chunk;
    return memory;
}

void cpu_free_chunks(struct cpu_program *p)
{
    while (p->chunks) {
        struct cpu_chunk *chunk = p->chunks;
        p->chunks = chunk->next;
        free(chunk->memory);
        free(chunk);
    }
}

void cpu_scratch(struct cpu_program *p, size_t bytes)
{
    p->scratch_bytes = bytes > p->scratch_bytes ? bytes : p->scratch_bytes;
}

float *cpu_param(struct cpu_program *p, const struct cpu_step *s, int tensor)
{
    return p->replica->host[DEV_PARAMS] + p->net->tensors[s->layer->first_tensor + tensor].first;
}

float *cpu_param_grad(struct cpu_program *p, const struct cpu_step *s, int tensor)
{
    return p->replica->host[DEV_GRADS] + p->net->tensors[s->layer->first_tensor + tensor].first;
}

int cpu_present(const struct cpu_program *p, const struct dev_input *in)
{
    int n = in->count - p->first - p->from;
    return n < 0 ? 0 : n < p->samples ? n : p->samples;
}
