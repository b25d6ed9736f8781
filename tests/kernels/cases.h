/* What every device must compute alike: layers at odd sizes, strides and paddings, each between a
 * convolution and a dense layer, so that its outputs, its own gradients and the gradient of its
 * input are checked. tests/kernels compares the CPU with finite differences on them, tests/cuda the
 * CUDA device with the CPU; cases that only one of the two needs (rows of hundreds of channels,
 * cuts of a minibatch) are in its test.
 */
#ifndef TESTS_KERNELS_CASES_H
#define TESTS_KERNELS_CASES_H

#include <stdio.h>

/* The layers under test, and how many samples the CPU is held to finite differences with. Lists end
 * with {0}. */
struct layer_case {
    const char *layers;
    int batch;
};

static const struct layer_case convolution_cases[] = {
    /* what follows "type" */
    {"\"filters\": 7, \"kernel\": 3", 3},
    {"\"filters\": 1, \"kernel\": 1", 3},
    {"\"filters\": 8, \"kernel\": [5, 2], \"padding\": [2, 1]", 3},
    {"\"filters\": 16, \"kernel\": 3, \"stride\": 2, \"padding\": 1", 3},
    {"\"filters\": 17, \"kernel\": [1, 3], \"stride\": [3, 2], \"padding\": [0, 2]", 3},
    {"\"filters\": 5, \"kernel\": [11, 9]", 3},
    {"\"filters\": 4, \"kernel\": 2, \"stride\": 3", 3},
    {0},
};

static const struct layer_case dense_cases[] = {
    {"{\"type\": \"dense\", \"units\": 1}", 3},
    {"{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 13, \"bias\": false}", 3},
    {"{\"type\": \"dense\", \"units\": 33}, {\"type\": \"relu\"}, "
     "{\"type\": \"dense\", \"units\": 7}",
     1},
    {0},
};

static const struct layer_case max_pool_cases[] = {
    {"{\"type\": \"max_pool\", \"size\": 2}", 3},
    {"{\"type\": \"max_pool\", \"size\": 3, \"stride\": 2}", 3},
    {"{\"type\": \"max_pool\", \"size\": [2, 3], \"stride\": [1, 2], \"padding\": [1, 1]}", 3},
    {"{\"type\": \"max_pool\", \"size\": [11, 9]}", 3},
    {"{\"type\": \"relu\"}, {\"type\": \"max_pool\", \"size\": 3, \"stride\": 1, \"padding\": 1}",
     3},
    {0},
};

static const struct layer_case average_pool_cases[] = {
    {"{\"type\": \"average_pool\", \"size\": 2}", 3},
    {"{\"type\": \"average_pool\", \"size\": 3, \"stride\": 2, \"padding\": 1}", 3},
    {"{\"type\": \"average_pool\", \"size\": [4, 3], \"stride\": [3, 1], \"padding\": [2, 0]}", 3},
    {"{\"type\": \"global_average_pool\"}", 3},
    {"{\"type\": \"relu\"}, {\"type\": \"global_average_pool\"}, {\"type\": \"relu\"}", 3},
    {0},
};

static const struct layer_case pointwise_cases[] = {
    {"{\"type\": \"relu\"}", 3},
    {"{\"type\": \"relu\"}, {\"type\": \"relu\"}", 3},
    {"{\"type\": \"dropout\"}", 3},
    {"{\"type\": \"dropout\", \"rate\": 0.1}, {\"type\": \"relu\"}", 3},
    {"{\"type\": \"dropout\", \"rate\": 0}", 3},
    {"{\"type\": \"flatten\"}, {\"type\": \"relu\"}, {\"type\": \"dropout\", \"rate\": 0.7}", 3},
    {"{\"type\": \"flatten\"}, {\"type\": \"flatten\"}, {\"type\": \"dropout\"}, "
     "{\"type\": \"dense\", \"units\": 6}",
     3},
    {"{\"type\": \"max_pool\", \"size\": 3}, {\"type\": \"relu\"}", 3},
    {0},
};

