/* See export.h; worker/checkpoint/onnx.c writes the file. */
#include "worker/tasks/export.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json/jsonx.h"
#include "job/documents/results/scored.h"
#include "worker/checkpoint/onnx.h"
#include "worker/tasks/print.h"

static int print(const char *path, int rc, struct err *e)
{
    struct stat st = {0};
    if (rc >= 0 && stat(path, &st) < 0) {
        rc = err_errno(e, ERR_IO, "cannot find '%.300s', which was written", path);
    }
    json_t *out = rc < 0 ? scored_refusal(e)
                         : json_pack("{s:s, s:I}", "file", path, "bytes", (json_int_t)st.st_size);
    return print_answer(out) || rc < 0 ? rc : err_set(e, ERR_IO, "cannot print the answer");
}

int export_onnx(const char *model, const char *to, struct err *e)
{
    const char *end = strstr(model, ".safetensors");
    char path[PATH_MAX];
    int n = end && !end[strlen(".safetensors")] ? (int)(end - model) : (int)strlen(model);
    int rc = 0;
    if (snprintf(path, sizeof(path), "%.*s.onnx", n, model) >= (int)sizeof(path)) {
        rc = err_set(e, ERR_TOO_LARGE, "the name '%.100s…' is too long", model);
    }
    to = to ? to : path;
    return print(to, rc < 0 ? rc : onnx_export(model, to, e), e);
}
