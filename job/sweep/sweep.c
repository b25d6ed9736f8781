/* Reads a sweep's document: see sweep.h. Nothing stops at the first mistake. The keys are read by
 * the same rows as those of a job spec (job/spec/fields.h), so they are checked and reported alike.
 */
#include "job/sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/spec/fields.h"

enum { NAME_BYTES = 100 }; /* leaves room for "-12-r3-s2" after it */

static const struct catalog_param top_params[] = {
    {"parallel", PARAM_INT, 0, 1, 1, 256, NULL, NULL, "jobs at a time"},
    {"nodes", PARAM_INT, 0, 0, 0, 65536, NULL, NULL, "that these ask for in all; 0: no limit"},
    {"seeds", PARAM_INT, 0, 1, 1, SWEEP_SEEDS, NULL, NULL, "jobs of each trial"},
    {.name = NULL},
};
static const struct catalog_param type_param = {
    "type", PARAM_ENUM, 1, 0, 0, 0, "grid|random|halving", NULL, "which settings are tried"};
static const struct catalog_param drawn_params[] = {
    {"trials", PARAM_INT, 1, 0, 1, SWEEP_TRIALS, NULL, NULL, "combinations that are drawn"},
    {"seed", PARAM_INT, 0, 1, 0, 9007199254740992.0, NULL, NULL, "of what is drawn"},
    {.name = NULL},
};
static const struct catalog_param eta_param = {
    "eta", PARAM_INT, 0, 3, 2, 100, NULL, NULL, "one in so many trials goes on"};
static const struct catalog_param metric_param = {
    "name", PARAM_ENUM, 0, 0, 0, 0, SWEEP_METRICS, "test_accuracy", "what is compared"};
static const struct catalog_param scale_param = {
    "scale", PARAM_ENUM, 0, 0, 0, 0, "linear|log|int|choice", "linear", "how a range is divided"};

