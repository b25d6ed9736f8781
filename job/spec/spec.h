/* A job spec, parsed and checked. job/spec/ alone knows the keys of the JSON; docs/catalog.md lists
 * them for people. Everything here is pure: the users of a spec check whether files and nodes
 * exist.
 */
#ifndef JOB_SPEC_SPEC_H
#define JOB_SPEC_SPEC_H

#include "job/network/network.h"

enum {
    SPEC_NAME = 128,
    SPEC_PATH = 256,
    SPEC_WORKERS = 1024,
    SPEC_PRIORITY = 1000,
    SPEC_EPOCHS_AT = 64,
    SPEC_EPOCHS_MOST = 1000000
};

enum batching_policy { BATCH_EQUAL, BATCH_STATIC, BATCH_DYNAMIC };
enum weighting { WEIGHT_SAMPLE, WEIGHT_PLAIN };
enum scale { SCALE_GLOBAL, SCALE_PER_UPDATE };
enum softsync_rate { RATE_FIXED, RATE_N, RATE_TAU };
enum pull_mode { PULL_FREE, PULL_BLOCKING };

enum { STRATEGY_PARAMS = 16 };

struct strategy_spec {
    int type;                       /* CAT_STRATEGY_… */
    double values[STRATEGY_PARAMS]; /* values of its parameters in the catalogue's order, for
                                       strategy_param(). The fields below are parameters that are
                                       texts, or that several files read */
    enum weighting weighting;
    enum scale scale;
    int n; /* softsync, dbs-sgd; 0: c counts */
    enum softsync_rate rate;
    enum pull_mode pull;
    int c;          /* dbs-sgd: gradients of an update, unless n is given */
    int group_size; /* hier-sgd */
    int servers;    /* server ranks, numbered after the workers: at least 1, the keeper */
};

/* Random changes of a training sample's picture, drawn from (seed, epoch, index of the sample). */
struct augment_spec {
    double flip;      /* probability; 0: never */
    int shift;        /* pixels; 0: none */
    bool shift_edge;  /* pixels that come in repeat the edge; else they are zero */
    bool crop;        /* cuts a window; the next two fields count */
    int crop_size[2]; /* height, width: those of the network's input */
    int crop_padding;
};

struct data_spec {
    int format; /* CAT_FORMAT_… */
    char path[SPEC_PATH];
    int64_t samples, test_samples; /* glyphs */
    bool shuffle;
    bool normalize_unit; /* x/255; else mean and deviation below (n_normalize values each), or the
                            picture's own */
    int n_normalize;
    float mean[16], deviation[16];
    bool normalize_picture; /* each picture with its own mean and deviation taken out */
    bool coarse;            /* cifar-100: the 20 groups are the labels */
    int size[2];            /* images: height and width to which pictures are brought; 0: those of
                               the first (only in a list) */
    int channels;           /* images: 1 grey, 3 colour, as the network needs; 0: like the first */
    bool stretch;           /* images: stretches pictures; else the middle is cut out */
    int threads;            /* images: threads of a rank that decode */
    struct augment_spec augment;
    double validation; /* share split off, 0 */
};

struct optimizer_spec {
    int type; /* CAT_OPTIMIZER_… */
    double learning_rate, momentum, weight_decay, clip_norm, beta1, beta2, eps;
    bool nesterov;
    int schedule; /* CAT_SCHEDULE_… */
    double at_epochs[SPEC_EPOCHS_AT];
    int n_at_epochs;
    double factor, warmup_epochs, floor;
    double epochs; /* epochs of the whole job, where a cosine ends */
};

/* How `init` is used. */
enum { SPEC_ALLOW = 16 };
struct init_spec {
    bool go_on;  /* the file is a checkpoint (or their folder): optimizer, cursor and steps go on
                    from it too */
    int n_allow; /* patterns of names, * for any text, of tensors that may be missing, left over or
                    of another shape */
    char allow[SPEC_ALLOW][NET_NAME + 24];
};

struct batching_spec {
    int global_batch; /* 0, of a program only: what its loader asks for */
    enum batching_policy policy;
    int sizes[SPEC_WORKERS];      /* static; n_sizes may be 0 */
    double weights[SPEC_WORKERS]; /* static */
    int n_sizes, n_weights;
    int min_batch, max_batch; /* 1; 0: no limit */
};

/* A user's own program in place of model and data. The arrays and the object are borrowed from
 * jobspec.json; NULL: not given. */
struct program_spec {
    bool given;
    char name[64], digest[72];    /* name or digest of a folder that the service has; or "" */
    const json_t *command, *args; /* arrays of texts */
    const json_t *env;            /* texts by name */
    double patience_seconds;
};

/* Bounds of the number of nodes, which changes with the free nodes; max 0: it stays `workers`. */
struct elastic_spec {
    int min, max;
};

