/* Sending files; see files.h. The ETag is made of time and size, so that no file is read for it.
 * With If-Range, a range is sent only if the file has not changed since the client got its
 * beginning.
 */
#include "http/content/files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/content/accept.h"
#include "http/content/pages.h"
#include "http/content/text.h"
#include "http/request/request.h"

enum { PATH_BYTES = 1024 };

static const char *const types[][2] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
    {".json", "application/json"},
    {".map", "application/json"},
    {".txt", "text/plain; charset=utf-8"},
    {".log", "text/plain; charset=utf-8"},
    {".woff2", "font/woff2"},
    {".webmanifest", "application/manifest+json"},
};

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof(types) / sizeof(*types); i++) {
        if (strcmp(dot, types[i][0]) == 0) {
            return types[i][1];
        }
    }
    return "application/octet-stream";
}

static bool number(const char **at, uint64_t *out)
{
    size_t n = strspn(*at, "0123456789");
    if (n == 0 || n > 18) {
        return false;
    }
    *out = strtoull(*at, NULL, 10);
    *at += n;
    return true;
}

enum range files_range(const char *header, uint64_t size, struct byte_range *out)
{
    uint64_t first = 0, last = 0;
    if (!header || strncmp(header, "bytes=", 6) != 0) {
        return RANGE_ALL;
    }
    const char *at = header + 6;
    if (*at == '-') { /* the last bytes of the file */
        at++;
        if (!number(&at, &last) || *at) {
            return RANGE_ALL;
        }
        if (last == 0 || size == 0) {
            return RANGE_UNSATISFIABLE;
        }
        out->count = last < size ? last : size;
        out->first = size - out->count;
        return RANGE_PART;
    }
    if (!number(&at, &first) || *at++ != '-') {
        return RANGE_ALL;
    }
    bool open = *at == '\0';
    if ((!open && (!number(&at, &last) || last < first)) || *at) {
        return RANGE_ALL;
    }
    if (first >= size) {
        return RANGE_UNSATISFIABLE;
    }
    out->first = first;
    out->count = (open || last >= size ? size - 1 : last) - first + 1;
    return RANGE_PART;
}

static void etag_of(const struct stat *st, char out[64])
{
    snprintf(out, 64, "\"%" PRIx64 "-%" PRIx64 "\"",
             (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
             (uint64_t)st->st_size);
}

/* Answers with an open file, whole or in part. Takes fd. */
static int send_fd(struct request *q, int fd, const struct stat *st, struct reply *out,
                   struct err *e)
{
    char etag[64], range[96];
    uint64_t size = (uint64_t)st->st_size;
    struct byte_range part = {0, size};
    etag_of(st, etag);
    if (!request_matches(q, etag, out)) {
        close(fd);
        return 0;
    }
    if (accept_etag(request_header(q, "If-None-Match"), etag, true)) {
        close(fd);
        return reply_set_unchanged(out, etag, size, e);
    }
    const char *if_range = request_header(q, "If-Range");
    bool whole = strcmp(q->method, "GET") != 0 || (if_range && strcmp(if_range, etag) != 0);
    enum range wanted = whole ? RANGE_ALL : files_range(request_header(q, "Range"), size, &part);
    if (wanted == RANGE_UNSATISFIABLE) {
        close(fd);
        snprintf(range, sizeof(range), "bytes */%" PRIu64, size);
        reply_problem(out, 416, "range", "the range is outside of the file",
                      "this file ends before the range begins", NULL, NULL);
        reply_header(out, "Content-Range", range);
        return 0;
    }
    out->status = wanted == RANGE_PART ? 206 : 200;
    out->response = MHD_create_response_from_fd_at_offset64(part.count, fd, part.first);
    if (!out->response) {
        close(fd);
        return err_set(e, ERR_MEMORY, "cannot make the answer: memory ran out");
    }
    if (wanted) {
        snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, part.first,
                 part.first + part.count - 1, size);
        reply_header(out, "Content-Range", range);
    }
    reply_header(out, "ETag", etag);
    reply_header(out, "Accept-Ranges", "bytes");
    reply_header(out, "Cache-Control", "no-cache");
    return 0;
}

/* Opens root/path if it is beneath root once links are resolved; else -1. */
static int open_beneath(const char *root, const char *path)
{
    char full[PATH_BYTES];
    int fd = -1;
    if (!files_safe_path(path) ||
        snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full)) {
        return -1;
    }
    char *base = realpath(root, NULL), *real = realpath(full, NULL);
    size_t n = base ? strlen(base) : 0;
    if (base && real && strncmp(real, base, n) == 0 && real[n] == '/') {
        fd = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    free(base);
    free(real);
    return fd;
}

/* Is it a text type, which compresses well? Pictures and fonts are compressed already. */
static bool is_text(const char *type)
{
    return strncmp(type, "text/", 5) == 0 || strstr(type, "json") || strstr(type, "svg");
}

/* Answers with a file of the page from memory, compressed if the browser takes that. false: the
 * caller sends it as it is. */
static bool send_page(struct request *q, const char *path, int fd, const struct stat *st,
                      struct reply *out, struct err *e)
{
    const char *type = type_of(path);
    char etag[64];
    etag_of(st, etag);
    if (!is_text(type) || request_header(q, "Range")) {
        return false;
    }
    struct text *text = pages_get(q->server->pages, path, fd, st, type, etag);
    if (!text || !text_packs(text)) {
        text_drop(text);
        return false;
    }
    /* dispatch.c packs it, or answers 304 if it is unchanged */
    bool made = reply_set_shared(out, 200, text, "no-cache", e) == 0;
    reply_header(out, "Accept-Ranges", "bytes");
    return made;
}

int files_static(struct request *q, const char *root, const char *path, struct reply *out,
                 struct err *e)
{
    struct stat st;
    int fd = open_beneath(root, path);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0) {
            close(fd);
        }
        return err_set(e, ERR_NOT_FOUND, "there is nothing at '%.200s'", path);
    }
    if (send_page(q, path, fd, &st, out, e)) {
        close(fd);
        return 0;
    }
    int sent = send_fd(q, fd, &st, out, e);
    if (sent == 0 && (out->status == 200 || out->status == 206)) {
        reply_header(out, "Content-Type", type_of(path));
    }
    return sent;
}

int files_send(struct request *q, const char *folder, const char *path, bool attachment,
               struct reply *out, struct err *e)
{
    char disposition[256];
    struct stat st;
    int fd = files_open(folder, path, &st);
    if (fd < 0) {
        return err_set(e, ERR_NOT_FOUND, "this job has no file '%.200s'", path);
    }
    int sent = send_fd(q, fd, &st, out, e);
    if (sent == 0 && (out->status == 200 || out->status == 206)) {
        reply_header(out, "Content-Type",
                     attachment ? "application/octet-stream" : "text/plain; charset=utf-8");
        if (attachment) {
            const char *slash = strrchr(path, '/');
            snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"",
                     slash ? slash + 1 : path);
            reply_header(out, "Content-Disposition", disposition);
        }
    }
    return sent;
}
