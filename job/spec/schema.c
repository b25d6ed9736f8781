/* The JSON schema of a job spec, for /openapi.json and for editors: made from the same rows that
 * parse the spec, so that it cannot lie. Every object is a component of its own, which others refer
 * to, so that a generated client has one class for each. Objects of a kind ("strategy") are a oneOf
 * over the catalogue's entries, each closed; rules over several keys are known only by
 * validation. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/spec/cluster.h"
#include "job/spec/parts.h"
#include "job/tags.h"

/* A bound or a default of a number, in JSON. */
static json_t *number_of(const struct catalog_param *p, double value)
{
    return p->kind == PARAM_INT && fabs(value) < 9e15 ? json_integer((json_int_t)value)
                                                      : json_real(value);
}

/* Adds a number. A default outside the bounds means "none", which a spec says by leaving the key
 * out. */
static void add_number(json_t *j, const struct catalog_param *p)
{
    json_object_set_new(j, "type", json_string(p->kind == PARAM_INT ? "integer" : "number"));
    json_object_set_new(j, "minimum", number_of(p, p->min));
    json_object_set_new(j, "maximum", number_of(p, p->max));
    if (!p->required && p->fallback >= p->min && p->fallback <= p->max) {
        json_object_set_new(j, "default", number_of(p, p->fallback));
    }
}

static json_t *param_schema(const struct catalog_param *p)
{
    json_t *j = json_object();
    switch (p->kind) {
    case PARAM_INT:
    case PARAM_REAL:
        add_number(j, p);
        break;
    case PARAM_BOOL:
        json_object_set_new(j, "type", json_string("boolean"));
        json_object_set_new(j, "default", json_boolean(p->fallback != 0));
        break;
    case PARAM_ENUM: {
        json_t *list = json_array();
        for (const char *c = p->choices; *c != '\0';
             c += strcspn(c, "|") + (c[strcspn(c, "|")] == '|')) {
            json_array_append_new(list, json_stringn(c, strcspn(c, "|")));
        }
        json_object_set_new(j, "type", json_string("string"));
        json_object_set_new(j, "enum", list);
        json_object_set_new(j, "default", json_string(p->fallback_text));
        break;
    }
    case PARAM_INTS:
        json_object_set_new(j, "oneOf",
                            json_pack("[{s:s, s:i, s:i}, {s:s, s:{s:s}, s:i, s:i}]", "type",
                                      "integer", "minimum", (int)p->min, "maximum", (int)p->max,
                                      "type", "array", "items", "type", "integer", "minItems", 2,
                                      "maxItems", 2));
        break;
    case PARAM_AUTO:
        json_object_set_new(j, "oneOf",
                            json_pack("[{s:s, s:s}, {s:s, s:I, s:I}]", "type", "string", "const",
                                      p->fallback_text, "type", "integer", "minimum",
                                      (json_int_t)p->min, "maximum", (json_int_t)p->max));
        json_object_set_new(j, "default", json_string(p->fallback_text));
        break;
    case PARAM_NAMES:
        json_object_set_new(j, "type", json_string("array"));
        json_object_set_new(j, "items", json_pack("{s:s}", "type", "string"));
        break;
    }
    json_object_set_new(j, "description", json_string(p->help));
    return j;
}

static json_t *closed_object(void)
{
    return json_pack("{s:s, s:{}, s:[], s:b}", "type", "object", "properties", "required",
                     "additionalProperties", 0);
}

static void add(json_t *object, const char *key, json_t *schema, bool required)
{
    json_object_set_new(json_object_get(object, "properties"), key, schema);
    if (required) {
        json_array_append_new(json_object_get(object, "required"), json_string(key));
    }
}

static void add_params(json_t *object, const struct catalog_param *p)
{
    for (; p->name != NULL; p++) {
        add(object, p->name, param_schema(p), p->required);
    }
}

static json_t *text(const char *help)
{
    return json_pack("{s:s, s:s}", "type", "string", "description", help);
}

static json_t *names(const char *help)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "array", "items", "type", "string",
                     "description", help);
}

static json_t *numbers(const char *help)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "array", "items", "type", "number",
                     "description", help);
}

/* Adds what an entry has beyond its parameters. */
static void add_extra(json_t *object, const struct catalog_entry *entry, json_t *schedule)
{
    if (entry->kind == CATALOG_FORMAT) {
        json_t *normalize = closed_object();
        add(normalize, "mean", numbers("one number per channel"), true);
        add(normalize, "deviation", numbers("one number per channel"), true);
        add_params(object, spec_data_params);
        add(object, "normalize",
            json_pack("{s:[{s:s, s:[s, s]}, o]}", "oneOf", "type", "string", "enum", "unit",
                      "picture", normalize),
            false);
        if (entry->id != CAT_FORMAT_GLYPHS) {
            add(object, "path", text("beneath a data root"), true);
        }
    } else if (entry->kind == CATALOG_OPTIMIZER) {
        add(object, "schedule", json_incref(schedule), false);
    } else if (entry->id == CAT_SCHEDULE_STEP) {
        add(object, "at_epochs", numbers("epochs at which the rate changes, rising"), true);
    }
}