static const char *text_at(const json_t *full, const char *key)
{
    const char *text = json_string_value(json_object_get(full, key));
    return text ? text : "";
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void read_values(struct sweep_parameter *p, struct fields *in, const json_t *values)
{
    size_t n = json_array_size(values);
    if (n < 1 || n > SWEEP_VALUES) {
        fields_problem(in, "values", "'values' must be an array of 1 to %d values", SWEEP_VALUES);
        return;
    }
    json_object_set_new(in->full, "values", json_deep_copy(values));
    p->values = json_object_get(in->full, "values");
}

static void read_range(struct sweep_parameter *p, struct fields *in, const json_t *range)
{
    char pointer[FIELDS_POINTER], at[FIELDS_POINTER];
    bool whole = p->scale == SWEEP_INT, good = json_array_size(range) == 2;
    double ends[2];
    jsonx_join(pointer, sizeof pointer, in->pointer, "range");
    if (!good) {
        fields_problem(in, "range", "'range' must be an array of the least and the greatest value");
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        good = fields_number(in, jsonx_join_index(at, sizeof at, pointer, i),
                             json_array_get(range, i), whole, -1e15, 1e15, &ends[i]) &&
               good;
    }
    if (good && ends[0] >= ends[1]) {
        fields_problem(in, "range", "the least value must be below the greatest");
    } else if (good && p->scale == SWEEP_LOG && ends[0] <= 0) {
        fields_problem(in, "range", "both ends of a range on a log scale must be above 0");
    } else if (good) {
        p->least = ends[0];
        p->most = ends[1];
        json_object_set_new(in->full, "range", json_deep_copy(range));
    }
}

/* Reads how many values of a range a grid has. */
static void read_steps(struct sweep_parameter *p, struct fields *in, bool grid)
{
    struct catalog_param steps = {"steps", PARAM_INT,          grid, 0, 2, SWEEP_VALUES, NULL,
                                  NULL,    "values of a range"};
    double most = p->scale == SWEEP_INT ? p->most - p->least + 1 : SWEEP_VALUES;
    if (!grid) {
        if (fields_get(in, "steps")) {
            fields_problem(in, "steps", "only a grid takes steps; otherwise values are drawn");
        }
        return;
    }
    if (fields_param(in, &steps)) {
        p->steps = (int)fields_int(in->full, "steps");
        if (p->steps > most && most > 0) {
            fields_problem(in, "steps", "the range has %.0f whole numbers, fewer than %d", most,
                           p->steps);
        }
    }
}

/* Reads a pointer into the spec. false: it is wrong, which is reported. */
static bool read_place(char place[SWEEP_POINTER], struct fields *in, const char *key, bool required)
{
    const char *pointer = fields_text(in, key, required, SWEEP_POINTER);
    snprintf(place, SWEEP_POINTER, "%s", pointer ? pointer : "");
    if (pointer && (pointer[0] != '/' || !pointer[1])) {
        fields_problem(in, key,
                       "expected a JSON pointer into the spec, such as /optimizer/learning_rate");
    }
    return pointer && pointer[0] == '/' && pointer[1];
}

static void read_pointer(struct sweep_parameter *p, struct fields *in, bool halving)
{
    static const char *const own[] = {"/name", "/seed", "/tags", "/init", "/epochs"};
    const char *pointer = p->pointer;
    size_t n = sizeof own / sizeof *own;
    if (!read_place(p->pointer, in, "pointer", true)) {
        return;
    }
    for (size_t i = 0; i < (halving ? n : n - 2); i++) {
        size_t k = strlen(own[i]);
        if (strncmp(pointer, own[i], k) == 0 && (!pointer[k] || pointer[k] == '/')) {
            fields_problem(in, "pointer", "the sweep sets '%s' itself%s", own[i],
                           i == 1 ? "; 'seeds' says how many there are" : "");
        }
    }
}

static void read_parameter(struct sweep *s, const json_t *given, json_t *full, const char *pointer,
                           struct jsonx_problems *problems)
{
    static const char *const scales[] = {"linear", "log", "int", "choice"};
    struct sweep_parameter *p = &s->parameters[s->n_parameters++];
    struct catalog_param scale = scale_param;
    struct fields in;
    fields_open(&in, given, full, pointer, problems);
    if (!in.given) {
        return;
    }
    read_pointer(p, &in, s->method == SWEEP_HALVING);
    const json_t *values = fields_get(&in, "values"), *range = fields_get(&in, "range");
    scale.fallback_text = values ? "choice" : "linear";
    bool scaled = fields_param(&in, &scale);
    for (int i = 0; scaled && i < 4; i++) {
        if (strcmp(text_at(full, "scale"), scales[i]) == 0) {
            p->scale = (enum sweep_scale)i;
        }
    }
    if (!values == !range) {
        fields_problem(&in, "values", "a parameter needs 'values' or a 'range', and not both");
    } else if (scaled && (p->scale == SWEEP_CHOICE) != (values != NULL)) {
        fields_problem(&in, "scale", "'choice' is the scale of 'values', and a range has another");
    } else if (values) {
        read_values(p, &in, values);
    } else {
        read_range(p, &in, range);
        read_steps(p, &in, s->method == SWEEP_GRID);
    }
    fields_close(&in);
}

static void read_parameters(struct sweep *s, struct fields *f)
{
    char list[FIELDS_POINTER], at[FIELDS_POINTER];
    const json_t *given = fields_need(f, "parameters");
    json_t *all = json_array(), *one;
    size_t i;
    jsonx_join(list, sizeof list, f->pointer, "parameters");
    json_object_set_new(f->full, "parameters", all);
    if (given && (json_array_size(given) < 1 || json_array_size(given) > SWEEP_PARAMETERS)) {
        fields_problem(f, "parameters", "'parameters' must be an array of 1 to %d parameters",
                       SWEEP_PARAMETERS);
        return;
    }
    json_array_foreach((json_t *)given, i, one) {
        json_t *full = json_object();
        json_array_append_new(all, full);
        read_parameter(s, one, full, jsonx_join_index(at, sizeof at, list, i), f->problems);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(s->parameters[k].pointer, s->parameters[i].pointer) == 0 &&
                s->parameters[i].pointer[0]) {
                jsonx_problem(f->problems, at, "'%s' is given twice", s->parameters[i].pointer);
            }
        }
    }
}

/* ---- method, metric -------------------------------------------------------------------------- */

