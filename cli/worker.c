/* Running the worker's program for its answer; see worker.h. */
#include "cli/worker.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/status.h"
#include "common/path.h"
#include "common/process/answer.h"
#include "common/process/proc.h"
#include "job/documents/results/scored.h"

static int find_program(char *out, struct err *e)
{
    char here[PATH_MAX];
    path_program_dir(here);
    if (!here[0] || snprintf(out, PATH_MAX, "%s/evenstep-worker", here) >= PATH_MAX) {
        return err_set(e, ERR_INTERNAL, "cannot find this program's own folder");
    }
    return access(out, X_OK) == 0 ? 0 : err_errno(e, ERR_NOT_FOUND, "cannot run '%.300s'", out);
}

int worker_check_model(const char *path, struct err *e)
{
    return access(path, R_OK) == 0 ? 0 : err_errno(e, ERR_NOT_FOUND, "cannot read '%.300s'", path);
}

int worker_status(const struct err *e)
{
    return e->code == ERR_NOT_FOUND || e->code == ERR_INVALID ? STATUS_USAGE : STATUS_FAILED;
}

/* Did it give what it was asked for? If not, *e says what it refused, or its last lines. */
static bool is_given(const struct answer *a, struct err *e)
{
    if (a->document && a->code == 0) {
        return true;
    }
    if (!scored_is_refusal(a->document, ERR_DATA, e)) {
        err_set(e, ERR_DATA, "%s",
                a->said && *a->said ? a->said : "evenstep-worker ended without an answer");
    }
    return false;
}

json_t *worker_answer(const char **argv, struct err *e)
{
    char worker[PATH_MAX], dir[64];
    const struct answer_question q = {.argv = argv, .seconds = INFINITY, .die_with_parent = true};
    struct answer a;
    if (find_program(worker, e) < 0 || answer_folder(dir, e) < 0) {
        return NULL;
    }
    argv[0] = worker;
    bool given = answer_get(&a, &q, dir, e) >= 0 && is_given(&a, e);
    json_t *document = given ? json_incref(a.document) : NULL;
    answer_release(&a);
    proc_remove_tree(dir, NULL);
    return document;
}
