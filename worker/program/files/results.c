/* The files that a program leaves: see results.h.
 *
 *     rank 0 ── a piece: name, bytes of it, how many follow ──► keeper, which appends them to
 *               … and so on, file after file …                  NAME.part, and renames that
 *            ── a piece without a name: the end ──────────────►
 */
#include "worker/program/files/results.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/buf.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "job/spec/spec.h"

enum { TAG_RESULT = 903, PIECE_FLOATS = 64 << 10, NAME_BYTES = 512, DEPTH_MOST = 32 };
enum { NAMED_MOST = 8 };
enum { PIECE_BYTES = PIECE_FLOATS * (int)sizeof(float) };

struct piece {
    char name[NAME_BYTES]; /* beneath the folder; "": there is no further file */
    int64_t left;          /* bytes of the file that follow this piece */
    int32_t bytes;
    int32_t executable;
};

struct bringing {
    const struct results_ask *ask;
    const char *folder; /* rank 0's: to be sent; NULL: the program wrote to the job's folder */
    struct piece head;
    float *body; /* [PIECE_FLOATS] */
    FILE *file;  /* the keeper's, under way */
    int files;
    struct err *err;
};

/* ---- messages -------------------------------------------------------------------------------- */

static size_t floats_of(int bytes)
{
    return bytes > 0 ? ((size_t)bytes + sizeof(float) - 1) / sizeof(float) : 1;
}

/* The piece in b->head and b->body, sent or received. false: rank 0 is gone, or, with b->err set,
 * it failed. A second is waited for at a time, so that the heartbeat says that we are alive. */
static bool move_piece(struct bringing *b)
{
    struct comm *c = b->ask->comm;
    struct telemetry *t = b->ask->telemetry;
    struct message m;
    int rc;
    if (c->rank == 0) {
        message_send(&m, c, c->workers, TAG_RESULT, &b->head, sizeof(b->head), b->body,
                     floats_of(b->head.bytes));
    } else {
        message_recv(&m, c, 0, TAG_RESULT, &b->head, sizeof(b->head), b->body, PIECE_FLOATS);
    }
    while ((rc = comm_wait_for(c, &m.op, 1, b->err)) == COMM_UNDER_WAY) {
        t->phase(t->ctx, PHASE_CHECKPOINT);
        if (c->rank != 0 && b->ask->first_is_gone(b->ask->ctx)) {
            log_warn("program", "rank 0 has died, and what it wrote with it", "%s", "");
            comm_abandon(c); /* the message lies on our stack */
            return false;
        }
    }
    return rc == COMM_DONE;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static int send_folder(struct bringing *b, const char *folder, int depth);

static int send_file(struct bringing *b, const char *path, const struct stat *st)
{
    FILE *f = fopen(path, "rbe");
    int64_t left = (int64_t)st->st_size;
    int rc =
        f ? 0 : err_errno(b->err, ERR_IO, "cannot read what the program wrote, '%.300s'", path);
    b->head.executable = (st->st_mode & S_IXUSR) != 0;
    do {
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        if (rc == 0 && fread(b->body, 1, n, f) != n) {
            rc = err_set(b->err, ERR_IO, "'%.300s' became shorter while it was sent", path);
        }
        left -= (int64_t)n;
        b->head.bytes = (int32_t)n;
        b->head.left = left;
        if (rc == 0 && !move_piece(b)) {
            rc = -(int)b->err->code;
        }
    } while (rc == 0 && left > 0);
    if (f) {
        fclose(f);
    }
    b->files++;
    return rc;
}

static int send_path(struct bringing *b, const char *name, int depth)
{
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof(path), "%s/%s", b->folder, name) >= (int)sizeof(path) ||
        strlen(name) >= NAME_BYTES || depth > DEPTH_MOST) {
        return err_set(b->err, ERR_DATA, "the program's file '%.200s…' has too long a path", name);
    }
    if (lstat(path, &st) != 0 || S_ISDIR(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? send_folder(b, name, depth + 1) : 0;
    }
    if (!S_ISREG(st.st_mode)) {
        return 0;
    }
    memset(&b->head, 0, sizeof(b->head));
    snprintf(b->head.name, sizeof(b->head.name), "%s", name);
    return send_file(b, path, &st);
}

