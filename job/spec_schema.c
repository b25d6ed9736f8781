/* The JSON schema of a job spec, for /openapi.json and for editors: made from the same rows that
 * parse the spec, so that it cannot lie. Objects of a kind ("strategy") are a oneOf over the
 * catalogue's entries, each closed; what several keys must fulfil together is said by validation
 * alone. */
#include <string.h>

#include "job/spec_parts.h"

static json_t *param_schema(const struct catalog_param *p)
{
    json_t *j = json_object();
    static const char *const types[] = {
        [PARAM_INT] = "integer",
        [PARAM_REAL] = "number",
        [PARAM_BOOL] = "boolean",
        [PARAM_ENUM] = "string",
    };
    switch (p->kind) {
    case PARAM_INT:
    case PARAM_REAL:
        json_object_set_new(j, "type", json_string(types[p->kind]));
        json_object_set_new(j, "minimum", json_real(p->min));
        json_object_set_new(j, "maximum", json_real(p->max));
        if (!p->required) {
            json_object_set_new(j, "default",
                                p->kind == PARAM_INT ? json_integer((json_int_t)p->fallback)
                                                     : json_real(p->fallback));
        }
        break;
    case PARAM_BOOL:
        json_object_set_new(j, "type", json_string(types[p->kind]));
        json_object_set_new(j, "default", json_boolean(p->fallback != 0));
        break;
    case PARAM_ENUM: {
        json_t *list = json_array();
        for (const char *c = p->choices; *c != '\0';
             c += strcspn(c, "|") + (c[strcspn(c, "|")] == '|')) {
            json_array_append_new(list, json_stringn(c, strcspn(c, "|")));
        }
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
                            json_pack("[{s:s}, {s:s, s:f, s:f}]", "const", p->fallback_text, "type",
                                      "integer", "minimum", p->min, "maximum", p->max));
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

static json_t *numbers(const char *help)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "array", "items", "type", "number",
                     "description", help);
}

/* What an entry has beyond its parameters. */
static void add_extra(json_t *object, const struct catalog_entry *entry, json_t *schedule)
{
    if (entry->kind == CATALOG_FORMAT) {
        json_t *normalize = closed_object();
        add(normalize, "mean", numbers("one number per channel"), true);
        add(normalize, "deviation", numbers("one number per channel"), true);
        add_params(object, spec_data_params);
        add(object, "normalize",
            json_pack("{s:[{s:[s, s]}, o]}", "oneOf", "enum", "unit", "picture", normalize), false);
        if (entry->id != CAT_FORMAT_GLYPHS) {
            add(object, "path", text("beneath a data root"), true);
        }
    } else if (entry->kind == CATALOG_OPTIMIZER) {
        add(object, "schedule", json_incref(schedule), false);
    } else if (entry->id == CAT_SCHEDULE_STEP) {
        add(object, "at_epochs", numbers("epochs at which the rate changes, rising"), true);
    }
}

static json_t *one_of(enum catalog_kind kind, const char *key, bool required, json_t *schedule)
{
    json_t *list = json_array();
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *entry = catalog_get(id);
        if (entry->kind != kind) {
            continue;
        }
        json_t *object = closed_object();
        json_object_set_new(object, "description", json_string(entry->help));
        add(object, key, json_pack("{s:s}", "const", entry->name), required);
        add_params(object, entry->params);
        add_extra(object, entry, schedule);
        json_array_append_new(list, object);
    }
    return json_pack("{s:o}", "oneOf", list);
}