/* Adds a schema to the components under this name, so that others can refer to it. */
static json_t *component(json_t *all, const char *name, json_t *schema)
{
    char ref[128];
    snprintf(ref, sizeof(ref), "#/components/schemas/%s", name);
    json_object_set_new(all, name, schema);
    return json_pack("{s:s}", "$ref", ref);
}

/* ("Strategy", "dc-asgd") becomes "StrategyDcAsgd". */
static void entry_name(char out[80], const char *kind, const char *entry)
{
    size_t n = (size_t)snprintf(out, 40, "%s", kind);
    bool first = true;
    for (; *entry && n + 1 < 80; entry++) {
        bool letter = isalnum((unsigned char)*entry);
        if (letter) {
            out[n++] = (char)(first ? toupper((unsigned char)*entry) : *entry);
        }
        first = !letter;
    }
    out[n] = '\0';
}

/* The objects of a kind: each is a component "KindName", and together they are "KindSpec". `key`
 * says which one an object is; if it is required, readers can rely on it. */
struct kind {
    enum catalog_kind kind;
    const char *name, *key;
    bool required;
};

static json_t *one_of(json_t *all, const struct kind *k, json_t *schedule)
{
    json_t *list = json_array(), *mapping = json_object();
    char name[80];
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *entry = catalog_get(id);
        if (entry->kind != k->kind) {
            continue;
        }
        json_t *object = closed_object();
        json_object_set_new(object, "description", json_string(entry->help));
        add(object, k->key, json_pack("{s:s, s:s}", "type", "string", "const", entry->name),
            k->required);
        add_params(object, entry->params);
        add_extra(object, entry, schedule);
        if (k->kind == CATALOG_LAYER) {
            add(object, "name", text("given, or made of type and number"), false);
            add(object, "inputs", names("layers whose outputs it takes"), false);
        }
        entry_name(name, k->name, entry->name);
        json_t *ref = component(all, name, object);
        json_object_set(mapping, entry->name, json_object_get(ref, "$ref"));
        json_array_append_new(list, ref);
    }
    json_t *whole = json_pack("{s:o}", "oneOf", list);
    if (k->required) {
        json_object_set_new(whole, "discriminator",
                            json_pack("{s:s, s:O}", "propertyName", k->key, "mapping", mapping));
    }
    json_decref(mapping);
    snprintf(name, sizeof(name), "%sSpec", k->name);
    return component(all, name, whole);
}

static json_t *model_schema(json_t *all)
{
    static const struct kind layers = {CATALOG_LAYER, "Layer", "type", true};
    json_t *presets = json_array(), *object = closed_object();
    int n;
    const char *const *preset = network_presets(&n);
    for (int i = 0; i < n; i++) {
        json_array_append_new(presets, json_string(preset[i]));
    }
    add(object, "input", numbers("[n], or height, width and channels"), true);
    add(object, "layers",
        json_pack("{s:s, s:o}", "type", "array", "items", one_of(all, &layers, NULL)), true);
    add(object, "loss",
        json_pack("{s:s, s:[s, s]}", "type", "string", "enum", "softmax_cross_entropy", "mse"),
        false);
    json_t *preset_name = json_pack("{s:s, s:o, s:s}", "type", "string", "enum", presets,
                                    "description", "a network by its name");
    return component(all, "ModelSpec",
                     json_pack("{s:[o, o]}", "oneOf", component(all, "PresetName", preset_name),
                               component(all, "NetworkSpec", object)));
}

static json_t *batching_schema(void)
{
    json_t *object = closed_object(), *policies = json_array();
    int n;
    const char *const *policy = catalog_names(CATALOG_BATCHING, &n);
    for (int i = 0; i < n; i++) {
        json_array_append_new(policies, json_string(policy[i]));
    }
    add(object, "policy",
        json_pack("{s:s, s:o, s:s}", "type", "string", "enum", policies, "default", "dynamic"),
        false);
    add_params(object, spec_batching_params);
    add(object, "sizes", numbers("minibatches of the policy static, one per worker"), false);
    add(object, "weights", numbers("shares of the policy static, one per worker"), false);
    return object;
}

/* One key per entry of the catalogue. */
static json_t *augment_schema(json_t *all)
{
    json_t *object = closed_object();
    char name[80];
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *entry = catalog_get(id);
        if (entry->kind == CATALOG_AUGMENT) {
            json_t *one = closed_object();
            json_object_set_new(one, "description", json_string(entry->help));
            add_params(one, entry->params);
            entry_name(name, "Augment", entry->name);
            add(object, entry->name, component(all, name, one), false);
        }
    }
    return object;
}

static json_t *params_schema(const struct catalog_param *params)
{
    json_t *object = closed_object();
    add_params(object, params);
    return object;
}