/* folder: relative, "" for the top. */
static int send_folder(struct bringing *b, const char *folder, int depth)
{
    char path[PATH_MAX], name[PATH_MAX];
    int rc = 0;
    snprintf(path, sizeof(path), "%.2000s/%.2000s", b->folder, folder);
    DIR *d = opendir(path);
    for (const struct dirent *one; rc == 0 && d && (one = readdir(d));) {
        if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0) {
            snprintf(name, sizeof(name), "%.3000s%s%s", folder, *folder ? "/" : "", one->d_name);
            rc = send_path(b, name, depth);
        }
    }
    if (d) {
        closedir(d);
    }
    return rc;
}

static int send_all(struct bringing *b)
{
    int rc = b->folder ? send_folder(b, "", 0) : 0;
    if (rc == 0) {
        memset(&b->head, 0, sizeof(b->head));
        rc = move_piece(b) ? 0 : -(int)b->err->code;
    }
    if (rc == 0 && b->files > 0) {
        log_info("program", "sent what the program wrote", "files=%d", b->files);
    }
    return rc;
}

/* ---- the keeper ------------------------------------------------------------------------------ */

/* A path beneath the folder, which is not one that the keeper writes. */
static bool may_write(const char *name)
{
    static const char *const own[] = {"model.safetensors", "best.safetensors", "state.bin"};
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        if (strcmp(name, own[i]) == 0) {
            log_warn("program",
                     "a file of the program has the name of an artifact, and is left out",
                     "name=%s", name);
            return false;
        }
    }
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t n = strcspn(part, "/");
        if (n == 0 || (n <= 2 && strspn(part, ".") >= n)) {
            return false;
        }
    }
    return true;
}

static int open_file(struct bringing *b, const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    int rc = proc_mkdirs(folder, 0755, b->err);
    if (rc == 0 && !(b->file = fopen(path, "wbe"))) {
        rc = err_errno(b->err, ERR_IO, "cannot keep what the program wrote, '%.300s'", path);
    }
    return rc;
}

/* The file is whole. */
static int close_file(struct bringing *b, const char *part, const char *path)
{
    bool failed = fchmod(fileno(b->file), b->head.executable ? 0755 : 0644) != 0;
    failed |= fclose(b->file) != 0;
    b->file = NULL;
    b->files++;
    return failed || rename(part, path) != 0
               ? err_errno(b->err, ERR_IO, "cannot keep what the program wrote, '%.300s'", path)
               : 0;
}

static int keep_piece(struct bringing *b)
{
    char path[PATH_MAX], part[PATH_MAX + 8];
    const struct piece *h = &b->head;
    if (h->bytes < 0 || h->bytes > PIECE_BYTES || h->left < 0) {
        return err_set(b->err, ERR_PEER, "rank 0 sent a piece of %d bytes", (int)h->bytes);
    }
    if (!may_write(h->name)) {
        return 0;
    }
    snprintf(path, sizeof(path), "%.3000s/artifacts/%.511s", b->ask->job_dir, h->name);
    snprintf(part, sizeof(part), "%s.part", path);
    int rc = b->file ? 0 : open_file(b, part);
    if (rc == 0 && fwrite(b->body, 1, (size_t)h->bytes, b->file) != (size_t)h->bytes) {
        rc = err_errno(b->err, ERR_IO, "cannot keep what the program wrote, '%.300s'", path);
    }
    return rc < 0 || h->left > 0 ? rc : close_file(b, part, path);
}

static int take_all(struct bringing *b)
{
    int rc = 0;
    while (rc == 0 && move_piece(b) && memchr(b->head.name, 0, NAME_BYTES) && b->head.name[0]) {
        rc = keep_piece(b);
    }
    if (b->file) {
        fclose(b->file);
    }
    if (b->files > 0) {
        log_info("program", "kept what the program wrote on another host", "files=%d", b->files);
    }
    return rc < 0 ? rc : -(int)b->err->code;
}

