/* Parses a job spec: see spec.h and docs/catalog.md.
 *
 *   JSON ─► keys of the top level (rows below)
 *        ─► sections (parts.c), network (network.c), cluster (cluster.c)
 *        ─► checks over several keys, only where each of them was read without a report
 *        ─► spec->json: the spec with every default written out, which parses to the same again
 *
 * Nothing stops at the first mistake, so every reader must leave the struct in a state that the
 * next one can bear. */
#include "job/spec/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/spec/cluster.h"
#include "job/spec/parts.h"
#include "job/tags.h"

const struct catalog_param spec_top_params[] = {
    {"workers", PARAM_INT, 0, 1, 1, SPEC_WORKERS, NULL, NULL, "nodes to train on"},
    {"min_workers", PARAM_INT, 0, 1, 1, SPEC_WORKERS, NULL, NULL,
     "fewest nodes with which a restart continues"},
    {"epochs", PARAM_INT, 0, 1, 1, SPEC_EPOCHS_MOST, NULL, NULL, "passes over the training set"},
    {"seed", PARAM_INT, 0, 1, 0, 9007199254740992.0, NULL, NULL, "of everything random"},
    {"priority", PARAM_INT, 0, 0, -SPEC_PRIORITY, SPEC_PRIORITY, NULL, NULL,
     "higher is scheduled first"},
    {"max_restarts", PARAM_INT, 0, 3, 0, 1000, NULL, NULL, "attempts after the first"},
    {"max_seconds", PARAM_REAL, 0, 0, 0, 1e9, NULL, NULL,
     "the job stops after this time; 0: never"},
    {"max_wall_seconds", PARAM_REAL, 0, 0, 0, 1e9, NULL, NULL,
     "it has failed so long after its first start by the wall clock, whatever it did meanwhile: "
     "trained, waited for a restart or for nodes, was paused; 0: never"},
    {"precision", PARAM_ENUM, 0, 0, 0, 0, "fp32|tf32|bf16", "fp32",
     "arithmetic of the operations; tf32 needs GPUs, bf16 GPUs or CPUs with avx512_bf16; both keep "
     "weights and sums in fp32"},
    {.name = NULL},
};

const struct catalog_param spec_evaluate_params[] = {
    {"every_epochs", PARAM_REAL, 0, 0, 0.001, 1e6, NULL, NULL,
     "epochs from one evaluation to the next"},
    {"every_steps", PARAM_INT, 0, 0, 1, 1e12, NULL, NULL, "steps from one evaluation to the next"},
    {.name = NULL},
};

const struct catalog_param spec_checkpoint_params[] = {
    {"every_seconds", PARAM_REAL, 0, 30, 0.1, 1e9, NULL, NULL,
     "seconds from one checkpoint to the next"},
    {"every_steps", PARAM_INT, 0, 0, 1, 1e12, NULL, NULL, "steps from one checkpoint to the next"},
    {.name = NULL},
};

const struct catalog_param spec_keep_param = {
    "keep", PARAM_INT, 0, 2, 1, 1000, NULL, NULL, "newest checkpoints that are kept"};
const struct catalog_param spec_accuracy_param = {"test_accuracy",
                                                  PARAM_REAL,
                                                  1,
                                                  0,
                                                  0.0001,
                                                  1,
                                                  NULL,
                                                  NULL,
                                                  "the job ends when an evaluation reaches it"};

const struct catalog_param spec_exchange_params[] = {
    {"allreduce", PARAM_ENUM, 0, 0, 0, 0, "ring|mpi", "ring", "our ring, or MPI's own all-reduce"},
    {"bucket_bytes", PARAM_INT, 0, 1 << 20, 4096, 1 << 30, NULL, NULL,
     "gradients that are exchanged together"},
    {.name = NULL},
};

/* Reads one of two ways to say when. If neither is given, the first row's default holds. */
static void read_every(struct fields *in, const struct catalog_param *rows, double fallback,
                       double *first, int64_t *steps)
{
    const json_t *a = fields_get(in, rows[0].name), *b = fields_get(in, rows[1].name);
    if (a != NULL && b != NULL) {
        fields_problem(in, rows[1].name, "'%s' and '%s' exclude each other", rows[0].name,
                       rows[1].name);
        return;
    }
    if (b != NULL) {
        *first = 0;
        if (fields_param(in, &rows[1])) {
            *steps = fields_int(in->full, rows[1].name);
        }
        return;
    }
    *first = fallback;
    if (a == NULL) {
        json_object_set_new(in->full, rows[0].name, json_real(fallback));
    } else if (fields_param(in, &rows[0])) {
        *first = fields_real(in->full, rows[0].name);
    }
}

