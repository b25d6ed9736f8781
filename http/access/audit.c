/* The files of the audit; see audit.h. Readers take no lock: lines are only ever appended, and a
 * line without its end does not count yet.
 */
#include "http/access/audit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json/jsonx.h"
#include "common/log.h"
#include "common/process/proc.h"

struct audit {
    char dir[512];
    pthread_mutex_t lock; /* guards everything below */
    int fd, number;       /* the newest file; fd -1: it could not be opened */
    off_t size;
    struct clock_minute strangers;
    long omitted, lost; /* entries omitted since the last one of a stranger, and lost since the last
                           that was written */
};

static void path_of(const struct audit *a, int number, char out[600])
{
    snprintf(out, 600, "%s/%06d.jsonl", a->dir, number);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The number of the newest file; 0: there is none. */
static int newest(const struct audit *a)
{
    DIR *dir = opendir(a->dir);
    int most = 0, number;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        char end[8] = "";
        if (sscanf(d->d_name, "%d%7s", &number, end) == 2 && strcmp(end, ".jsonl") == 0 &&
            number > most) {
            most = number;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return most;
}

/* Opens file `number` to append. It ends a line that a crash cut short. */
static int open_file(struct audit *a, int number, struct err *e)
{
    char path[600], last = '\n';
    path_of(a, number, path);
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_errno(e, ERR_IO, "cannot open the audit file '%s'", path);
    }
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n') {
        size += write(fd, "\n", 1) == 1;
    }
    a->fd = fd;
    a->number = number;
    a->size = size;
    return 0;
}

struct audit *audit_open(const char *data_dir, struct err *e)
{
    struct audit *a = calloc(1, sizeof(*a));
    if (!a) {
        err_set(e, ERR_MEMORY, "cannot keep an audit: memory ran out");
        return NULL;
    }
    snprintf(a->dir, sizeof(a->dir), "%s/audit", data_dir);
    int rc = proc_mkdirs(a->dir, 0700, e), number = rc < 0 ? 0 : newest(a);
    if (rc < 0 || open_file(a, number ? number : 1, e) < 0) {
        free(a);
        return NULL;
    }
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void audit_close(struct audit *a)
{
    if (a) {
        if (a->fd >= 0) {
            fdatasync(a->fd);
            close(a->fd);
        }
        pthread_mutex_destroy(&a->lock);
        free(a);
    }
}

/* Goes on in the next file, and deletes the oldest one beyond AUDIT_FILES. */
static int rotate(struct audit *a, struct err *e)
{
    char path[600];
    int full = a->fd;
    if (open_file(a, a->number + 1, e) < 0) {
        return -(int)e->code;
    }
    fdatasync(full);
    close(full);
    for (int old = a->number - AUDIT_FILES; old > 0; old--) {
        path_of(a, old, path);
        if (unlink(path) < 0) {
            break;
        }
    }
    return 0;
}

/* May an entry of an unknown sender be written now? */
static bool takes_stranger(struct audit *a)
{
    bool over = clock_minute_over(&a->strangers, AUDIT_STRANGERS);
    a->omitted += over;
    return !over;
}

/* The line, with its end; the caller frees. NULL: memory ran out. */
static char *line_of(struct audit *a, const struct audit_entry *x, size_t *n)
{
    char time[32];
    json_t *j =
        json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:o, s:o}", "time",
                  clock_format(time, clock_wall_ms()), "who", jsonx_text(x->who), "role", x->role,
                  "token", x->token, "by",
                  !x->known    ? "nobody"
                  : x->session ? "session"
                               : "token",
                  "from", x->from, "method", x->method, "path", jsonx_text(x->path), "status",
                  x->status, "note", jsonx_text(x->note), "request", jsonx_text(x->request));
    if (j && a->omitted) {
        json_object_set_new(j, "omitted", json_integer(a->omitted));
    }
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    *n = text ? strlen(text) : 0;
    if (text) {
        text[(*n)++] = '\n'; /* in place of its NUL */
    }
    return text;
}

static int append(struct audit *a, const struct audit_entry *entry, struct err *e)
{
    size_t n;
    char *line = line_of(a, entry, &n);
    int rc = line ? 0 : err_set(e, ERR_MEMORY, "memory ran out");
    if (rc == 0 && a->size + (off_t)n > AUDIT_FILE_BYTES) {
        rc = rotate(a, e);
    }
    if (rc == 0) {
        ssize_t wrote = write(a->fd, line, n);
        a->size += wrote > 0 ? wrote : 0;
        if (wrote < 0) {
            rc = err_errno(e, ERR_IO, "cannot write");
        } else if ((size_t)wrote < n) { /* the disk is full: the rest would look like a line */
            a->size -= ftruncate(a->fd, a->size - wrote) == 0 ? wrote : 0;
            rc = err_set(e, ERR_IO, "the disk is full");
        }
    }
    free(line);
    return rc;
}

/* Logs lost entries: the first, second, fourth, … in a row. */
static void tell_lost(struct audit *a, const struct err *e)
{
    a->lost++;
    if ((a->lost & (a->lost - 1)) == 0) {
        log_error("http", "an entry of the audit is lost", "lost=%ld reason=\"%s\"", a->lost,
                  e->message);
    }
}

