/* A job spec as it comes by POST /api/v1/jobs: text, then the spec with its network. Of a valid one
 * is checked what others rely on: tensors stand one after the other and fill the block, the network
 * as layers builds the same network again, and the spec with its defaults filled in is as valid as
 * what was given. */
#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "job/spec/spec.h"

static void check_network(const struct network *net)
{
    static struct network again;
    struct jsonx_problems problems = {0};
    char hash[17], other[17];
    size_t end = 0;
    for (int i = 0; i < net->n_tensors; i++) {
        BUG_ON(net->tensors[i].first != end);
        end += net->tensors[i].count;
    }
    BUG_ON(end != net->n_params || network_activation_bytes(net) == 0 ||
           !isfinite(network_flops(net)));
    json_t *layers = network_json(net);
    memset(&again, 0, sizeof again);
    BUG_ON(network_build(&again, layers, "/model", &problems) < 0);
    network_hash(net, hash);
    network_hash(&again, other);
    BUG_ON(strcmp(hash, other) != 0 || again.n_params != net->n_params ||
           again.n_stat_floats != net->n_stat_floats);
    network_release(&again);
    jsonx_problems_release(&problems);
    json_decref(layers);
}

static void check_defaults(const struct jobspec *spec)
{
    static struct jobspec again;
    struct jsonx_problems problems = {0};
    memset(&again, 0, sizeof again);
    int rc = jobspec_parse(&again, spec->json, &problems);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", problems.items[0].pointer, problems.items[0].message);
    }
    BUG_ON(rc < 0 || !json_equal(spec->json, again.json));
    jsonx_problems_release(&problems);
    jobspec_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct jobspec spec;
    struct jsonx_problems problems = {0};
    json_t *j = fuzz_json(data, size);
    if (!j) {
        return 0;
    }
    memset(&spec, 0, sizeof spec);
    int rc = jobspec_parse(&spec, j, &problems);
    BUG_ON((rc < 0) != (problems.count > 0));
    if (rc >= 0) {
        BUG_ON(spec.workers < 1 || spec.batching.global_batch < 1);
        check_network(&spec.network);
        check_defaults(&spec);
        for (double epoch = 0; epoch <= spec.epochs && epoch < 4; epoch += 0.5) {
            double rate = jobspec_rate(&spec.optimizer, epoch);
            BUG_ON(!isfinite(rate) || rate < 0);
        }
    }
    json_t *told = jsonx_problems_json(&problems);
    json_decref(told);
    jsonx_problems_release(&problems);
    jobspec_release(&spec);
    json_decref(j);
    return 0;
}
