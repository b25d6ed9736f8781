/* `evenstep export MODEL`: a model's file as ONNX, which other programs run. No service is asked:
 * the worker's program next to this one writes it (`evenstep-worker --export-onnx`). */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "cli/status.h"
#include "common/text/terminal.h"
#include "cli/worker.h"
#include "common/json/jsonx.h"
#include "common/opt.h"
#include "common/text/text.h"

const struct opt export_options[] = {
    {"to", "FILE", OPT_STRING, NULL, 0, 0,
     "where it goes (default: MODEL with .onnx in place of .safetensors)"},
    {"json", NULL, OPT_FLAG, NULL, 0, 0, "prints JSON: the file that was written, and its bytes"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    {0},
};

static int export(const char *model, const char *to, bool json)
{
    struct err e = {0};
    const char *argv[] = {NULL, "--export-onnx", model, to ? "--to" : NULL, to, NULL};
    json_t *answer = worker_check_model(model, &e) < 0 ? NULL : worker_answer(argv, &e);
    if (!answer) {
        session_complain(&e, NULL);
        return worker_status(&e);
    }
    if (json) {
        session_put(answer);
    } else {
        char shown[2048];
        terminal_say("", "%s", text_shown(shown, sizeof shown, jsonx_string_at(answer, "file")));
    }
    json_decref(answer);
    return STATUS_DONE;
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
        status = export(opt_positional(o, 0), opt_string(o, "to"), opt_flag(o, "json"));
    } else {
        fprintf(stderr, "usage: %s\n", usage);
    }
    opt_free(o);
    return status;
}
