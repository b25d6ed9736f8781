/* `evenstep export MODEL`: a model's file as ONNX, which other programs run. No service is asked:
 * this program becomes the worker's, beside it (`evenstep-worker --export-onnx`). */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "cli/status.h"
#include "common/opt.h"

const struct opt export_options[] = {
    {"to", "FILE", OPT_STRING, NULL, 0, 0,
     "where it goes (default: MODEL with .onnx in place of .safetensors)"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    {0},
};

/* Returns only where the worker cannot be run; else it says itself what went wrong. */
static int become_worker(const char *model, const char *to)
{
    char worker[PATH_MAX];
    struct err e = {0};
    if (worker_path(worker, &e) == 0) {
        execl(worker, worker, "--export-onnx", model, to ? "--to" : (char *)NULL, to, (char *)NULL);
        err_errno(&e, ERR_IO, "cannot run '%.300s'", worker);
    }
    session_complain(&e, NULL);
    return STATUS_FAILED;
}

int command_export(int argc, char **argv)
{
    static const char usage[] = "evenstep export MODEL [--to FILE]";
    struct err e = {0};
    struct opt_values *o = NULL;
    int rc = opt_begin(export_options, usage, argc, argv, &o, &e);
    if (rc != OPT_TO_DO) {
        if (rc < 0) {
            session_complain(&e, NULL);
        }
        return rc < 0 ? STATUS_USAGE : STATUS_DONE;
    }
    int status = STATUS_USAGE;
    if (opt_positionals(o) == 1) {
        status = become_worker(opt_positional(o, 0), opt_string(o, "to"));
    } else {
        fprintf(stderr, "usage: %s\n", usage);
    }
    opt_free(o);
    return status;
}