static void read_when(struct jobspec *spec, struct fields *f)
{
    struct fields in;
    spec->evaluate_every_epochs = 1; /* a program evaluates at the end of each epoch */
    if (!spec->program.given) {
        spec_open(&in, f, "evaluate", false);
        read_every(&in, spec_evaluate_params, 1, &spec->evaluate_every_epochs,
                   &spec->evaluate_every_steps);
        fields_close(&in);
    }
    spec_open(&in, f, "checkpoint", false);
    read_every(&in, spec_checkpoint_params, 30, &spec->checkpoint_every_seconds,
               &spec->checkpoint_every_steps);
    fields_param(&in, &spec_keep_param);
    fields_close(&in);
    spec->checkpoint_keep = (int)fields_int(in.full, "keep");
    if (fields_get(f, "target") != NULL) {
        spec_open(&in, f, "target", false);
        fields_param(&in, &spec_accuracy_param);
        fields_close(&in);
        spec->target_accuracy = fields_real(in.full, "test_accuracy");
    }
}

static void read_exchange(struct jobspec *spec, struct fields *f)
{
    struct fields in;
    spec_open(&in, f, "exchange", false);
    fields_params(&in, spec_exchange_params);
    fields_close(&in);
    const char *allreduce = json_string_value(json_object_get(in.full, "allreduce"));
    snprintf(spec->allreduce, sizeof spec->allreduce, "%s", allreduce ? allreduce : "ring");
    spec->bucket_bytes = (size_t)fields_int(in.full, "bucket_bytes");
}

static void read_nodes(struct jobspec *spec, struct fields *f)
{
    static const struct catalog_param param = {
        "nodes", PARAM_NAMES, 0, 0, 0, 0, NULL, NULL, "names or labels to run on"};
    if (!fields_param(f, &param)) {
        return;
    }
    const json_t *nodes = json_object_get(f->full, "nodes");
    size_t i;
    json_t *node;
    if (json_array_size(nodes) > 64) {
        fields_problem(f, "nodes", "'nodes' has %zu names, more than 64", json_array_size(nodes));
        return;
    }
    json_array_foreach((json_t *)nodes, i, node) {
        if (json_string_length(node) == 0 || json_string_length(node) >= sizeof spec->nodes[0]) {
            fields_problem(f, "nodes", "a name of a node must be text of 1 to 63 bytes");
            return;
        }
        snprintf(spec->nodes[spec->n_nodes++], sizeof spec->nodes[0], "%s",
                 json_string_value(node));
    }
}

/* A program's own loop decides the number of epochs, unless the job does. The key stays out of the
 * full spec, so that its readers know this too. */
static void leave_epochs_open(struct jobspec *spec, struct fields *f)
{
    spec->epochs_open = fields_get(f, "epochs") == NULL;
    if (spec->epochs_open) {
        json_object_del(f->full, "epochs");
    }
}

/* Reads the virtual cluster. Returns its number of nodes; 0: there is none, or it has a mistake. */
static int read_cluster(struct jobspec *spec, struct fields *f)
{
    const json_t *given = fields_get(f, "cluster");
    char at[FIELDS_POINTER];
    struct cluster *c = given != NULL ? malloc(sizeof *c) : NULL;
    int n = 0;
    if (c == NULL) {
        return 0;
    }
    if (cluster_parse(c, given, jsonx_join(at, sizeof at, f->pointer, "cluster"), f->problems) ==
        0) {
        n = c->n_nodes;
    }
    free(c);
    spec->cluster = json_deep_copy(given);
    json_object_set(f->full, "cluster", spec->cluster);
    return n;
}

static void read_model(struct jobspec *spec, struct fields *f)
{
    char at[FIELDS_POINTER];
    const json_t *model = fields_need(f, "model");
    if (model != NULL &&
        network_build(&spec->network, model, jsonx_join(at, sizeof at, f->pointer, "model"),
                      f->problems) == 0) {
        json_object_set_new(f->full, "model", json_deep_copy(model));
    }
}

/* Reads the tags, which stay out of the full spec if they were not given. */
static void read_tags(struct fields *f)
{
    char at[FIELDS_POINTER];
    const json_t *tags = fields_get(f, "tags"), *note = fields_get(f, "note");
    if (tags && tags_check(tags, jsonx_join(at, sizeof at, f->pointer, "tags"), f->problems)) {
        json_object_set_new(f->full, "tags", json_deep_copy(tags));
    }
    if (note && note_check(note, jsonx_join(at, sizeof at, f->pointer, "note"), f->problems)) {
        json_object_set_new(f->full, "note", json_deep_copy(note));
    }
}

static void read_top(struct jobspec *spec, struct fields *f)
{
    const char *name = fields_name(f, "name", false, SPEC_NAME);
    snprintf(spec->name, sizeof spec->name, "%s", name ? name : "unnamed");
    json_object_set_new(f->full, "name", json_string(spec->name));
    read_tags(f);
    spec_read_init(spec, f);
    fields_params(f, spec_top_params);
    spec->workers = (int)fields_int(f->full, "workers");
    spec->min_workers = (int)fields_int(f->full, "min_workers");
    spec->epochs = (double)fields_int(f->full, "epochs");
    spec->seed = (uint64_t)fields_int(f->full, "seed");
    spec->priority = (int)fields_int(f->full, "priority");
    spec->max_restarts = (int)fields_int(f->full, "max_restarts");
    spec->max_seconds = fields_real(f->full, "max_seconds");
    spec->max_wall_seconds = fields_real(f->full, "max_wall_seconds");
    const char *precision = json_string_value(json_object_get(f->full, "precision"));
    snprintf(spec->precision, sizeof spec->precision, "%s", precision ? precision : "fp32");
    spec_read_elastic(spec, f);
}

