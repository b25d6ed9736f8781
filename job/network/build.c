/* What the functions that build layers share: see job/network/layers.h. */
#include "job/network/layers.h"

#include <stdio.h>
#include <string.h>

const char *layer_show_shape(char out[48], const struct shape *s)
{
    if (s->rank == 1) {
        snprintf(out, 48, "[%d]", s->dim[0]);
    } else {
        snprintf(out, 48, "[%d, %d, %d]", s->dim[0], s->dim[1], s->dim[2]);
    }
    return out;
}

bool layer_need_image(struct layer_work *w)
{
    char shown[48];
    if (w->layer->in.rank == 3) {
        return true;
    }
    jsonx_problem(w->problems, w->pointer,
                  "layer '%s' (%s) needs an input of height, width and channels and gets %s",
                  w->layer->name, catalog_get(w->layer->type)->name,
                  layer_show_shape(shown, &w->layer->in));
    return false;
}

void layer_add_tensor(struct layer_work *w, const char *name, int rank, const int64_t *dim,
                      int fan_in, int fan_out)
{
    struct network *net = w->net;
    struct tensor *t = &net->tensors[net->n_tensors++];
    *t = (struct tensor){.layer = (int)(w->layer - net->layers),
                         .rank = rank,
                         .first = net->n_params,
                         .count = 1,
                         .fan_in = fan_in,
                         .fan_out = fan_out,
                         .decay = true};
    snprintf(t->name, sizeof t->name, "%s.%s", w->layer->name, name);
    for (int i = 0; i < rank; i++) {
        t->dim[i] = dim[i];
        t->count *= (size_t)dim[i];
    }
    net->n_params += t->count;
    w->layer->n_tensors++;
}

void layer_add_stat(struct layer_work *w, const char *name, int count)
{
    struct network *net = w->net;
    struct tensor *t = &net->stats[net->n_stats++];
    *t = (struct tensor){.layer = (int)(w->layer - net->layers),
                         .rank = 1,
                         .dim = {count},
                         .first = net->n_stat_floats,
                         .count = (size_t)count};
    t->mean = strcmp(name, "running_var") == 0 ? net->n_stats - 1 : 0; /* the mean comes before its
                                                                          variance */
    snprintf(t->name, sizeof t->name, "%s.%s", w->layer->name, name);
    net->n_stat_floats += t->count;
    w->layer->n_stats++;
}