static void read_rungs(struct sweep *s, struct fields *in)
{
    char pointer[FIELDS_POINTER], at[FIELDS_POINTER];
    const json_t *given = fields_need(in, "rungs"), *one;
    double epochs = 0, before = 0;
    size_t n = json_array_size(given);
    jsonx_join(pointer, sizeof pointer, in->pointer, "rungs");
    if (given && (n < 2 || n > SWEEP_RUNGS)) {
        fields_problem(in, "rungs", "'rungs' must be an array of 2 to %d numbers of epochs",
                       SWEEP_RUNGS);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        one = json_array_get(given, i);
        jsonx_join_index(at, sizeof at, pointer, i);
        if (fields_number(in, at, one, true, 1, SPEC_EPOCHS_MOST, &epochs)) {
            s->rungs[i] = (int)epochs;
            if (epochs <= before) {
                jsonx_problem(in->problems, at,
                              "each rung must have more epochs than the one before");
            }
            before = epochs;
        }
    }
    if (given) {
        s->n_rungs = (int)n;
        json_object_set_new(in->full, "rungs", json_deep_copy(given));
    }
}

static json_t *open_section(struct fields *in, struct fields *f, const char *key,
                            const json_t *given)
{
    char pointer[FIELDS_POINTER];
    json_t *full = json_object();
    json_object_set_new(f->full, key, full);
    fields_open(in, given, full, jsonx_join(pointer, sizeof pointer, f->pointer, key), f->problems);
    return full;
}

static void read_method(struct sweep *s, struct fields *f)
{
    struct fields in;
    const json_t *given = fields_need(f, "method");
    json_t *full = open_section(&in, f, "method", given);
    s->n_rungs = 1;
    if (!in.given || !fields_param(&in, &type_param)) {
        return;
    }
    const char *type = text_at(full, "type");
    s->method = strcmp(type, "grid") == 0     ? SWEEP_GRID
                : strcmp(type, "random") == 0 ? SWEEP_RANDOM
                                              : SWEEP_HALVING;
    if (s->method != SWEEP_GRID) {
        fields_params(&in, drawn_params);
        s->trials = (int)fields_int(full, "trials");
        s->seed = (uint64_t)fields_int(full, "seed");
    }
    if (s->method == SWEEP_HALVING) {
        fields_param(&in, &eta_param);
        s->eta = (int)fields_int(full, "eta");
        read_rungs(s, &in);
        read_place(s->epochs_at, &in, "epochs_at", false);
        if (s->trials > 0 && s->trials < s->eta) {
            fields_problem(&in, "trials", "fewer than 'eta', %d, leave none to go on", s->eta);
        }
    }
    fields_close(&in);
}

static bool read_logged(struct fields *in)
{
    const char *name = fields_text(in, "name", true, SWEEP_METRIC);
    if (name && !filter_is_path(name)) {
        fields_problem(in, "name",
                       "after 'logged.' follows the name of a metric without , ! = < >");
    }
    return name && filter_is_path(name);
}

static void read_metric(struct sweep *s, struct fields *f)
{
    static const struct catalog_param direction = {
        "direction", PARAM_ENUM, 0, 0, 0, 0, "max|min", NULL, "which value is the best"};
    struct catalog_param row = direction;
    struct fields in;
    const json_t *given = fields_get(f, "metric");
    json_t *full = open_section(&in, f, "metric", given);
    bool logged = filter_metric(jsonx_string_at(given, "name"));
    if (logged ? read_logged(&in) : fields_param(&in, &metric_param)) {
        snprintf(s->metric, sizeof s->metric, "%s", text_at(full, "name"));
    }
    row.required = logged; /* nothing tells which values of a program's own metric are good */
    row.fallback_text = strstr(s->metric, "loss") ? "min" : "max";
    if (fields_param(&in, &row)) {
        s->greatest = strcmp(text_at(full, "direction"), "max") == 0;
    }
    fields_close(&in);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Counts the combinations of a grid; more than SWEEP_TRIALS are a mistake. */
static void count_trials(struct sweep *s, struct fields *f)
{
    double n = 1;
    for (int i = 0; i < s->n_parameters; i++) {
        const struct sweep_parameter *p = &s->parameters[i];
        n *= p->scale == SWEEP_CHOICE ? (double)json_array_size(p->values) : p->steps;
    }
    if (s->method != SWEEP_GRID) {
        n = s->trials;
    }
    if (n * s->seeds > SWEEP_TRIALS) {
        fields_problem(f, s->method == SWEEP_GRID ? "parameters" : "method",
                       "%.0f trials with %d seed%s are more than %d jobs", n, s->seeds,
                       s->seeds == 1 ? "" : "s", SWEEP_TRIALS);
    }
    s->trials = n > SWEEP_TRIALS ? 0 : (int)n;
}

/* Takes the name. It is cut between two characters if it is too long. */
static void take_name(struct sweep *s, const char *name)
{
    size_t n = strlen(name) < NAME_BYTES ? strlen(name) : NAME_BYTES - 1;
    while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80) {
        n--;
    }
    snprintf(s->name, sizeof s->name, "%.*s", (int)n, name);
}

