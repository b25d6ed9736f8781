/* Sizes that all strategies use: see footprint.h. */
#include "worker/exchange/footprint.h"

#include <string.h>

#include "common/err.h"
#include "kernels/device.h"
#include "worker/exchange/lockstep/steps/lockstep.h"

void footprint_init(struct footprint *f, const struct jobspec *spec)
{
    const struct network *net = &spec->network;
    double W = spec->workers, n = (double)net->n_params;
    memset(f, 0, sizeof *f);
    f->spec = spec;
    f->workers = W;
    f->params = n;
    f->optim = (double)dev_optim_floats(net, &spec->optimizer);
    f->stats = (double)net->n_stat_floats;
    f->words = (double)lockstep_words_of(spec->workers, false); /* a network's gradients */
    f->chunk = W > 1 ? n / W + 4096 : 0;
    f->summed = net->n_params;
}

static void add(struct footprint *f, struct footprint_block block)
{
    BUG_ON(f->n_blocks == FOOTPRINT_BLOCKS);
    f->blocks[f->n_blocks++] = block;
}

void footprint_add_workers(struct footprint *f, const char *name, double floats)
{
    add(f, (struct footprint_block){name, floats, f->workers, true});
}

void footprint_add(struct footprint *f, const char *name, double floats, double times)
{
    add(f, (struct footprint_block){name, floats, times, false});
}