static json_t *program_schema(void)
{
    json_t *object = params_schema(spec_program_params);
    add(object, "name", text("of a program that an operator put on the nodes"), false);
    add(object, "digest", text("of a program that was uploaded"), false);
    add(object, "command", names("what is started, with its first arguments"), false);
    add(object, "args", names("what follows the command"), false);
    add(object, "env",
        json_pack("{s:s, s:{s:s}, s:s}", "type", "object", "additionalProperties", "type", "string",
                  "description",
                  "variables of its environment; everybody who reads jobs sees them"),
        false);
    json_object_set_new(object, "description",
                        json_string("a user's own program, in place of model and data"));
    return object;
}

static json_t *init_schema(json_t *all)
{
    json_t *object = params_schema(spec_init_params);
    add(object, "path",
        text("a safetensors file beneath a data root, JOB/model.safetensors, or JOB/checkpoints"),
        true);
    return json_pack("{s:[o, o]}", "oneOf", text("a safetensors file to start from"),
                     component(all, "InitFrom", object));
}

static json_t *cluster_schema(json_t *all)
{
    json_t *cluster = closed_object(), *node = params_schema(cluster_node_params),
           *groups = json_pack("{s:s, s:o, s:s}", "type", "array", "items",
                               names("nodes of a group"), "description", "each node in one"),
           *link = component(all, "ClusterLink", params_schema(cluster_link_params));
    add(node, "name", text("of the node; with a count NAME-1 and so on"), true);
    add(cluster, "nodes",
        json_pack("{s:s, s:i, s:o}", "type", "array", "minItems", 1, "items",
                  component(all, "ClusterNode", node)),
        true);
    add(cluster, "groups", groups, false);
    add(cluster, "links", json_incref(link), false);
    add(cluster, "group_links", json_incref(link), false);
    add(cluster, "server", link, false);
    add(cluster, cluster_seed_param.name, param_schema(&cluster_seed_param), false);
    json_object_set_new(cluster, "description", json_string("a virtual cluster to run on"));
    return cluster;
}

/* Adds tags and notes, which people write in a spec and later. */
static void add_tags(json_t *all, json_t *spec)
{
    json_t *tags = json_pack("{s:s, s:{s:s, s:s}, s:i, s:b, s:s}", "type", "array", "items", "type",
                             "string", "pattern", TAG_PATTERN, "maxItems", TAGS_MOST, "uniqueItems",
                             1, "description", "words to find jobs by"),
           *note = json_pack("{s:[s, s], s:i, s:s, s:s}", "type", "string", "null", "maxLength",
                             NOTE_CHARACTERS, "pattern", NOTE_PATTERN, "description",
                             "what people have to say of a job");
    add(spec, "tags", component(all, "Tags", tags), false);
    add(spec, "note", component(all, "Note", note), false);
}

/* Adds sections that have only parameters, and the cluster. */
static void add_plain(json_t *all, json_t *spec)
{
    json_t *checkpoint = params_schema(spec_checkpoint_params), *target = closed_object();
    add(checkpoint, spec_keep_param.name, param_schema(&spec_keep_param), false);
    add(target, spec_accuracy_param.name, param_schema(&spec_accuracy_param), true);
    add(spec, "evaluate", component(all, "EvaluateSpec", params_schema(spec_evaluate_params)),
        false);
    add(spec, "checkpoint", component(all, "CheckpointSpec", checkpoint), false);
    add(spec, "target", component(all, "TargetSpec", target), false);
    add(spec, "exchange", component(all, "ExchangeSpec", params_schema(spec_exchange_params)),
        false);
    add(spec, "elastic", component(all, "ElasticSpec", params_schema(spec_elastic_params)), false);
    add(spec, "cluster", component(all, "ClusterSpec", cluster_schema(all)), false);
}

json_t *jobspec_schemas(void)
{
    static const struct kind schedules = {CATALOG_SCHEDULE, "Schedule", "type", false},
                             formats = {CATALOG_FORMAT, "Data", "format", true},
                             optimizers = {CATALOG_OPTIMIZER, "Optimizer", "type", false},
                             strategies = {CATALOG_STRATEGY, "Strategy", "type", false};
    json_t *all = json_object(), *spec = closed_object(), *schedule = one_of(all, &schedules, NULL);
    add(spec, "name", text("shown in lists"), false);
    add_tags(all, spec);
    add(spec, "model", model_schema(all), false);
    add(spec, "data", one_of(all, &formats, NULL), false);
    add(spec, "program", component(all, "ProgramSpec", program_schema()), false);
    add(spec, "augment", component(all, "AugmentSpec", augment_schema(all)), false);
    add(spec, "optimizer", one_of(all, &optimizers, schedule), false);
    add(spec, "strategy", one_of(all, &strategies, NULL), false);
    add(spec, "batching", component(all, "BatchingSpec", batching_schema()), false);
    add_params(spec, spec_top_params);
    add(spec, "init", component(all, "InitSpec", init_schema(all)), false);
    add(spec, "nodes", names("names or labels of nodes to run on"), false);
    add_plain(all, spec);
    json_object_set_new(spec, "description",
                        json_string("A job: model, data and batching, or a program."));
    json_decref(component(all, "JobSpec", spec));
    json_decref(schedule);
    return all;
}
