/* A rank's own copy of an uploaded program: see copy.h.
 *
 *     workers ── have it / need it ───────────────────► keeper
 *     keeper  ── 0: nobody needs it, or its bytes ────► everybody
 *     keeper  ── the archive in pieces ───────────────► everybody, those who need it write
 *
 * A worker has it when it could unpack it with the right digest: what was damaged on a host's disk
 * is sent again. */
#include "worker/program/files/copy.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/archive/archive.h"
#include "common/log.h"
#include "common/process/proc.h"

static const char file_name[] = "program.tar";
enum { TAG_NEED = 902, CHUNK = 1 << 20 };

/* ---- folders --------------------------------------------------------------------------------- */

static const char *base_of(const struct copy_ask *ask, char base[PATH_MAX])
{
    snprintf(base, PATH_MAX, "%s", ask->received.dir ? ask->received.dir : ask->archive);
    return ask->received.dir ? base : dirname(base);
}

int copy_folder(struct own_folder *c, const char *base, struct err *e)
{
    int rc = proc_mkdirs(base, 0700, e);
    return rc < 0 ? rc : own_folder_make(c, base, ".run-", e);
}

/* ---- unpacking ------------------------------------------------------------------------------- */

/* The archive on this host into path[PATH_MAX]; false: it has none. */
static bool find_archive(const struct copy_ask *ask, char *path)
{
    char root[PATH_MAX];
    if (!ask->received.dir) {
        snprintf(path, PATH_MAX, "%s", ask->archive);
        return true;
    }
    if (!received_find(&ask->received, ask->digest, root)) {
        return false;
    }
    snprintf(path, PATH_MAX, "%.3900s/" RECEIVED_PATH "/%s", root, file_name);
    return true;
}

/* 0: it is unpacked. ERR_NOT_FOUND: this host has none, or none that is sound, and can be sent one.
 */
static int unpack(struct own_folder *c, const struct copy_ask *ask, struct err *e)
{
    char path[PATH_MAX], own[PATH_MAX];
    if (!find_archive(ask, path)) {
        return err_set(e, ERR_NOT_FOUND, "the program '%.12s…' was not sent to this host",
                       ask->digest);
    }
    int rc = copy_folder(c, base_of(ask, own), e);
    if (rc < 0 || (rc = archive_unpack(path, ask->digest, c->path, e)) == 0) {
        return rc;
    }
    own_folder_remove(c);
    if (ask->received.dir) {
        log_warn("program", "what this host kept of a program is dropped", "why=\"%s\"",
                 e->message);
        received_drop(&ask->received, ask->digest);
        rc = -ERR_NOT_FOUND;
    }
    return rc;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* How many ranks need it, at the keeper; the others say whether they do. */
static int count_needs(const struct copy_ask *ask, bool needs, int *out, struct err *e)
{
    struct comm *c = ask->comm;
    struct message m;
    int32_t need = needs;
    int rc = 0;
    *out = 0;
    if (c->rank != c->workers) {
        message_send(&m, c, c->workers, TAG_NEED, &need, sizeof(need), NULL, 0);
        return comm_wait(c, &m.op, e);
    }
    for (int r = 0; rc >= 0 && r < c->workers + c->servers; r++) {
        if (r != c->workers) {
            message_recv(&m, c, r, TAG_NEED, &need, sizeof(need), NULL, 0);
            rc = comm_wait(c, &m.op, e);
            *out += rc >= 0 && need;
        }
    }
    return rc;
}

/* On the keeper: opens the archive. */
static FILE *open_archive(const struct copy_ask *ask, int64_t *bytes, struct err *e)
{
    struct stat st;
    FILE *f = fopen(ask->archive, "rbe");
    if (!f || fstat(fileno(f), &st) != 0) {
        err_errno(e, ERR_NOT_FOUND, "cannot send the program '%s'", ask->archive);
        if (f) {
            fclose(f);
        }
        return NULL;
    }
    *bytes = (int64_t)st.st_size;
    return f;
}

/* In the heartbeat of whoever receives it: how far it is. */
static void tell_received(const struct copy_ask *ask, int64_t bytes, int64_t of_bytes)
{
    if (ask->telemetry->received) {
        ask->telemetry->received(ask->telemetry->ctx, bytes, of_bytes);
    }
}

static int pass_piece(const struct copy_ask *ask, FILE *from, struct incoming *in, char *piece,
                      size_t n, struct err *e)
{
    struct comm *c = ask->comm;
    int rc = 0;
    if (from && fread(piece, 1, n, from) != n) {
        rc = err_set(e, ERR_DATA, "the program '%s' changed while it was sent", ask->archive);
    }
    if (rc < 0 || (rc = comm_broadcast(c, c->workers, piece, n, e)) < 0) {
        return rc;
    }
    ask->telemetry->phase(ask->telemetry->ctx, PHASE_LOAD);
    return in ? received_write(in, piece, n, e) : 0;
}

/* `from`: on the keeper. */
static int pass_archive(const struct copy_ask *ask, FILE *from, int64_t bytes, bool needs,
                        struct err *e)
{
    char *piece = malloc(CHUNK);
    struct incoming *in =
        piece && needs ? received_begin(&ask->received, ask->digest, bytes, e) : NULL;
    int rc = !piece         ? err_set(e, ERR_MEMORY, "cannot pass a program on: memory ran out")
             : needs && !in ? -(int)e->code
             : in           ? received_file(in, file_name, e)
                            : 0;
    for (int64_t left = bytes; rc == 0 && left > 0; left -= CHUNK) {
        rc = pass_piece(ask, from, in, piece, left < CHUNK ? (size_t)left : CHUNK, e);
        if (in) {
            tell_received(ask, left < CHUNK ? bytes : bytes - left + CHUNK, bytes);
        }
    }
    if (in) {
        tell_received(ask, 0, 0);
    }
    free(piece);
    return in ? received_end(in, rc, e) : rc;
}

/* Those who need it get it. */
static int share(const struct copy_ask *ask, bool needs, struct err *e)
{
    struct comm *c = ask->comm;
    FILE *from = NULL;
    int64_t bytes = 0;
    int n, rc = count_needs(ask, needs, &n, e);
    if (rc >= 0 && n > 0 && !(from = open_archive(ask, &bytes, e))) {
        rc = -(int)e->code;
    }
    if (rc >= 0 && (rc = comm_broadcast(c, c->workers, &bytes, sizeof(bytes), e)) >= 0 &&
        bytes > 0) {
        if (from) {
            log_info("program", "sends the program to hosts that lack it", "digest=%s bytes=%lld",
                     ask->digest, (long long)bytes);
        }
        rc = pass_archive(ask, from, bytes, needs, e);
    }
    if (from) {
        fclose(from);
    }
    return rc < 0 ? rc : 0;
}

int copy_open(struct own_folder *c, const struct copy_ask *ask, struct err *e)
{
    double deadline = ask->comm->deadline;
    *c = OWN_FOLDER_NONE;
    int rc = ask->works ? unpack(c, ask, e) : 0;
    bool needs = rc == -ERR_NOT_FOUND && ask->received.dir;
    if (ask->alone || (rc < 0 && !needs)) {
        return rc;
    }
    ask->comm->deadline = 0; /* a link may be slow; who does nothing is found by the heartbeats */
    rc = share(ask, needs, e);
    ask->comm->deadline = deadline;
    if (rc < 0) {
        comm_abandon(ask->comm); /* the piece may be on its way */
        return rc;
    }
    return needs ? unpack(c, ask, e) : 0;
}
