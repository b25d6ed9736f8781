/* Memory of a virtual job: see memory.h. Each row is one block of floats that trainer, strategy or
 * server keeps for as long as the job runs:
 *
 *   on every node      parameters, gradients, optimizer state, running statistics, decay mask (1 byte each), its minibatch
 *     sync             + the last bucket under way, a chunk of the ring
 *     averaging        + what is summed, a replica set aside for evaluations, a chunk of the ring (and of the group's)
 *     hpsgd            + the round's start, the round's sum, the sum under way, a chunk of the ring
 *   at the server      weights, gradient under way, weights set aside, rule state, group; and of every node the weights that it has
 *   on every core      programs: kernels' copies of the weights, activations and their gradients
 *
 * It is a bound, a few percent above what is used, and it counts no page twice. Who adds a block to
 * a strategy adds it here: tests/simulator compares the bound with what a run really takes. */
#include "simulator/memory.h"

#include <stdio.h>
#include <string.h>

#include "kernels/device.h"
#include "simulator/pool.h"

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

/* A block that every node has. */
static void add_nodes(struct counting *c, const char *name, double floats)
{
    add(c, name, floats, c->W);
    c->out->node_bytes += floats * sizeof(float);
}

static bool averages(const struct jobspec *spec)
{
    return spec->strategy.type == CAT_STRATEGY_LOCAL_SGD ||
           spec->strategy.type == CAT_STRATEGY_HIER_SGD;
}

static void count_lockstep(struct counting *c, const struct jobspec *spec)
{
    double words = 7 + 3 * c->W, chunk = c->W > 1 ? c->n / c->W + 4096 : 0;
    if (averages(spec)) {
        double all = c->n + c->optim + c->stats;
        add_nodes(c, "what is summed", all + words);
        add_nodes(c, "replicas set aside", c->n + c->stats);
        add_nodes(c, "chunks of rings",
                  2 * chunk + (spec->strategy.type == CAT_STRATEGY_HIER_SGD ? all / 2 : 0));
    } else if (spec->strategy.type == CAT_STRATEGY_HPSGD) {
        add_nodes(c, "rounds' starts and sums", 2 * c->n);
        add_nodes(c, "sums under way", c->n + 2 * c->stats + words);
        add_nodes(c, "chunks of rings", chunk);
    } else {
        add_nodes(c, "buckets under way", c->n + c->stats + words);
        add_nodes(c, "chunks of rings", 4 * chunk);
        add(c, "a ring's sum", c->n + c->stats + words, 1);
    }
}

static void count_server(struct counting *c, const struct jobspec *spec)
{
    const struct strategy_spec *s = &spec->strategy;
    bool own = s->type == CAT_STRATEGY_DC_ASGDK || s->type == CAT_STRATEGY_DDC_ASGD;
    double rule = (own || spec->optimizer.momentum > 0 ? 1 : 0) + (s->adaptive ? 1 : 0);
    add(c, "server: weights, gradient, evaluation", c->n, 3);
    add(c, "server: rule state and group", c->n, rule + 1);
    add(c, "server: what each node has", c->n + c->stats, c->W);
    if (s->servers > 1) {
        add(c, "server: states collected", c->n, 1 + rule);
    }
}

/* Kernels' copies of the weights, activations and gradients of one minibatch: what
 * dev_memory_needed counts beside the node's blocks. */
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
    bool server = jobspec_uses_server(spec);
    int largest = 1;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < spec->workers; i++) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    c.optim = (double)dev_optim_floats(
        net, &spec->optimizer); /* a replica has it wherever the update is made */
    add_nodes(&c, "parameters", c.n);
    add_nodes(&c, "gradients", c.n);
    add_nodes(&c, "optimizer state", c.optim);
    add_nodes(&c, "running statistics", c.stats);
    add_nodes(&c, "decay masks", c.n / sizeof(float));
    add(&c, "minibatches", (double)shape_count(&net->input), spec->batching.global_batch);
    out->node_bytes += (double)shape_count(&net->input) * sizeof(float) * largest;
    if (server) {
        count_server(&c, spec);
    } else {
        count_lockstep(&c, spec);
    }
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
        (2 * c.n + c.optim + c.stats) * sizeof(float); /* that dev_memory_needed counts as well */
    out->rank_bytes =
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
