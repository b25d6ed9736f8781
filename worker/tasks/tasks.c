/* From the command line to a task (see tasks.h). */
#include "worker/tasks/tasks.h"

#include "worker/tasks/check.h"
#include "worker/tasks/compare.h"
#include "worker/tasks/evaluate.h"
#include "worker/tasks/export.h"

static int evaluate(const struct worker_config *c, struct err *e)
{
    const struct opt_values *o = c->options;
    const struct evaluate_ask ask = {.model = opt_string(o, "evaluate"),
                                     .data = opt_string(o, "data-set"),
                                     .format = opt_string(o, "format"),
                                     .spec = opt_string(o, "spec"),
                                     .part = opt_string(o, "part"),
                                     .device = opt_string(o, "device"),
                                     .outputs = opt_string(o, "outputs"),
                                     .roots = c->roots,
                                     .batch = (int)opt_int(o, "batch"),
                                     .pictures = opt_flag(o, "pictures")};
    return evaluate_run(&ask, e);
}

bool tasks_has(enum worker_mode mode)
{
    return mode != WORKER_JOB && mode != WORKER_LOCAL;
}

int tasks_run(const struct worker_config *c, struct err *e)
{
    const struct opt_values *o = c->options;
    const char *show = opt_string(o, "show");
    switch (c->mode) {
    case WORKER_DATASETS:
        return show ? check_preview(c->roots, show, opt_flag(o, "whole"), e)
                    : check_datasets(c->roots, opt_string(o, "cache"), e);
    case WORKER_PROBE:
        return check_device(opt_string(o, "probe"), e);
    case WORKER_CHECK:
        return check_spec(c->spec_file, c->roots, opt_string(o, "init"), e);
    case WORKER_EVALUATE:
        return evaluate(c, e);
    case WORKER_EXPORT:
        return export_onnx(opt_string(o, "export-onnx"), opt_string(o, "to"), e);
    case WORKER_COMPARE:
        return compare_models((const char *[]){opt_string(o, "compare"), opt_string(o, "with"),
                                               opt_string(o, "beside")},
                              e);
    case WORKER_JOB:
    case WORKER_LOCAL:
        break;
    }
    return err_set(e, ERR_INTERNAL, "a job is no task");
}