static const struct layer_case activation_cases[] = {
    {"{\"type\": \"leaky_relu\"}", 3},
    {"{\"type\": \"leaky_relu\", \"slope\": 0.3}, {\"type\": \"tanh\"}", 3},
    {"{\"type\": \"leaky_relu\", \"slope\": 0}", 3},
    {"{\"type\": \"flatten\"}, {\"type\": \"sigmoid\"}, {\"type\": \"dense\", \"units\": 7}, "
     "{\"type\": \"tanh\"}",
     3},
    {"{\"type\": \"sigmoid\"}, {\"type\": \"max_pool\", \"size\": 2}", 3},
    {0},
};

static const struct layer_case lrn_cases[] = {
    {"{\"type\": \"lrn\", \"alpha\": 0.5}", 3},
    {"{\"type\": \"lrn\", \"window\": 4, \"alpha\": 0.7, \"beta\": 0.6, \"k\": 2}", 3},
    {"{\"type\": \"lrn\", \"window\": 1, \"alpha\": 0.2}", 1},
    {"{\"type\": \"lrn\", \"window\": 20, \"alpha\": 3}, {\"type\": \"relu\"}, "
     "{\"type\": \"lrn\", \"window\": 9, \"alpha\": 1}",
     2},
    {0},
};

static const struct layer_case batch_norm_cases[] = {
    {"{\"type\": \"batch_norm\"}", 3},
    {"{\"type\": \"batch_norm\", \"eps\": 0.1}, {\"type\": \"relu\"}", 3},
    {"{\"type\": \"relu\"}, {\"type\": \"batch_norm\"}, {\"type\": \"leaky_relu\"}", 2},
    {"{\"type\": \"flatten\"}, {\"type\": \"batch_norm\"}, {\"type\": \"relu\"}", 5},
    {"{\"type\": \"dense\", \"units\": 9}, {\"type\": \"batch_norm\"}, {\"type\": \"tanh\"}", 6},
    {0},
};

static const struct layer_case graph_cases[] = {
    {"{\"type\": \"conv2d\", \"name\": \"a\", \"filters\": 6, \"kernel\": 3, \"padding\": 1}, "
     "{\"type\": \"add\", \"inputs\": [\"a\", \"first\"]}",
     3},
    {"{\"type\": \"relu\", \"name\": \"r\"}, {\"type\": \"add\", \"inputs\": [\"r\", \"r\", "
     "\"first\"]}, {\"type\": \"relu\"}",
     3},
    {"{\"type\": \"conv2d\", \"name\": \"a\", \"filters\": 3, \"kernel\": 1}, "
     "{\"type\": \"tanh\", \"name\": \"t\", \"inputs\": [\"first\"]},"
     "{\"type\": \"concat\", \"inputs\": [\"t\", \"a\", \"input\", \"first\"]}, "
     "{\"type\": \"leaky_relu\"}",
     3},
    {"{\"type\": \"concat\", \"inputs\": [\"first\", \"first\"]}, "
     "{\"type\": \"max_pool\", \"size\": 2}",
     3},
    /* vectors that were images count channel, row, column when they are joined with others */
    {"{\"type\": \"flatten\", \"name\": \"f\"}, {\"type\": \"dense\", \"name\": \"d\", "
     "\"units\": 4},"
     "{\"type\": \"concat\", \"inputs\": [\"d\", \"f\"]}",
     3},
    {"{\"type\": \"flatten\", \"name\": \"f\"}, {\"type\": \"relu\", \"name\": \"r\"}, "
     "{\"type\": \"dense\", \"name\": \"d\", \"units\": 594},"
     "{\"type\": \"add\", \"inputs\": [\"d\", \"r\"]}",
     3},
    /* and are joined as vectors too where the image has one channel, so that flattening it moves
       nothing */
    {"{\"type\": \"conv2d\", \"filters\": 1, \"kernel\": 3}, "
     "{\"type\": \"flatten\", \"name\": \"f\"}, {\"type\": \"tanh\", \"name\": \"t\"},"
     "{\"type\": \"concat\", \"inputs\": [\"f\", \"t\"]}",
     3},
    {0},
};