static json_t *model_schema(void)
{
    json_t *presets = json_array(), *object = closed_object();
    int n;
    const char *const *names = network_presets(&n);
    for (int i = 0; i < n; i++) {
        json_array_append_new(presets, json_string(names[i]));
    }
    json_t *layer = one_of(CATALOG_LAYER, "type", true, NULL);
    size_t i;
    json_t *each;
    json_array_foreach(json_object_get(layer, "oneOf"), i, each) {
        add(each, "name", text("given, or made of type and number"), false);
        add(each, "inputs", json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string"),
            false);
    }
    add(object, "input", numbers("[n], or height, width and channels"), true);
    add(object, "layers", json_pack("{s:s, s:o}", "type", "array", "items", layer), true);
    add(object, "loss", json_pack("{s:[s, s]}", "enum", "softmax_cross_entropy", "mse"), false);
    return json_pack("{s:[{s:o}, o]}", "oneOf", "enum", presets, object);
}

static json_t *batching_schema(void)
{
    json_t *object = closed_object(), *policies = json_array();
    int n;
    const char *const *names = catalog_names(CATALOG_BATCHING, &n);
    for (int i = 0; i < n; i++) {
        json_array_append_new(policies, json_string(names[i]));
    }
    add(object, "policy", json_pack("{s:o, s:s}", "enum", policies, "default", "dynamic"), false);
    add_params(object, spec_batching_params);
    add(object, "sizes", numbers("minibatches of the policy static, one per worker"), false);
    add(object, "weights", numbers("shares of the policy static, one per worker"), false);
    return object;
}

/* One key per entry of the catalogue. */
static json_t *augment_schema(void)
{
    json_t *object = closed_object();
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *entry = catalog_get(id);
        if (entry->kind == CATALOG_AUGMENT) {
            json_t *one = closed_object();
            json_object_set_new(one, "description", json_string(entry->help));
            add_params(one, entry->params);
            add(object, entry->name, one, false);
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
    json_t *object = params_schema(spec_program_params),
           *texts = json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    add(object, "name", text("of a program that an operator put on the nodes"), false);
    add(object, "digest", text("of a program that was uploaded"), false);
    add(object, "command", json_incref(texts), false);
    add(object, "args", texts, false);
    add(object, "env",
        json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type", "string"),
        false);
    json_object_set_new(object, "description",
                        json_string("a user's own program, in place of model and data"));
    return object;
}

json_t *jobspec_schema(void)
{
    json_t *spec = closed_object(), *schedule = one_of(CATALOG_SCHEDULE, "type", false, NULL);
    add(spec, "name", text("shown in lists"), false);
    add(spec, "model", model_schema(), false);
    add(spec, "data", one_of(CATALOG_FORMAT, "format", true, NULL), false);
    add(spec, "program", program_schema(), false);
    add(spec, "augment", augment_schema(), false);
    add(spec, "optimizer", one_of(CATALOG_OPTIMIZER, "type", false, schedule), false);
    add(spec, "strategy", one_of(CATALOG_STRATEGY, "type", false, NULL), false);
    add(spec, "batching", batching_schema(), false);
    add_params(spec, spec_top_params);
    json_t *init = params_schema(spec_init_params);
    add(init, "path",
        text("a safetensors file beneath a data root, JOB/model.safetensors, or JOB/checkpoints"),
        true);
    add(spec, "init",
        json_pack("{s:[o, o]}", "oneOf", text("a safetensors file to start from"), init), false);
    add(spec, "nodes", json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string"),
        false);
    add(spec, "evaluate", params_schema(spec_evaluate_params), false);
    json_t *checkpoint = params_schema(spec_checkpoint_params), *target = closed_object();
    add(checkpoint, spec_keep_param.name, param_schema(&spec_keep_param), false);
    add(spec, "checkpoint", checkpoint, false);
    add(target, spec_accuracy_param.name, param_schema(&spec_accuracy_param), true);
    add(spec, "target", target, false);
    add(spec, "exchange", params_schema(spec_exchange_params), false);
    add(spec, "cluster",
        json_pack("{s:s, s:s}", "type", "object", "description", "a virtual cluster to run on"),
        false);
    json_object_set_new(spec, "anyOf",
                        json_pack("[{s:[s, s, s]}, {s:[s]}]", "required", "model", "data",
                                  "batching", "required", "program"));
    json_decref(schedule);
    return spec;
}
