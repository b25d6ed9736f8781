/* Logs of a job: one of them, whole or its last lines, or the last lines of all. They are files on
 * disk, so they can be seen while the store is away.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/api/api.h"
#include "http/content/files.h"
#include "http/request/request.h"

enum {
    PATH_BYTES = 1024,
    TAIL_BYTES = 4 << 20, /* of one log */
    ALL_BYTES = 8 << 20,  /* of all logs together, shared out evenly */
    RANKS_MOST = 4096,
    LINES_USUAL = 200 /* of each log, when all are asked for */
};

/* Where the last `lines` lines of n bytes begin. A newline at the end ends the last line. */
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

/* The last bytes of a file, at most so many, from the beginning of a line; the caller frees. NULL
 * with ERR_IO, or memory. */
static char *read_end(int fd, const char *name, size_t most, size_t *n, struct err *e)
{
    off_t size = lseek(fd, 0, SEEK_END);
    size_t want = size > (off_t)most ? most : size > 0 ? (size_t)size : 0, got = 0;
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
    if (size > (off_t)most) { /* drops the first line, which may be incomplete */
        char *newline = memchr(text, '\n', got);
        size_t skip = newline ? (size_t)(newline - text) + 1 : 0;
        got -= skip;
        memmove(text, text + skip, got);
    }
    *n = got;
    return text;
}

/* The last lines of a log, at most `most` bytes; the caller frees. */
static char *read_tail(const char *folder, const char *name, long lines, size_t most, size_t *n,
                       struct err *e)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        err_set(e, ERR_NOT_FOUND, "this job has no log '%s'", name);
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    char *text = read_end(fd, name, most, n, e);
    close(fd);
    if (text) {
        size_t start = tail_start(text, *n, lines);
        *n -= start;
        memmove(text, text + start, *n);
    }
    return text;
}

static int send_tail(const char *folder, const char *name, long lines, struct reply *out,
                     struct err *e)
{
    size_t n = 0;
    char *text = read_tail(folder, name, lines, TAIL_BYTES, &n, e);
    return text ? reply_set_text(out, 200, "text/plain; charset=utf-8", text, n, e) : -(int)e->code;
}

/* ---- all logs in one answer ------------------------------------------------------------------ */

/* The ranks that have a log, ascending. Returns how many. */
static int ranks_of(const char *folder, int ranks[RANKS_MOST])
{
    bool seen[RANKS_MOST] = {false};
    int n = 0, rank;
    char end;
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        if (sscanf(entry->d_name, "rank-%4d.lo%c", &rank, &end) == 2 && end == 'g' && rank >= 0 &&
            rank < RANKS_MOST) {
            seen[rank] = true;
        }
    }
    if (d) {
        closedir(d);
    }
    for (rank = 0; rank < RANKS_MOST; rank++) {
        if (seen[rank]) {
            ranks[n++] = rank;
        }
    }
    return n;
}

/* Appends a log's last lines, each with "NAME: " in front. A log that cannot be read is left out.
 */
static void add_log(struct buf *all, const char *folder, const char *file, const char *name,
                    long lines, size_t most)
{
    struct err unread;
    size_t n = 0;
    char *text = read_tail(folder, file, lines, most, &n, &unread);
    for (size_t at = 0; text && at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t len = newline ? (size_t)(newline - text) - at : n - at;
        buf_addf(all, "%s: ", name);
        buf_add(all, text + at, len);
        buf_adds(all, "\n");
        at += len + 1;
    }
    free(text);
}

static int send_all(const char *folder, long lines, struct reply *out, struct err *e)
{
    int ranks[RANKS_MOST], n = ranks_of(folder, ranks);
    size_t most = ALL_BYTES / (size_t)(n + 1), len = 0;
    char file[32], name[32];
    struct buf all;
    buf_init(&all, 2 * (size_t)ALL_BYTES);
    add_log(&all, folder, "attempt.log", "launcher", lines, most);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof(file), "rank-%d.log", ranks[i]);
        snprintf(name, sizeof(name), "rank-%d", ranks[i]);
        add_log(&all, folder, file, name, lines, most);
    }
    char *text = all.len ? buf_take(&all, &len) : strdup("");
    buf_release(&all);
    return reply_set_text(out, 200, "text/plain; charset=utf-8", text, len, e);
}

/* ---- the route ------------------------------------------------------------------------------- */

/* Is this rank among the job's workers and servers, or is nothing known of them yet? */
static bool may_have_rank(struct request *q, long rank)
{
    static const char *const lists[] = {"workers", "servers"};
    struct err away;
    json_t *job = request_whole_job(q, &away), *one;
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
    bool all = request_bool(q, "all");
    if (request_job_folder(q, "logs", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    if (all && rank >= 0) {
        jsonx_problem(&q->problems, "rank", "either all logs are asked for, or that of one rank");
        return request_not_valid(q, "the query of this request", e);
    }
    if (all) {
        return send_all(folder, lines > 0 ? lines : LINES_USUAL, out, e);
    }
    if (rank >= 0) {
        snprintf(name, sizeof(name), "rank-%ld.log", rank);
    }
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (access(path, F_OK) < 0) { /* there is no output yet */
        return rank < 0 || may_have_rank(q, rank)
                   ? reply_set_text(out, 200, "text/plain; charset=utf-8", strdup(""), 0, e)
                   : err_set(e, ERR_NOT_FOUND, "this job has no rank %ld", rank);
    }
    return lines > 0 ? send_tail(folder, name, lines, out, e)
                     : files_send(q, folder, name, false, out, e);
}