/* Sums of a batch norm with another value: with and without a relu behind it, in either order, of
 * what others read too, of its own input, of the network's input, and such that stay sums of their
 * own. */
static const struct layer_case norm_sum_cases[] = {
    {"{\"type\": \"conv2d\", \"filters\": 6, \"kernel\": 3, \"padding\": 1}, "
     "{\"type\": \"batch_norm\", \"name\": \"n\"},"
     "{\"type\": \"add\", \"inputs\": [\"n\", \"first\"]}, {\"type\": \"relu\"}",
     5},
    {"{\"type\": \"conv2d\", \"filters\": 6, \"kernel\": 3, \"padding\": 1}, "
     "{\"type\": \"batch_norm\", \"name\": \"n\"},"
     "{\"type\": \"add\", \"inputs\": [\"first\", \"n\"]}",
     5},
    {"{\"type\": \"batch_norm\", \"name\": \"n\"}, {\"type\": \"add\", \"inputs\": [\"n\", "
     "\"first\"]}, {\"type\": \"relu\"}",
     5},
    {"{\"type\": \"conv2d\", \"filters\": 3, \"kernel\": 1}, "
     "{\"type\": \"batch_norm\", \"name\": \"n\"},"
     "{\"type\": \"add\", \"inputs\": [\"n\", \"input\"]}, {\"type\": \"relu\"}",
     5},
    {"{\"type\": \"batch_norm\", \"name\": \"n\"}, {\"type\": \"add\", \"inputs\": [\"n\", "
     "\"n\"]}, {\"type\": \"relu\", \"name\": \"r\"},"
     "{\"type\": \"add\", \"inputs\": [\"r\", \"n\", \"first\"]}",
     5},
    {"{\"type\": \"batch_norm\", \"name\": \"n\"}, {\"type\": \"relu\", \"name\": \"r\"}, "
     "{\"type\": \"add\", \"inputs\": [\"r\", \"first\"]},"
     "{\"type\": \"batch_norm\", \"name\": \"m\"}, {\"type\": \"add\", \"inputs\": [\"m\", "
     "\"r\"]}, {\"type\": \"relu\"}",
     5},
    {"{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 1, \"stride\": 2, \"name\": \"c\"}, "
     "{\"type\": \"batch_norm\", \"name\": \"n\"},"
     "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3, \"padding\": 1, \"stride\": 2, "
     "\"inputs\": [\"first\"]}, {\"type\": \"batch_norm\", \"name\": \"m\"},"
     "{\"type\": \"add\", \"inputs\": [\"n\", \"m\"]}, {\"type\": \"relu\"}",
     5},
    {0},
};

/* A network with every kind of layer that acts on one sample alone; two of them drop. */
static const char sample_wise_net[] =
    "{\"input\": [9, 7, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, \"kernel\": 3, "
    "\"padding\": 1}, {\"type\": \"relu\"},"
    "{\"type\": \"dropout\", \"rate\": 0.3}, {\"type\": \"max_pool\", \"size\": 2}, "
    "{\"type\": \"flatten\"}, {\"type\": \"dropout\"},"
    "{\"type\": \"dense\", \"units\": 11}, {\"type\": \"relu\"}, "
    "{\"type\": \"dense\", \"units\": 4}]}";

enum { BETWEEN_BYTES = 1024 };

/* The network of layers under test, behind a convolution and before a dense layer. */
static inline const char *case_between(char out[BETWEEN_BYTES], const char *layers)
{
    snprintf(out, BETWEEN_BYTES,
             "{\"input\": [11, 9, 3], \"layers\": [{\"type\": \"conv2d\", \"name\": \"first\", "
             "\"filters\": 6, \"kernel\": 3, \"padding\": 1},"
             "%s, {\"type\": \"dense\", \"units\": 5}]}",
             layers);
    return out;
}

#endif