void audit_add(struct audit *a, const struct audit_entry *entry)
{
    struct err e = {0};
    pthread_mutex_lock(&a->lock);
    if (entry->known || takes_stranger(a)) {
        if (append(a, entry, &e) == 0) {
            a->omitted = a->lost = 0;
        } else {
            tell_lost(a, &e);
        }
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct page {
    const struct audit_query *q;
    char *who;               /* `"who":"olga"` as a line has it, or NULL; owned */
    size_t since;            /* characters of q->since that are compared */
    json_t *entries;         /* owned */
    char next[AUDIT_CURSOR]; /* "": there are no more */
    bool done;
};

/* Takes one line, without its end. */
static void take_line(struct page *p, const char *line, size_t n, int number, long offset)
{
    struct err ignored;
    if (p->who && !memmem(line, n, p->who, strlen(p->who))) {
        return;
    }
    json_t *j = jsonx_parse(line, n, &ignored);
    if (j && p->since && strncmp(jsonx_string_at(j, "time"), p->q->since, p->since) < 0) {
        p->done = true; /* all further lines are older */
    } else if (j && (!p->q->who || strcmp(jsonx_string_at(j, "who"), p->q->who) == 0)) {
        if ((int)json_array_size(p->entries) == p->q->limit) {
            p->done = true;
        } else {
            json_array_append(p->entries, j);
            snprintf(p->next, sizeof(p->next), "%d-%ld", number, offset);
        }
    }
    json_decref(j);
}

/* Takes the lines of a file that end before byte `before`, the last one first. */
static void take_file(struct page *p, int number, const char *text, long before)
{
    long end = before;
    while (end > 0 && text[end - 1] != '\n') { /* skips a line that has no end yet */
        end--;
    }
    while (end > 0 && !p->done) {
        long begin = end - 1;
        while (begin > 0 && text[begin - 1] != '\n') {
            begin--;
        }
        take_line(p, text + begin, (size_t)(end - 1 - begin), number, begin);
        end = begin;
    }
}

/* Takes lines from the cursor, or the newest file, back to the oldest. */
static void take_files(const struct audit *a, struct page *p, int number, long before)
{
    char path[600];
    for (; number > 0 && !p->done; number--, before = -1) {
        struct err e;
        size_t n = 0;
        path_of(a, number, path);
        char *text = proc_read_file(path, AUDIT_FILE_BYTES + (1 << 20), &n, &e);
        if (!text && e.code == ERR_NOT_FOUND) {
            return;
        }
        if (text) {
            take_file(p, number, text, before >= 0 && before < (long)n ? before : (long)n);
        }
        free(text);
    }
}

/* Checks that `since` is a time or the beginning of one. *n: how many characters to compare. */
static int check_since(const char *since, size_t *n, struct err *e)
{
    static const char form[] = "0000-00-00T00:00:00.000";
    size_t i = 0;
    for (; form[i] && since[i] && since[i] != 'Z'; i++) {
        bool digit = since[i] >= '0' && since[i] <= '9';
        if (form[i] == '0' ? !digit : since[i] != form[i]) {
            break;
        }
    }
    if (i < strlen("0000-00-00") || (since[i] && strcmp(since + i, "Z") != 0)) {
        return err_set(e, ERR_INVALID, "'%.40s' is not a time such as 2026-01-02T03:04:05Z", since);
    }
    *n = i;
    return 0;
}

static int page_init(struct page *p, const struct audit_query *q, int *number, long *before,
                     struct err *e)
{
    char junk;
    *p = (struct page){.q = q, .entries = json_array()};
    if (q->since && check_since(q->since, &p->since, e) < 0) {
        return -(int)e->code;
    }
    if (q->cursor && (sscanf(q->cursor, "%9d-%9ld%c", number, before, &junk) != 2 || *number < 1 ||
                      *before < 0)) {
        return err_set(e, ERR_INVALID, "the cursor '%.60s' is not one of this list", q->cursor);
    }
    if (q->who) {
        json_t *pair = json_pack("{s:s}", "who", q->who);
        char *text = json_dumps(pair, JSON_COMPACT);
        json_decref(pair);
        if (!text) {
            return err_set(e, ERR_MEMORY, "cannot read the audit: memory ran out");
        }
        text[strlen(text) - 1] = '\0';
        p->who = strdup(text + 1); /* without its braces */
        free(text);
    }
    return 0;
}

json_t *audit_read(struct audit *a, const struct audit_query *q, struct err *e)
{
    struct page p;
    json_t *out = NULL;
    long before = -1;
    pthread_mutex_lock(&a->lock);
    int number = a->number;
    pthread_mutex_unlock(&a->lock);
    if (page_init(&p, q, &number, &before, e) == 0) {
        take_files(a, &p, number, before);
        bool more = p.done && (int)json_array_size(p.entries) == q->limit;
        out = json_pack("{s:O, s:o}", "entries", p.entries, "next",
                        more ? json_string(p.next) : json_null());
    }
    json_decref(p.entries);
    free(p.who);
    return out;
}
