/* See answer.h. */
#include "common/process/answer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/process/proc.h"

enum { DOCUMENT_BYTES = 64 << 20, SAID_BYTES = 1 << 20 };

int answer_folder(char dir[64], struct err *e)
{
    snprintf(dir, 64, "/tmp/evenstep-answer-XXXXXX");
    return mkdtemp(dir) ? 0 : err_errno(e, ERR_IO, "cannot make a folder in /tmp");
}

int answer_get(struct answer *out, const struct answer_question *q, const char *dir, struct err *e)
{
    char printed[PATH_MAX], said[PATH_MAX];
    *out = (struct answer){0};
    snprintf(printed, sizeof printed, "%s/out", dir);
    snprintf(said, sizeof said, "%s/err", dir);
    struct proc_spec spec = {.argv = q->argv,
                             .stdout_path = printed,
                             .stderr_path = said,
                             .memory_bytes = q->memory_bytes,
                             .die_with_parent = q->die_with_parent};
    pid_t pid = proc_start(&spec, e);
    if (pid < 0) {
        return (int)pid;
    }
    out->code = proc_await(pid, q->seconds);
    out->document = jsonx_load(printed, DOCUMENT_BYTES, &out->unread);
    out->said = proc_read_file(said, SAID_BYTES, NULL, NULL);
    return 0;
}

void answer_release(struct answer *a)
{
    json_decref(a->document);
    free(a->said);
}
