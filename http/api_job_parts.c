/* Parts of a job: workers, staleness, assignments, evaluations, logs, artifacts. Files on disk
 * (logs, artifacts) are served without the store, so they can be seen while it is away; only for a
 * job without a folder is the store asked.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/api.h"
#include "http/files.h"
#include "http/request.h"

enum { PATH_BYTES = 1024, TAIL_BYTES = 4 << 20 };

/* The job's folder; the job is known to be there. */
static int job_folder(struct request *q, const char *sub, char path[PATH_BYTES], struct err *e)
{
    struct stat st;
    enum job_state state;
    int made = request_job_path(q, "", path, PATH_BYTES, e);
    if (made == 0 && stat(path, &st) < 0) {
        struct store *store = request_store(q, e);
        made = store ? store_job_state(store, q->match.args[0], &state, e) : -(int)e->code;
    }
    return made < 0 ? made : request_job_path(q, sub, path, PATH_BYTES, e);
}

/* ---- what the store has ---------------------------------------------------------------------- */

static json_t *whole_job(struct request *q, struct err *e)
{
    const char *id = request_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    return store ? store_job_get(store, id, e) : NULL;
}

int api_job_workers(struct request *q, struct reply *out, struct err *e)
{
    json_t *job = whole_job(q, e);
    if (!job) {
        return -(int)e->code;
    }
    json_t *body = json_pack("{s:O, s:O}", "workers", json_object_get(job, "workers"), "servers",
                             json_object_get(job, "servers"));
    json_decref(job);
    return reply_set_json(out, 200, body, e);
}

/* A document of the monitor; before it has written one, {key: []}. */
static int answer_detail(struct request *q, struct reply *out, const char *doc, const char *key,
                         struct err *e)
{
    enum job_state state;
    const char *id = request_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    if (!store || store_job_state(store, id, &state, e) < 0) {
        return -(int)e->code;
    }
    err_clear(e);
    json_t *body = store_doc_get(store, id, doc, e);
    if (!body && e->code) {
        return -(int)e->code;
    }
    return reply_set_json(out, 200, body ? body : json_pack("{s:[]}", key), e);
}

int api_job_staleness(struct request *q, struct reply *out, struct err *e)
{
    return answer_detail(q, out, "detail:staleness", "nodes", e);
}

int api_job_evaluations(struct request *q, struct reply *out, struct err *e)
{
    return answer_detail(q, out, "detail:evaluations", "evaluations", e);
}

int api_job_assignments(struct request *q, struct reply *out, struct err *e)
{
    enum job_state state;
    const char *id = request_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    if (!store || store_job_state(store, id, &state, e) < 0) {
        return -(int)e->code;
    }
    json_t *list = store_assignments(store, id, e);
    return list ? reply_set_json(out, 200, json_pack("{s:o}", "assignments", list), e)
                : -(int)e->code;
}

/* ---- logs ------------------------------------------------------------------------------------ */

/* Where the last `lines` lines of n bytes begin. A newline at the very end ends the last line. */
static size_t tail_start(const char *text, size_t n, long lines)
{
    size_t at = n > 0 && text[n - 1] == '\n' ? n - 1 : n;
    for (; at > 0; at--) {
        if (text[at - 1] == '\n' && --lines == 0) {
            return at;
        }
    }
    return 0;
}

/* The last bytes of a file, from the beginning of a line; the caller frees. NULL with ERR_IO, or
 * memory. */
static char *read_end(int fd, const char *name, size_t *n, struct err *e)
{
    off_t size = lseek(fd, 0, SEEK_END);
    size_t want = size > TAIL_BYTES ? TAIL_BYTES : size > 0 ? (size_t)size : 0, got = 0;
    char *text = malloc(want + 1);
    if (!text) {
        err_set(e, ERR_MEMORY, "cannot read log '%s': memory ran out", name);
        return NULL;
    }
    while (got < want) {
        ssize_t more = pread(fd, text + got, want - got, size - (off_t)(want - got));
        if (more <= 0) {
            break;
        }
        got += (size_t)more;
    }
    if (size > TAIL_BYTES) { /* the first line is a part of one */
        char *newline = memchr(text, '\n', got);
        size_t skip = newline ? (size_t)(newline - text) + 1 : 0;
        got -= skip;
        memmove(text, text + skip, got);
    }
    *n = got;
    return text;
}

static int send_tail(const char *folder, const char *name, long lines, struct reply *out,
                     struct err *e)
{
    char path[PATH_BYTES + 64];
    size_t n = 0;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return err_set(e, ERR_NOT_FOUND, "this job has no log '%s'", name);
    }
    char *text = read_end(fd, name, &n, e);
    close(fd);
    if (!text) {
        return -(int)e->code;
    }
    size_t start = tail_start(text, n, lines);
    memmove(text, text + start, n - start);
    return reply_set_text(out, 200, "text/plain; charset=utf-8", text, n - start, e);
}

/* Is this rank among the job's workers and servers, or is nothing known of them yet? */
static bool may_have_rank(struct request *q, long rank)
{
    static const char *const lists[] = {"workers", "servers"};
    struct err away;
    json_t *job = whole_job(q, &away), *one;
    size_t known = 0, i;
    bool found = false;
    for (int k = 0; k < 2; k++) {
        json_t *list = json_object_get(job, lists[k]);
        known += json_array_size(list);
        json_array_foreach(list, i, one) {
            found |= json_integer_value(json_object_get(one, "rank")) == rank;
        }
    }
    json_decref(job);
    return found || known == 0;
}

int api_job_logs(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES], name[32] = "attempt.log", path[PATH_BYTES + 64];
    long rank = request_int(q, "rank", -1), lines = request_int(q, "tail", 0);
    if (job_folder(q, "logs", folder, e) < 0) {
        return -(int)e->code;
    }
    if (rank >= 0) {
        snprintf(name, sizeof(name), "rank-%ld.log", rank);
    }
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (access(path, F_OK) < 0) { /* nothing was said yet */
        return rank < 0 || may_have_rank(q, rank)
                   ? reply_set_text(out, 200, "text/plain; charset=utf-8", strdup(""), 0, e)
                   : err_set(e, ERR_NOT_FOUND, "this job has no rank %ld", rank);
    }
    return lines > 0 ? send_tail(folder, name, lines, out, e)
                     : files_send(q, folder, name, false, out, e);
}

/* ---- artifacts ------------------------------------------------------------------------------- */

int api_job_artifacts(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    if (job_folder(q, "artifacts", folder, e) < 0) {
        return -(int)e->code;
    }
    json_t *list = files_list(q->server->digests, folder, e);
    return list ? reply_set_json(out, 200, json_pack("{s:o}", "artifacts", list), e)
                : -(int)e->code;
}

int api_job_artifact(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    int made = job_folder(q, "artifacts", folder, e);
    return made < 0 ? made : files_send(q, folder, q->match.args[1], true, out, e);
}
