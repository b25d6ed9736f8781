/* Reads the description of a program: see describe.h. Sizes come from another process, so each is
 * checked before it is multiplied or used as an index. */
#include "worker/program/child/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

enum { TENSORS_MOST = 1 << 20 };
static const int64_t floats_most = (int64_t)1 << 36;

static void copy_text(char *out, size_t bytes, const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    snprintf(out, bytes, "%s", text ? text : "");
}

/* A whole number of a range under a key; `fallback` if it is missing or null. */
static int read_whole(const json_t *j, const char *key, int64_t fallback, int64_t min, int64_t max,
                      int64_t *out, struct err *e)
{
    const json_t *v = json_object_get(j, key);
    *out = !v || json_is_null(v) ? fallback : json_integer_value(v);
    if ((v && !json_is_integer(v) && !json_is_null(v)) || *out < min || *out > max) {
        return err_set(e, ERR_PEER, "'%s' must be a whole number from %lld to %lld", key,
                       (long long)min, (long long)max);
    }
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Dimensions beyond NET_RANK are counted as one: an artifact's reader needs the floats and the
 * first axes. */
static int read_shape(struct tensor *t, const json_t *shape, struct err *e)
{
    size_t i;
    json_t *dim;
    int64_t count = 1;
    if (!json_is_array(shape)) {
        return err_set(e, ERR_PEER, "tensor '%s' has no shape", t->name);
    }
    json_array_foreach((json_t *)shape, i, dim) {
        int64_t n = json_is_integer(dim) ? json_integer_value(dim) : 0;
        if (n < 1 || n > floats_most / count) {
            return err_set(e, ERR_PEER, "dimension %zu of tensor '%s' cannot be %lld", i, t->name,
                           (long long)n);
        }
        count *= n;
        if (t->rank < NET_RANK) {
            t->dim[t->rank++] = n;
        } else {
            t->dim[NET_RANK - 1] *= n;
        }
    }
    if (t->rank == 0) { /* a scalar */
        t->dim[t->rank++] = 1;
    }
    t->count = (size_t)count;
    return 0;
}

static int read_tensor(struct tensor *t, const json_t *j, size_t index, size_t *floats,
                       struct err *e)
{
    const char *name = json_string_value(json_object_get(j, "name"));
    if (!name || !*name || strlen(name) >= sizeof(t->name)) {
        return err_set(e, ERR_PEER, "tensor %zu needs a name of 1 to %zu bytes, not '%.100s'",
                       index, sizeof(t->name) - 1, name ? name : "");
    }
    snprintf(t->name, sizeof(t->name), "%s", name);
    int rc = read_shape(t, json_object_get(j, "shape"), e);
    if (rc < 0) {
        return rc;
    }
    t->decay = !json_is_false(json_object_get(j, "decay"));
    t->first = *floats;
    *floats += t->count;
    return *floats > (size_t)floats_most
               ? err_set(e, ERR_PEER, "the tensors up to '%s' are more than %lld floats", t->name,
                         (long long)floats_most)
               : 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two tensors of one name could not be told apart in a checkpoint. */
static int check_names(const struct network *net, struct err *e)
{
    int n = net->n_tensors + net->n_stats, rc = 0;
    const char **names = malloc((size_t)n * sizeof(*names) + 1);
    if (!names) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    for (int i = 0; i < n; i++) {
        names[i] = i < net->n_tensors ? net->tensors[i].name : net->stats[i - net->n_tensors].name;
    }
    qsort(names, (size_t)n, sizeof(*names), compare_names);
    for (int i = 1; i < n && rc == 0; i++) {
        if (strcmp(names[i], names[i - 1]) == 0) {
            rc = err_set(e, ERR_PEER, "two tensors are named '%s'", names[i]);
        }
    }
    free(names);
    return rc;
}

static int read_tensors(const json_t *list, struct tensor **out, int *n, size_t *floats,
                        struct err *e)
{
    size_t i, count = json_array_size(list);
    json_t *each;
    if (count > TENSORS_MOST) {
        return err_set(e, ERR_PEER, "%zu tensors are too many", count);
    }
    *out = calloc(count + 1, sizeof(**out));
    if (!*out) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    json_array_foreach((json_t *)list, i, each) {
        int rc = read_tensor(&(*out)[(*n)++], each, i, floats, e);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* A variance names its mean, an entry before or after it of the same size. */
static int read_means(struct network *net, const json_t *list, struct err *e)
{
    for (int i = 0; i < net->n_stats; i++) {
        int64_t mean;
        struct tensor *t = &net->stats[i];
        int rc = read_whole(json_array_get(list, (size_t)i), "mean_of", -1, -1, net->n_stats - 1,
                            &mean, e);
        if (rc < 0) {
            return err_prefix(e, "statistic '%s'", t->name);
        }
        if (mean >= 0 && (mean == i || net->stats[mean].count != t->count)) {
            return err_set(e, ERR_PEER, "statistic '%s' cannot be the variance to the mean '%s'",
                           t->name, net->stats[mean].name);
        }
        t->mean = (int)mean + 1;
    }
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void read_optimizer(struct description *d, const json_t *j)
{
    struct optimizer_spec *o = &d->optimizer;
    const char *type = json_string_value(json_object_get(j, "type"));
    copy_text(d->optimizer_name, sizeof(d->optimizer_name), j, "name");
    d->plain = type && strcmp(type, "sgd") == 0;
    o->type = CAT_OPTIMIZER_SGD;
    o->schedule = CAT_SCHEDULE_CONSTANT;
    o->learning_rate = json_number_value(json_object_get(j, "learning_rate"));
    o->momentum = json_number_value(json_object_get(j, "momentum"));
    o->weight_decay = json_number_value(json_object_get(j, "weight_decay"));
    o->nesterov = json_is_true(json_object_get(j, "nesterov"));
    /* the server's velocity is plain, and a rate above 0 is what its rules are made for */
    d->stateless = d->plain && o->momentum == 0;
    d->plain = d->plain && !o->nesterov && o->learning_rate > 0;
}

static int read_counts(struct description *d, const json_t *j, struct err *e)
{
    int64_t batch, ahead, signal;
    int rc;
    if (json_is_null(json_object_get(j, "samples"))) {
        return err_set(e, ERR_UNSUPPORTED,
                       "its data is a stream without a known length, and an epoch needs one");
    }
    if ((rc = read_whole(j, "samples", 0, 1, INT64_C(1) << 50, &d->whole, e)) < 0 ||
        (rc = read_whole(j, "global_batch", 0, 1, 1 << 24, &batch, e)) < 0 ||
        (rc = read_whole(j, "ahead", 1, 0, INT32_MAX, &ahead, e)) < 0 ||
        (rc = read_whole(j, "stack_signal", 0, 0, 64, &signal, e)) < 0) {
        return rc;
    }
    d->samples =
        json_is_true(json_object_get(j, "drop_last")) ? d->whole - d->whole % batch : d->whole;
    if (d->samples == 0) {
        return err_set(e, ERR_INVALID,
                       "its loader drops the last batch, and %lld samples make none",
                       (long long)d->whole);
    }
    d->global_batch = (int)batch;
    d->ahead = ahead < 1 ? 1 : ahead > AHEAD_MOST ? AHEAD_MOST : (int)ahead;
    d->stack_signal = (int)signal;
    d->epochs = json_number_value(json_object_get(j, "epochs"));
    return 0;
}

static int read_network(struct network *net, const json_t *j, struct err *e)
{
    const json_t *params = json_object_get(j, "parameters"),
                 *stats = json_object_get(j, "statistics");
    int rc;
    if ((rc = read_tensors(params, &net->tensors, &net->n_tensors, &net->n_params, e)) < 0 ||
        (rc = read_tensors(stats, &net->stats, &net->n_stats, &net->n_stat_floats, e)) < 0 ||
        (rc = read_means(net, stats, e)) < 0) {
        return rc;
    }
    if (net->n_params == 0) {
        return err_set(e, ERR_PEER, "it has no parameters to train");
    }
    return check_names(net, e);
}

int description_read(struct description *d, const char *text, size_t n, struct err *e)
{
    memset(d, 0, sizeof(*d));
    json_t *j = jsonx_parse(text, n, e);
    int rc = j ? 0 : -ERR_PEER;
    if (rc == 0) {
        const char *reduction = json_string_value(json_object_get(j, "reduction"));
        copy_text(d->framework, sizeof(d->framework), j, "framework");
        d->shuffle = !json_is_false(json_object_get(j, "shuffle"));
        d->sums = reduction && strcmp(reduction, "sum") == 0;
        d->state = json_is_true(json_object_get(j, "state"));
        read_optimizer(d, json_object_get(j, "optimizer"));
        if ((rc = read_counts(d, j, e)) >= 0) {
            rc = read_network(&d->net, j, e);
        }
    }
    d->text = rc == 0 ? strndup(text, n) : NULL;
    json_decref(j);
    if (rc == 0 && !d->text) {
        rc = err_set(e, ERR_MEMORY, "memory ran out");
    }
    if (rc < 0) {
        description_release(d);
        return err_prefix(e, "the program's description cannot be used");
    }
    return 0;
}

void description_release(struct description *d)
{
    network_release(&d->net);
    free(d->text);
    memset(d, 0, sizeof(*d));
}

/* ---- against the others' --------------------------------------------------------------------- */

static int compare_tensors(const struct tensor *a, int n_a, const struct tensor *b, int n_b,
                           int rank, struct err *e)
{
    for (int i = 0; i < n_a && i < n_b; i++) {
        if (strcmp(a[i].name, b[i].name) != 0) {
            return err_set(e, ERR_PEER,
                           "the programs differ: tensor %d is '%s' in rank %d and '%s' in rank 0",
                           i, a[i].name, rank, b[i].name);
        }
        if (a[i].count != b[i].count || memcmp(a[i].dim, b[i].dim, sizeof(a[i].dim)) != 0 ||
            a[i].decay != b[i].decay || a[i].mean != b[i].mean) {
            return err_set(
                e, ERR_PEER,
                "the programs differ: tensor '%s' has %zu floats in rank %d and %zu in rank 0, or "
                "another shape or decay",
                a[i].name, a[i].count, rank, b[i].count);
        }
    }
    if (n_a != n_b) {
        const struct tensor *extra = n_a > n_b ? &a[n_b] : &b[n_a];
        return err_set(e, ERR_PEER, "the programs differ: tensor '%s' is in rank %d alone",
                       extra->name, n_a > n_b ? rank : 0);
    }
    return 0;
}

int description_compare(const struct description *mine, const struct description *first, int rank,
                        struct err *e)
{
    int rc;
    const struct network *a = &mine->net, *b = &first->net;
    if ((rc = compare_tensors(a->tensors, a->n_tensors, b->tensors, b->n_tensors, rank, e)) < 0 ||
        (rc = compare_tensors(a->stats, a->n_stats, b->stats, b->n_stats, rank, e)) < 0) {
        return rc;
    }
    if (mine->whole != first->whole || mine->samples != first->samples) {
        return err_set(e, ERR_PEER,
                       "the programs differ: rank %d has %lld training samples and rank 0 %lld",
                       rank, (long long)mine->whole, (long long)first->whole);
    }
    if (mine->global_batch != first->global_batch || mine->shuffle != first->shuffle ||
        mine->sums != first->sums || mine->epochs != first->epochs) {
        return err_set(
            e, ERR_PEER,
            "the programs differ: rank %d asks for a batch of %d and rank 0 for %d, or for another "
            "order, reduction or number of epochs",
            rank, mine->global_batch, first->global_batch);
    }
    if (mine->plain != first->plain || strcmp(mine->optimizer_name, first->optimizer_name) != 0 ||
        memcmp(&mine->optimizer, &first->optimizer, sizeof(mine->optimizer)) != 0) {
        return err_set(e, ERR_PEER,
                       "the programs differ: rank %d has the optimizer '%s' and rank 0 '%s', or "
                       "another rate, momentum or decay",
                       rank, mine->optimizer_name, first->optimizer_name);
    }
    return 0;
}

/* ---- into the spec --------------------------------------------------------------------------- */

static int apply_batch(const struct description *d, struct jobspec *spec, struct err *e)
{
    struct batching_spec *b = &spec->batching;
    struct jsonx_problems problems = {0};
    int rc = 0;
    if (b->global_batch > 0 && b->global_batch != d->global_batch) {
        err_set(e, ERR_INVALID,
                "the job has a global batch of %d, but the program's loader has a batch of %d",
                b->global_batch, d->global_batch);
        err_hint(e, "leave 'global_batch' out: the program's batch is the global one");
        return -ERR_INVALID;
    }
    b->global_batch = d->global_batch;
    spec_check_batching(spec, &problems);
    if (problems.count > 0) {
        rc = err_set(e, ERR_INVALID, "the program's batch does not fit the job: %s",
                     problems.items[0].message);
        err_hint(e, "the loader's 'batch_size' is what all nodes take together in a step");
    }
    jsonx_problems_release(&problems);
    return rc;
}

/* Can the strategy make its step of what the program gives? */
static int check_optimizer(const struct description *d, const struct strategy_ops *strategy,
                           struct err *e)
{
    const struct program_part *p = strategy->program;
    const char *name = catalog_get(strategy->id)->name;
    if (p->gradients_only && !d->plain) {
        return err_set(
            e, ERR_INVALID,
            "'%s' compensates gradients for their delay, but the program's optimizer%s%s steps "
            "by itself and pushes differences of parameters: train with one plain SGD, of one "
            "rate and without dampening, or take another strategy, such as 'asgd'",
            name, d->optimizer_name[0] ? " " : "", d->optimizer_name);
    }
    if (p->momentum == MOMENTUM_OWN && d->optimizer.momentum > 0) {
        return err_set(e, ERR_INVALID, "'%s' has a momentum of its own, and the program's is %g",
                       name, d->optimizer.momentum);
    }
    return 0;
}

int description_apply(struct description *d, struct jobspec *spec,
                      const struct strategy_ops *strategy, struct err *e)
{
    int rc;
    if ((rc = apply_batch(d, spec, e)) < 0 || (rc = check_optimizer(d, strategy, e)) < 0) {
        return rc;
    }
    if (strategy->program->momentum == MOMENTUM_NONE && d->optimizer.momentum > 0) {
        d->plain = false;
    }
    spec->optimizer = d->optimizer;
    if (!d->plain) { /* differences: its optimizer has done all of it */
        spec->optimizer.learning_rate = 1;
        spec->optimizer.momentum = spec->optimizer.weight_decay = 0;
        spec->optimizer.nesterov = false;
    }
    spec->epochs = d->epochs >= 1 ? d->epochs : spec->epochs;
    spec->optimizer.epochs = spec->epochs;
    spec->data.shuffle = d->shuffle;
    network_release(&spec->network);
    spec->network = d->net;
    memset(&d->net, 0, sizeof(d->net));
    return 0;
}