/* Checks rules over several keys. `nodes`: of the virtual cluster; 0: none. */
static void check_together(struct jobspec *spec, int nodes, struct fields *f)
{
    if (nodes > 0 && json_object_get(f->given, "workers") == NULL) {
        spec->workers = nodes;
        json_object_set_new(f->full, "workers", json_integer(nodes));
    }
    if (nodes > 0 && spec->workers > nodes) {
        fields_problem(f, "workers", "%d workers are more than the %d nodes of the cluster",
                       spec->workers, nodes);
    }
    if (nodes > 0 && strcmp(spec->precision, "fp32") != 0) {
        fields_problem(f, "precision", "the simulator computes in 'fp32' only, not in '%s'",
                       spec->precision);
    }
    if (spec->target_accuracy > 0 && spec->network.loss == LOSS_MSE) {
        fields_problem(f, "target",
                       "a network with the loss 'mse' predicts numbers, which have no accuracy");
    }
    if (spec->workers > 0 && spec->min_workers > spec->workers) {
        fields_problem(f, "min_workers", "'min_workers' %d is more than 'workers' %d",
                       spec->min_workers, spec->workers);
    }
    if (spec->strategy.type != 0 ||
        json_object_get(json_object_get(f->full, "strategy"), "type") != NULL) {
        spec_check_strategy(spec, f->problems);
    }
    if (spec->workers > 0 && (spec->batching.global_batch > 0 || spec->program.given) &&
        spec->batching.n_sizes >= 0 && spec->batching.n_weights >= 0) {
        spec_check_batching(spec, f->problems);
    }
    if (spec->data.format == CAT_FORMAT_GLYPHS && spec->network.n_layers > 0 &&
        !spec->data.augment.crop && json_object_get(f->full, "data") != NULL &&
        spec->network.input.rank > 0 && shape_count(&spec->network.input) != 28 * 28) {
        fields_problem(f, "model",
                       "the network takes %zu numbers, but a sample of 'glyphs' has 784",
                       shape_count(&spec->network.input));
    }
}

int jobspec_parse(struct jobspec *spec, const json_t *json, struct jsonx_problems *problems)
{
    int before = problems->count + problems->dropped;
    struct fields f;
    memset(spec, 0, sizeof *spec);
    spec->json = json_object();
    fields_open(&f, json, spec->json, "", problems);
    f.place = spec_place;
    if (f.given == NULL) {
        if (json == NULL) {
            jsonx_problem(problems, "", "a job spec must be an object");
        }
        return -ERR_INVALID;
    }
    read_top(spec, &f);
    spec_read_program(spec, &f);
    if (!spec->program.given) {
        read_model(spec, &f);
        spec_read_data(&spec->data, &f);
        spec_read_augment(spec, &f);
        spec_read_optimizer(&spec->optimizer, &f);
    } else {
        leave_epochs_open(spec, &f);
        spec->optimizer.type = CAT_OPTIMIZER_SGD; /* until the program reports its own */
        spec->data.shuffle = true;
    }
    spec_read_strategy(&spec->strategy, &f);
    spec_read_batching(&spec->batching, spec->program.given, &f);
    read_when(spec, &f);
    read_exchange(spec, &f);
    read_nodes(spec, &f);
    int nodes = read_cluster(spec, &f);
    fields_close(&f);
    spec->optimizer.epochs = spec->epochs;
    check_together(spec, nodes, &f);
    if (problems->count + problems->dropped == before) {
        spec_check_elastic(spec, &f);
    }
    return problems->count + problems->dropped > before ? -ERR_INVALID : 0;
}

int jobspec_read(struct jobspec *spec, const json_t *json, struct err *e)
{
    struct jsonx_problems problems = {0};
    int rc = jobspec_parse(spec, json, &problems);
    if (rc < 0) {
        char first[JSONX_FIRST];
        rc = err_set(e, ERR_INVALID, "%s", jsonx_problems_first(&problems, first));
    }
    jsonx_problems_release(&problems);
    return rc;
}

void jobspec_release(struct jobspec *spec)
{
    network_release(&spec->network);
    json_decref(spec->cluster);
    json_decref(spec->json);
    memset(spec, 0, sizeof *spec);
}

double jobspec_rate(const struct optimizer_spec *o, double epoch)
{
    double rate = o->learning_rate;
    if (o->schedule == CAT_SCHEDULE_STEP) {
        for (int i = 0; i < o->n_at_epochs && epoch >= o->at_epochs[i]; i++) {
            rate *= o->factor;
        }
    } else if (o->schedule == CAT_SCHEDULE_COSINE && o->epochs > o->warmup_epochs) {
        double share = (epoch - o->warmup_epochs) / (o->epochs - o->warmup_epochs);
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        rate = o->floor + (rate - o->floor) * 0.5 * (1 + cos(M_PI * share));
    }
    return epoch < o->warmup_epochs ? rate * epoch / o->warmup_epochs : rate;
}
