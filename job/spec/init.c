/* The key `init` of a job spec: where a job's first parameters come from. A path is the short form.
 * The long form says which tensors need not fit (another head on a trained body), or that the job
 * goes on where another one ended. The worker, which has the file, finds out whether this is
 * possible (worker/training/start.c). */
#include <stdio.h>
#include <string.h>

#include "job/spec/parts.h"

const struct catalog_param spec_init_params[] = {
    {"allow", PARAM_NAMES, 0, 0, 0, 0, NULL, NULL,
     "tensors that may be missing, left over or of another shape; * stands for any text"},
    {"continue", PARAM_BOOL, 0, 0, 0, 1, NULL, NULL,
     "the path is a checkpoint, or a job's `checkpoints`: optimizer, epochs and steps go on from "
     "it"},
    {.name = NULL},
};

static void read_allow(struct init_spec *how, struct fields *in)
{
    const json_t *allow = json_object_get(in->full, "allow");
    size_t i;
    json_t *name;
    if (json_array_size(allow) > SPEC_ALLOW) {
        fields_problem(in, "allow", "'allow' has %zu names, more than %d", json_array_size(allow),
                       SPEC_ALLOW);
        return;
    }
    json_array_foreach((json_t *)allow, i, name) {
        if (json_string_length(name) == 0 || json_string_length(name) >= sizeof how->allow[0]) {
            fields_problem(in, "allow", "a name of a tensor must be text of 1 to %zu bytes",
                           sizeof how->allow[0] - 1);
            return;
        }
        snprintf(how->allow[how->n_allow++], sizeof how->allow[0], "%s", json_string_value(name));
    }
}

void spec_read_init(struct jobspec *spec, struct fields *f)
{
    struct init_spec *how = &spec->init_how;
    const json_t *given = json_object_get(f->given, "init");
    const char *path;
    if (!json_is_object(given)) {
        path = fields_text(f, "init", false, SPEC_PATH);
    } else {
        struct fields in;
        spec_open(&in, f, "init", false);
        path = fields_text(&in, "path", true, SPEC_PATH);
        fields_params(&in, spec_init_params);
        fields_close(&in);
        read_allow(how, &in);
        how->go_on = json_is_true(json_object_get(in.full, "continue"));
        if (how->go_on && how->n_allow > 0) {
            fields_problem(
                &in, "allow",
                "a job that continues another one takes all of it: 'allow' and 'continue' exclude "
                "each other");
        }
    }
    snprintf(spec->init, sizeof spec->init, "%s", path ? path : "");
}
