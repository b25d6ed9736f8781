/* Memory of a virtual job: see memory.h. Each row is one block of floats that trainer, strategy or
 * server keeps for as long as the job runs:
 *
 *   on every node      parameters, gradients, optimizer state, running statistics,
 *                      decay mask (1 byte each), its minibatch
 *   by the strategy    the blocks that it names (worker/exchange/footprint.h)
 *   on every core      programs: kernels' copies of the weights, activations and their gradients
 *
 * It is an upper bound, a few percent above the real use, and counts no page twice: tests/simulator
 * compares it with what a run takes. */
#include "simulator/memory.h"

#include <stdio.h>
#include <string.h>

#include "kernels/device.h"
#include "simulator/pool.h"
#include "worker/exchange/footprint.h"
#include "worker/exchange/strategy.h"

static const double node_books = 64 << 10; /* stack, cursor, sizes, histogram */
static const double process = 64 << 20;    /* the program with its libraries */

struct counting {
    struct memory_need *out;
    double W, n, optim, stats; /* floats of a block */
};

static void add(struct counting *c, const char *name, double floats, double times)
{
    double bytes = floats * sizeof(float) * times;
    BUG_ON(c->out->n_rows == MEMORY_ROWS);
    if (bytes > 0) {
        c->out->rows[c->out->n_rows++] = (struct memory_row){name, bytes};
        c->out->bytes += bytes;
    }
}

/* Adds a block that every node has. */
static void add_nodes(struct counting *c, const char *name, double floats)
{
    add(c, name, floats, c->W);
    c->out->node_bytes += floats * sizeof(float);
}

/* Adds the strategy's blocks. */
static void add_strategy(struct counting *c, const struct jobspec *spec)
{
    struct footprint f;
    footprint_init(&f, spec);
    strategy_find(spec->strategy.type)->footprint(&f);
    for (int i = 0; i < f.n_blocks; i++) {
        const struct footprint_block *b = &f.blocks[i];
        add(c, b->name, b->floats, b->times);
        c->out->node_bytes += b->of_workers ? b->floats * sizeof(float) : 0;
    }
    c->out->rank_bytes += f.survivors * sizeof(float);
}

/* Kernels' copies of the weights, activations and gradients of one minibatch: what
 * dev_memory_needed() counts besides the node's blocks. */
static double program_bytes(const struct jobspec *spec, int batch)
{
    return 3.0 * (double)spec->network.n_params * sizeof(float) +
           2.0 * (double)network_activation_bytes(&spec->network) * batch + (1 << 20);
}

void memory_count(struct memory_need *out, const struct jobspec *spec, const int *sizes,
                  const struct dataset *data, int threads)
{
    const struct network *net = &spec->network;
    struct counting c = {.out = out,
                         .W = spec->workers,
                         .n = (double)net->n_params,
                         .stats = (double)net->n_stat_floats};
    int largest = 1;
    double samples = 0;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < spec->workers; i++) {
        largest = sizes[i] > largest ? sizes[i] : largest;
        samples += sizes[i];
    }
    /* every replica has the optimizer's state, wherever the update is made */
    c.optim = (double)dev_optim_floats(net, &spec->optimizer);
    add_nodes(&c, "parameters", c.n);
    add_nodes(&c, "gradients", c.n);
    add_nodes(&c, "optimizer state", c.optim);
    add_nodes(&c, "running statistics", c.stats);
    add_nodes(&c, "decay masks", c.n / sizeof(float));
    add(&c, "minibatches", (double)shape_count(&net->input), samples);
    out->node_bytes += (double)shape_count(&net->input) * sizeof(float) * largest;
    add_strategy(&c, spec);
    add(&c, "start and states to be written", c.n + c.optim + c.stats, 2);
    int kinds = spec->batching.policy == BATCH_DYNAMIC ? POOL_PROGRAMS : 2;
    add(&c, "programs", program_bytes(spec, largest) / sizeof(float), (double)threads * kinds);
    add(&c, "nodes' stacks and books", node_books / sizeof(float), c.W);
    add(&c, "the program itself", process / sizeof(float), 1);
    if (data) {
        double each = (double)shape_count(&data->input) * (data->x_bytes ? 1 : 4) + 4;
        add(&c, "the data set", each / sizeof(float),
            (double)(data->train.samples + data->test.samples));
    }
    out->node_bytes += node_books;
    double blocks =
        (2 * c.n + c.optim + c.stats) * sizeof(float); /* without what dev_memory_needed() counts as
                                                          well */
    out->rank_bytes +=
        out->node_bytes - blocks + (double)dev_memory_needed(net, &spec->optimizer, largest);
}

int memory_check(const struct memory_need *need, const struct jobspec *spec, double there,
                 struct err *e)
{
    static const double gib = 1024.0 * 1024.0 * 1024.0;
    char list[400] = "";
    size_t used = 0;
    if (need->bytes <= there) {
        return 0;
    }
    for (int i = 0; i < need->n_rows && used < sizeof list; i++) {
        const struct memory_row *r = &need->rows[i];
        if (r->bytes >= 0.01 * need->bytes) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s %.3g", used ? ", " : "",
                                     r->name, r->bytes / gib);
        }
    }
    return err_set(e, ERR_MEMORY,
                   "%d virtual nodes need %.3g GiB of memory, %.3g are free; in GiB: %s",
                   spec->workers, need->bytes / gib, there / gib, list);
}