struct jobspec {
    char name[SPEC_NAME];
    struct program_spec program; /* if given: network, data and optimizer come from the program, and
                                    are empty until it has joined (worker/program) */
    struct network network;
    struct data_spec data;
    struct optimizer_spec optimizer;
    struct strategy_spec strategy;
    struct batching_spec batching;
    int workers, min_workers; /* elastic: its max and its min */
    struct elastic_spec elastic;
    double epochs;    /* a whole number, at most SPEC_EPOCHS_MOST */
    bool epochs_open; /* a program's job without a number: the program's loop decides */
    uint64_t seed;
    int priority, max_restarts;
    double max_seconds;           /* of training; 0: none */
    double max_wall_seconds;      /* from the first start, waiting included; 0: none */
    double evaluate_every_epochs; /* 1 by default; 0 if by steps */
    int64_t evaluate_every_steps;
    double checkpoint_every_seconds; /* 30 by default */
    int64_t checkpoint_every_steps;
    int checkpoint_keep;
    double target_accuracy; /* 0: none */
    char init[SPEC_PATH];   /* or "" */
    struct init_spec init_how;
    char precision[8];   /* "fp32" */
    char allreduce[8];   /* "ring" or "mpi" */
    size_t bucket_bytes; /* 1 MiB by default */
    char nodes[64][64];  /* names or labels */
    int n_nodes;
    json_t *cluster; /* or NULL; owned: a virtual cluster */
    json_t *json;    /* the spec as given, with defaults filled in; owned */
};

/* Parses and checks everything that needs no machine. Every mistake goes into `problems`; 0 or
 * negative. Call jobspec_release() in any case. `spec` has about 15 KB: not for small stacks. */
int jobspec_parse(struct jobspec *spec, const json_t *json, struct jsonx_problems *problems);
/* As jobspec_parse, for callers that report one mistake only: the message has the place and the
 * text of the first one. */
int jobspec_read(struct jobspec *spec, const json_t *json, struct err *e);
void jobspec_release(struct jobspec *spec);
/* Sets the section `data` when only the format is known (CAT_FORMAT_…): its parameters have their
 * defaults, and there is no path. */
void spec_data_defaults(struct data_spec *d, int format);
/* Learning rate at an epoch (fraction allowed), schedule applied. */
double jobspec_rate(const struct optimizer_spec *o, double epoch);
/* Checks `batching` against the number of workers. jobspec_parse() does so too. A caller that
 * learns the global batch later, from a user's program, calls it then. */
void spec_check_batching(const struct jobspec *spec, struct jsonx_problems *problems);
/* The least number of nodes with which an attempt starts. */
int jobspec_least_workers(const struct jobspec *spec);
/* The spec for one attempt that has so many workers, from spec->json; new reference, NULL: memory
 * ran out. */
json_t *jobspec_resized(const json_t *json, int workers);
/* Does its strategy have the parameter `servers`, or `group_size`? */
bool jobspec_uses_server(const struct jobspec *spec);
bool jobspec_has_groups(const struct jobspec *spec); /* groups average more often than all
                                                        workers */
/* Properties of a strategy (CAT_STRATEGY_…) in the catalogue, beyond its parameters: how its
 * workers' replicas relate. */
enum strategy_replicas {
    REPLICAS_OTHER,    /* a server has the parameters, or it is not known */
    REPLICAS_ALIKE,    /* workers have the same ones after each step */
    REPLICAS_AVERAGED, /* workers' own drift apart, and are averaged now and then */
    REPLICAS_BEHIND    /* they begin each round alike, without the gradients of the last one */
};
enum strategy_shown { SHOWN_NEVER, SHOWN_ASKED, SHOWN_COMPARED };
/* A column of its rows as a chart of its own; `series` NULL: it has none. */
struct strategy_figure {
    const char *series, *title, *subtitle, *head; /* head: of the column in a table */
    double level;                                 /* its value where nothing is changed, or NAN */
};
struct strategy_traits {
    enum strategy_replicas replicas;
    double worth;              /* worth of a sample, divided by that of a sample under `sync`; 0:
                                  not measured */
    enum strategy_shown shown; /* whether dry runs show it: for any job, or only for a job that asks
                                  for it */
    struct strategy_figure figure;
    const char *exchanges_every; /* the parameter that says after how many steps, or NULL */
};
/* Static. */
const struct strategy_traits *strategy_traits(int type);
/* Adds the traits to the strategy's entry in the catalogue's JSON, for the page. */
void strategy_traits_json(int type, json_t *entry);
/* Do the job's programs exchange more than gradients (`python3 -m evenstep.ddp …`)? */
bool jobspec_programs_meet(const struct jobspec *spec);
/* May an attempt of this job go on when one of its workers dies, if its devices allow it
 * (plan_outlives_worker)? Yes if workers have no state of their own, and all parameters are
 *   - on one server (docs/decisions/0020),
 *   - or on every worker: after each step (0022), after an average (0036) or after a round (0050).
 * Of users' programs: yes where all make the same step (0029), where a server makes their steps
 * (0040), where they are averaged (0080) or by rounds (0085), unless they have collectives of their
 * own. */
bool jobspec_outlives_worker(const struct jobspec *spec);
/* A number (or 0 and 1 for a boolean) among the strategy's parameters, by its name in the
 * catalogue; "auto" is 0. Aborts if the strategy has no such parameter. */
double strategy_param(const struct strategy_spec *s, const char *name);
/* The JSON schemas of a spec and of its parts, made from the catalogue, for /openapi.json:
 * {"JobSpec": {...}, "StrategySync": {...}, …}; they refer to each other as
 * #/components/schemas/NAME. New reference. */
json_t *jobspec_schemas(void);

#endif