void sweep_check_run(const struct sweep *s, const struct jobspec *spec, struct jsonx_problems *p)
{
    if (spec->network.loss == LOSS_MSE && strstr(s->metric, "accuracy")) {
        jsonx_problem(p, "/model/loss",
                      "'mse' has no accuracy to compare trials by: let the sweep's /metric/name be "
                      "'test_loss', not '%s'",
                      s->metric);
    }
    if (filter_metric(s->metric) && !spec->program.given) {
        jsonx_problem(
            p, "/model",
            "a network of Evenstep's logs no metrics, so trials cannot be compared by '%s'",
            s->metric);
    }
    if (s->method != SWEEP_HALVING) {
        return;
    }
    if (spec->init[0]) {
        jsonx_problem(p, "/init", "a halving starts its jobs from their own checkpoints");
    }
    if (spec->cluster) {
        jsonx_problem(p, "/cluster",
                      "virtual jobs leave no checkpoint that the next rung could go on from");
    }
    if (spec->optimizer.schedule == CAT_SCHEDULE_COSINE) {
        jsonx_problem(p, "/optimizer/schedule/type",
                      "a cosine would end with every rung; 'constant' and 'step' go on over all of "
                      "them");
    }
}

int sweep_parse(struct sweep *s, const json_t *json, struct jsonx_problems *problems)
{
    int before = problems->count + problems->dropped;
    struct fields f;
    memset(s, 0, sizeof *s);
    s->json = json_object();
    fields_open(&f, json, s->json, "", problems);
    if (!f.given) {
        return -ERR_INVALID;
    }
    const json_t *spec = fields_need(&f, "spec");
    const char *name = fields_name(&f, "name", false, NAME_BYTES);
    take_name(s, name ? name : text_at(spec, "name"));
    json_object_set_new(s->json, "name", json_string(s->name[0] ? s->name : "sweep"));
    json_object_set_new(s->json, "spec", json_deep_copy(spec ? spec : json_null()));
    if (spec && !json_is_object(spec)) {
        fields_problem(&f, "spec", "'spec' must be a job spec");
    }
    read_method(s, &f);
    read_parameters(s, &f);
    read_metric(s, &f);
    fields_params(&f, top_params);
    s->parallel = (int)fields_int(s->json, "parallel");
    s->nodes = (int)fields_int(s->json, "nodes");
    s->seeds = (int)fields_int(s->json, "seeds");
    fields_close(&f);
    if (problems->count + problems->dropped == before) {
        count_trials(s, &f);
        sweep_shuffle(s);
    }
    return problems->count + problems->dropped > before ? -ERR_INVALID : 0;
}

int sweep_read(struct sweep *s, const json_t *json, struct err *e)
{
    struct jsonx_problems problems = {0};
    int rc = sweep_parse(s, json, &problems);
    if (rc < 0) {
        char first[JSONX_FIRST];
        rc = err_set(e, ERR_DATA, "a sweep is not valid: %s",
                     jsonx_problems_first(&problems, first));
    }
    jsonx_problems_release(&problems);
    return rc;
}

void sweep_release(struct sweep *s)
{
    json_decref(s->json);
    memset(s, 0, sizeof *s);
}
