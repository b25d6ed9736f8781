/* Prints docs/catalog.md from the rows that parse a spec: the entries of job/spec/catalog.def, the
 * networks that have a name, and the keys of a job (job/spec/parts.c). docs/generate writes the
 * page or compares it, and so does tests/unit/job/test_docs.c.
 */
#include <stdio.h>
#include <string.h>

#include "docs/print/fold.h"
#include "job/spec/parts.h"

static void print_range(FILE *f, const struct catalog_param *p)
{
    switch (p->kind) {
    case PARAM_ENUM:
        for (const char *c = p->choices; *c; c += strcspn(c, "|") + (c[strcspn(c, "|")] == '|')) {
            fprintf(f, "%s`%.*s`", c == p->choices ? "" : ", ", (int)strcspn(c, "|"), c);
        }
        break;
    case PARAM_BOOL:
        fprintf(f, "true, false");
        break;
    case PARAM_NAMES:
        fprintf(f, "names");
        break;
    case PARAM_REAL:
        fprintf(f, "number, %g to %g", p->min, p->max);
        break;
    case PARAM_INTS:
        fprintf(f, "whole number or [height, width], %.0f to %.0f", p->min, p->max);
        break;
    case PARAM_AUTO:
        fprintf(f, "`%s`, or a whole number, %.0f to %.0f", p->fallback_text, p->min, p->max);
        break;
    case PARAM_INT:
        fprintf(f, "whole number, %.0f to %.0f", p->min, p->max);
        break;
    }
}

static void print_default(FILE *f, const struct catalog_param *p)
{
    if (p->required) {
        fprintf(f, "must be given");
    } else if (p->kind == PARAM_ENUM || p->kind == PARAM_AUTO) {
        fprintf(f, "`%s`", p->fallback_text);
    } else if (p->kind == PARAM_BOOL) {
        fprintf(f, "%s", p->fallback != 0 ? "true" : "false");
    } else if ((p->kind == PARAM_INT || p->kind == PARAM_REAL) && p->fallback >= p->min) {
        fprintf(f, "%.10g", p->fallback); /* one below the range stands for: not given */
    }
}

static void print_rows(FILE *f, const struct catalog_param *p)
{
    for (; p->name; p++) {
        fprintf(f, "| `%s` | ", p->name);
        print_range(f, p);
        fprintf(f, " | ");
        print_default(f, p);
        fprintf(f, " | %s |\n", p->help);
    }
}

static void print_params(FILE *f, const struct catalog_param *p)
{
    if (p->name) {
        fprintf(f, "\n| parameter | values | default | what |\n|---|---|---|---|\n");
        print_rows(f, p);
    }
}

static void print_kind(FILE *f, enum catalog_kind kind, const char *title)
{
    fprintf(f, "\n## %s\n", title);
    for (int id = 0; id < CAT_COUNT; id++) {
        const struct catalog_entry *e = catalog_get(id);
        if (e->kind == kind) {
            char line[512];
            snprintf(line, sizeof line, "\n**`%s`**: %s.\n", e->name, e->help);
            fold_print(line, f);
            print_params(f, e->params);
        }
    }
}

static void print_presets(FILE *f)
{
    int n;
    const char *const *names = network_presets(&n);
    fprintf(f,
            "\n## Networks by name\n\n"
            "| `model` | input | layers | parameters | multiply-adds per sample, forward |\n"
            "|---|---|---|---|---|\n");
    for (int i = 0; i < n; i++) {
        struct network net;
        struct jsonx_problems problems = {0};
        json_t *model = json_string(names[i]);
        BUG_ON(network_build(&net, model, "", &problems) != 0);
        fprintf(f, "| `%s` | %d x %d x %d | %d | %zu | %.1f million |\n", names[i],
                net.input.dim[0], net.input.dim[1], net.input.dim[2], net.n_layers, net.n_params,
                network_flops(&net) / 2e6);
        json_decref(model);
        network_release(&net);
    }
}

static void print_section(FILE *f, const char *title, const struct catalog_param *rows)
{
    fprintf(f, "\n### %s\n", title);
    print_params(f, rows);
}

static void print_keys(FILE *f)
{
    fprintf(
        f,
        "\n## Keys of a job spec beside those\n\nRead by `job/spec/spec.c` and `job/spec/parts.c`; "
        "`/openapi.json` has the whole as a schema.\n");
    print_section(f, "At the top", spec_top_params);
    print_section(f, "`elastic`: `workers` is its `max` then, and `min_workers` its `min`",
                  spec_elastic_params);
    print_section(f, "`data`", spec_data_params);
    print_section(f, "`batching`", spec_batching_params);
    print_section(f, "`evaluate`: one of the two; without either, after every epoch",
                  spec_evaluate_params);
    print_section(f, "`checkpoint`: one of the two", spec_checkpoint_params);
    const struct catalog_param keep[] = {spec_keep_param, {.name = NULL}};
    const struct catalog_param accuracy[] = {spec_accuracy_param, {.name = NULL}};
    fprintf(f, "\nand\n");
    print_params(f, keep);
    print_section(f, "`init`: a path, or an object with `path` and", spec_init_params);
    print_section(f, "`target`", accuracy);
    print_section(f, "`exchange`", spec_exchange_params);
}

int main(void)
{
    static const char *const titles[CATALOG_KINDS] = {
        [CATALOG_STRATEGY] = "Strategies (`strategy.type`)",
        [CATALOG_BATCHING] = "Batching (`batching.policy`)",
        [CATALOG_OPTIMIZER] = "Optimizers (`optimizer.type`)",
        [CATALOG_SCHEDULE] = "Schedules (`optimizer.schedule.type`)",
        [CATALOG_LAYER] = "Layers (`model.layers[].type`)",
        [CATALOG_FORMAT] = "Data formats (`data.format`)",
        [CATALOG_AUGMENT] = "Augmentation (keys of `augment`)",
        [CATALOG_DEVICE] = "Devices (`--local-node NAME=…`)",
    };
    FILE *f = stdout;
    fold_print(
        "# The catalogue\n\n"
        "Everything that a job can name, printed from `job/spec/catalog.def` and the rows of "
        "`job/spec/parts.c` by `make docs`. Do not edit: `make check-unit` compares this "
        "page with the code.\n",
        f);
    for (int k = 0; k < CATALOG_KINDS; k++) {
        print_kind(f, k, titles[k]);
    }
    print_presets(f);
    print_keys(f);
    return fflush(f) == 0 && !ferror(f) ? 0 : 1;
}