static int bring(struct bringing *b, struct err *e)
{
    struct comm *c = b->ask->comm;
    struct telemetry *t = b->ask->telemetry;
    struct err failed = {0};
    b->err = &failed;
    b->body = calloc(PIECE_FLOATS, sizeof(float));
    int rc = !b->body       ? err_set(&failed, ERR_MEMORY, "cannot pass files on: memory ran out")
             : c->rank == 0 ? send_all(b)
                            : take_all(b);
    if (rc < 0) {
        comm_abandon(c); /* a piece may be on its way */
        *e = failed;
    }
    free(b->body);
    t->phase(t->ctx, PHASE_DONE);
    return rc < 0 ? rc : 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

int results_open(struct results *r, const struct results_ask *ask, struct err *e)
{
    *r = (struct results){.ask = *ask, .own = {.lock = -1}};
    clock_gettime(CLOCK_REALTIME, &r->since); /* no file that is unpacked has a later one */
    if (!ask->job_dir[0]) {
        return 0;
    }
    if (ask->local || access(ask->job_dir, W_OK) == 0) {
        snprintf(r->folder, sizeof(r->folder), "%.4000s/artifacts", ask->job_dir);
        return 0;
    }
    int rc = ask->comm->rank == 0 && ask->cache ? copy_folder(&r->own, ask->cache, e) : 0;
    snprintf(r->folder, sizeof(r->folder), "%s", r->own.path);
    return rc;
}

/* ---- what is not kept ------------------------------------------------------------------------ */

static bool is_newer(const struct stat *st, const struct timespec *since)
{
    return st->st_mtim.tv_sec != since->tv_sec ? st->st_mtim.tv_sec > since->tv_sec
                                               : st->st_mtim.tv_nsec > since->tv_nsec;
}

static bool is_no_result(const FTSENT *f)
{
    return f->fts_level > 0 && (f->fts_name[0] == '.' || strcmp(f->fts_name, "__pycache__") == 0);
}

/* The first few names of the program's own files beneath its copy; returns how many there are. */
static int name_files(const struct results *r, struct buf *names)
{
    char *const roots[] = {(char *)r->ask.program->path, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int n = 0;
    for (FTSENT *f; walk && (f = fts_read(walk));) {
        if (is_no_result(f)) {
            fts_set(walk, f, FTS_SKIP);
        } else if (f->fts_info == FTS_F && is_newer(f->fts_statp, &r->since) && n++ < NAMED_MOST) {
            buf_adds(names, n > 1 ? ", " : "");
            buf_adds(names, f->fts_path + strlen(r->ask.program->path) + 1);
        }
    }
    if (walk) {
        fts_close(walk);
    }
    return n;
}

/* As a line of the program's output, where its user reads. */
static void tell_what_goes(const struct results *r)
{
    struct buf names;
    char line[2000], quoted[4000];
    if (!r->ask.program->path[0] || r->ask.comm->rank != 0) {
        return;
    }
    buf_init(&names, 4096);
    int n = name_files(r, &names);
    if (n > 0 && !names.failed) {
        snprintf(line, sizeof(line),
                 "evenstep: the program's folder is removed, with what it wrote there: %.1500s%s; "
                 "what it writes beneath $EVENSTEP_OUTPUT stays",
                 names.data, n > NAMED_MOST ? ", …" : "");
        log_info("program", "tells", "line=%s", log_quote(quoted, sizeof(quoted), line));
    }
    buf_release(&names);
}

int results_bring(struct results *r, struct err *e)
{
    const struct comm *c = r->ask.comm;
    struct bringing b = {.ask = &r->ask, .folder = r->own.path[0] ? r->own.path : NULL};
    if (!c || !r->ask.job_dir[0] || (c->rank != 0 && c->rank != c->workers)) {
        return 0;
    }
    tell_what_goes(r);
    return bring(&b, e);
}

void results_close(struct results *r)
{
    if (r->ask.comm) {
        own_folder_remove(&r->own);
    }
    *r = (struct results){.own = {.lock = -1}};
}
