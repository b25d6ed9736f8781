/* Finds out which ranks need the keeper's data set, and sends it: see fetch.h.
 *
 *     everybody ── have it, with this digest / have it not ──► keeper
 *     keeper    ── nobody needs it   or   digest, key, files ─► everybody
 *     everybody ── still need it (it is not among the received ones) ──► keeper
 *     keeper    ── how many; if any, the files in pieces ────► everybody, those who need them write
 *
 * Pieces go to all ranks along the tree of a broadcast: a rank that needs none drops them, and no
 * rank can wait for one that never comes. Usually all ranks have the same data set, and only a few
 * words are exchanged. The digest is over values, so a host whose files are packed differently
 * keeps its own; a data set that arrives is opened and its digest compared as well.
 */
#include "worker/fetch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/data/files/manifest.h"

enum { TAG_HAVE = 900, TAG_NEED = 901, CHUNK = 1 << 20, TEXT_MOST = 256 << 20, ROOT_BYTES = 4096 };
enum have { LACKS, HAS_VALUES, HAS_COUNTS };

struct report {
    int32_t have;
    char digest[68];
};

struct trip {
    const struct fetch *f;
    bool trains, keeper;
    struct dataset *d;
    bool opened;        /* d is filled */
    struct offer offer; /* the keeper's */
    char *piece;        /* [CHUNK] */
};

static void still_loading(void *ctx)
{
    const struct fetch *f = ctx;
    f->telemetry->phase(f->telemetry->ctx, PHASE_LOAD);
}

static int send_report(struct trip *t, int tag, struct report *r, struct err *e)
{
    struct message m;
    message_send(&m, t->f->comm, t->f->comm->workers, tag, r, sizeof(*r), NULL, 0);
    return comm_wait(t->f->comm, &m.op, e);
}

static int take_report(struct trip *t, int from, int tag, struct report *r, struct err *e)
{
    struct message m;
    message_recv(&m, t->f->comm, from, tag, r, sizeof(*r), NULL, 0);
    return comm_wait(t->f->comm, &m.op, e);
}

/* Sends `bytes` of `data` from the keeper to all ranks. */
static int hand_out(struct trip *t, void *data, size_t bytes, struct err *e)
{
    return comm_broadcast(t->f->comm, t->f->comm->workers, data, bytes, e);
}

/* ---- this host's own, and the received ones -------------------------------------------------- */

static int open_own(struct trip *t, struct err *e)
{
    const struct fetch *f = t->f;
    int rc = t->trains ? dataset_open(t->d, f->spec, f->seed, f->roots, e)
                       : dataset_peek(t->d, f->spec, f->roots, e);
    t->opened = rc == 0;
    return rc;
}

static bool needs(const struct trip *t)
{
    const char *digest = t->offer.digest;
    return digest[0] && !t->keeper &&
           (!t->opened || (t->trains && strcmp(t->d->digest, digest) != 0));
}

enum reopened { REOPENED_NONE, REOPENED };

/* Opens what this host received with that key, at `root`. */
static int open_at(const struct fetch *f, bool trains, const char *root, struct dataset *d,
                   struct err *e)
{
    struct data_spec spec = *f->spec;
    snprintf(spec.path, sizeof(spec.path), RECEIVED_PATH);
    return trains ? dataset_open(d, &spec, f->seed, root, e) : dataset_peek(d, &spec, root, e);
}

/* Opens the data set that this host received earlier; REOPENED_NONE: none has the key. */
static int open_received(struct trip *t, struct err *e)
{
    const struct fetch *f = t->f;
    const char *key = t->offer.key;
    char root[ROOT_BYTES];
    if (!key[0] || !received_find(&f->received, key, root)) {
        return REOPENED_NONE;
    }
    if (t->opened) {
        dataset_release(t->d);
    }
    int rc = open_at(f, t->trains, root, t->d, e);
    t->opened = rc == 0;
    if (rc == 0 && !needs(t)) {
        if (f->kept) {
            snprintf(f->kept->data_key, sizeof(f->kept->data_key), "%s", key);
        }
        return REOPENED;
    }
    if (rc == 0) {
        rc = err_set(e, ERR_DATA, "the received data set '%.100s' differs from the keeper's",
                     f->spec->path);
    }
    received_drop(&f->received, key);
    return rc;
}

/* ---- who needs what -------------------------------------------------------------------------- */

/* On the keeper: does a rank lack the data set, or have a different one? */
static int ask_all(struct trip *t, bool *wanted, struct err *e)
{
    const struct comm *c = t->f->comm;
    char first[68] = "";
    *wanted = false;
    for (int r = 0, rc; r < c->workers + c->servers; r++) {
        struct report report;
        if (r == c->workers) {
            continue;
        }
        if ((rc = take_report(t, r, TAG_HAVE, &report, e)) < 0) {
            return rc;
        }
        report.digest[sizeof(report.digest) - 1] = 0;
        bool values = report.have == HAS_VALUES;
        *wanted |=
            report.have == LACKS || (values && first[0] && strcmp(first, report.digest) != 0);
        if (values && !first[0]) {
            snprintf(first, sizeof(first), "%s", report.digest);
        }
    }
    return 0;
}

/* Makes the offer to all ranks if one needs the data set. */
static void make_offer(struct trip *t, const struct err *own)
{
    const struct fetch *f = t->f;
    struct err why = {0};
    struct dataset values;
    int rc = -ERR_NOT_FOUND;
    if (!t->opened) {
        why = *own;
    } else if ((rc = dataset_open(&values, f->spec, f->seed, f->roots, &why)) == 0) {
        snprintf(t->offer.digest, sizeof(t->offer.digest), "%s", values.digest);
        dataset_release(&values);
        rc = manifest_make(&t->offer, f->roots, f->spec->path, still_loading, (void *)(uintptr_t)f,
                           &why);
    }
    if (rc < 0) {
        offer_release(&t->offer);
        snprintf(t->offer.error, sizeof(t->offer.error), "%s", why.message);
    }
}

/* Sends the text of the keeper's offer to all ranks: first its length. */
static int pass_text(struct trip *t, char **text, int64_t *bytes, struct err *e)
{
    int rc = hand_out(t, bytes, sizeof(*bytes), e);
    if (rc < 0) {
        return rc;
    }
    if (*bytes < 0 || *bytes > TEXT_MOST) {
        return err_set(e, ERR_PEER, "the keeper cannot tell of its data set");
    }
    if (!*text && !(*text = calloc(1, (size_t)*bytes + 1))) {
        return err_set(e, ERR_MEMORY, "cannot read of the keeper's data set: memory ran out");
    }
    return hand_out(t, *text, (size_t)*bytes, e);
}

static int read_offer(struct trip *t, const char *text, size_t bytes, struct err *e)
{
    json_t *j = jsonx_parse(text, bytes, e);
    int rc = j && offer_read(&t->offer, j, e) >= 0 ? 0 : -ERR_PEER;
    json_decref(j);
    return rc;
}

static int tell_offer(struct trip *t, struct err *e)
{
    char *text = NULL;
    size_t n = 0;
    if (t->keeper) {
        json_t *j = offer_json(&t->offer);
        text = jsonx_dump(j, false, &n);
        json_decref(j);
    }
    int64_t bytes = t->keeper && !text ? -1 : (int64_t)n;
    int rc = pass_text(t, &text, &bytes, e);
    if (rc == 0 && !t->keeper) {
        rc = read_offer(t, text, (size_t)bytes, e);
    }
    free(text);
    return rc == 0 && t->offer.error[0]
               ? err_set(e, ERR_NOT_FOUND,
                         "a host lacks the data set, and the keeper cannot send it: %s",
                         t->offer.error)
               : rc;
}

static int agree(struct trip *t, const struct err *own, struct err *e)
{
    int rc = 0;
    if (t->keeper) {
        bool wanted;
        rc = ask_all(t, &wanted, e);
        if (rc >= 0 && wanted) {
            make_offer(t, own);
        }
    } else {
        struct report report = {.have = !t->opened ? LACKS : t->trains ? HAS_VALUES : HAS_COUNTS};
        snprintf(report.digest, sizeof(report.digest), "%s",
                 t->opened && t->trains ? t->d->digest : "");
        rc = send_report(t, TAG_HAVE, &report, e);
    }
    if (rc < 0) {
        return rc;
    }
    return tell_offer(t, e);
}

/* Counts the ranks that still need it. */
static int count_needs(struct trip *t, int *out, struct err *e)
{
    const struct comm *c = t->f->comm;
    int64_t count = 0;
    int rc = 0;
    if (!t->keeper) {
        struct err why = {0};
        struct report report = {.have = needs(t) && open_received(t, &why) != REOPENED};
        rc = send_report(t, TAG_NEED, &report, e);
    }
    for (int r = 0; t->keeper && rc == 0 && r < c->workers + c->servers; r++) {
        struct report report;
        if (r != c->workers && (rc = take_report(t, r, TAG_NEED, &report, e)) == 0) {
            count += report.have != 0;
        }
    }
    if (rc >= 0) {
        rc = hand_out(t, &count, sizeof(count), e);
    }
    *out = (int)count;
    return rc;
}

/* ---- the files ------------------------------------------------------------------------------- */

static void tell_received(const struct trip *t, int64_t bytes, int64_t of_bytes)
{
    if (t->f->telemetry->received) {
        t->f->telemetry->received(t->f->telemetry->ctx, bytes, of_bytes);
    }
}

/* Shows progress: every tenth in the keeper's log, and in the heartbeat of a receiving rank. */
static void show_progress(const struct trip *t, int64_t done, int64_t piece, int64_t all,
                          bool receives)
{
    if (receives) {
        tell_received(t, done, all);
    }
    int64_t tenth = all > 0 ? 10 * done / all : 10,
            before = all > 0 ? 10 * (done - piece) / all : 0;
    still_loading((void *)(uintptr_t)t->f);
    if (t->keeper && tenth != before) {
        log_info("data", "sends the data set to hosts that lack it",
                 "path=%s percent=%d bytes=%lld", t->f->spec->path, (int)(10 * tenth),
                 (long long)all);
    }
}

static int pass_file(struct trip *t, const struct offer_file *file, struct incoming *in,
                     int64_t *done, struct err *e)
{
    const char *name = file->name;
    int64_t left = file->bytes;
    int fd = t->keeper ? manifest_open(t->f->roots, t->f->spec->path, name, e) : -1;
    int rc = t->keeper && fd < 0 ? fd : in ? received_file(in, name, e) : 0;
    while (rc == 0 && left > 0) {
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        for (size_t at = 0; t->keeper && rc == 0 && at < n;) {
            ssize_t got = read(fd, t->piece + at, n - at);
            at += got > 0 ? (size_t)got : 0;
            rc = got > 0 ? 0
                         : err_set(e, ERR_DATA,
                                   "the file '%s' of data set '%s' changed while it was sent", name,
                                   t->f->spec->path);
        }
        if (rc < 0 || (rc = hand_out(t, t->piece, n, e)) < 0 ||
            (in && (rc = received_write(in, t->piece, n, e)) < 0)) {
            break;
        }
        left -= (int64_t)n;
        *done += (int64_t)n;
        show_progress(t, *done, (int64_t)n, t->offer.bytes, in);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int pass_files(struct trip *t, struct err *e)
{
    const struct offer *o = &t->offer;
    int64_t done = 0;
    bool wants = needs(t);
    struct incoming *in = wants ? received_begin(&t->f->received, o->key, o->bytes, e) : NULL;
    int rc = wants && !in ? -(int)e->code : 0;
    for (int i = 0; rc == 0 && i < o->n_files; i++) {
        rc = pass_file(t, &o->files[i], in, &done, e);
    }
    rc = in ? received_end(in, rc, e) : rc;
    if (wants) {
        tell_received(t, 0, 0);
    }
    if (rc == 0 && wants && (rc = open_received(t, e)) == REOPENED_NONE) {
        return err_set(e, ERR_DATA, "the data set '%.100s' was received, but is missing",
                       t->f->spec->path);
    }
    return rc < 0 ? rc : 0;
}

static int share(struct trip *t, const struct err *own, struct err *e)
{
    int n = 0, rc = agree(t, own, e);
    if (rc == 0 && t->offer.digest[0]) {
        rc = count_needs(t, &n, e);
    }
    if (rc == 0 && n > 0) {
        t->piece = malloc(CHUNK);
        rc = t->piece ? pass_files(t, e)
                      : err_set(e, ERR_MEMORY, "cannot pass the data set on: memory ran out");
    }
    if (rc < 0) {
        comm_abandon(t->f->comm); /* the piece may be on its way */
    }
    free(t->piece);
    offer_release(&t->offer);
    return rc;
}

int fetch_again(const struct fetch *f, struct dataset *d, struct err *e)
{
    char root[ROOT_BYTES];
    if (!f->kept || !f->kept->data_key[0]) {
        return dataset_open(d, f->spec, f->seed, f->roots, e);
    }
    return received_find(&f->received, f->kept->data_key, root)
               ? open_at(f, true, root, d, e)
               : err_set(e, ERR_DATA, "the received data set '%.100s' is gone", f->spec->path);
}

int fetch_dataset(const struct fetch *f, bool trains, struct dataset *d, struct err *e)
{
    struct trip t = {.f = f, .trains = trains, .keeper = f->comm->rank == f->comm->workers, .d = d};
    struct err own = {0};
    int rc = open_own(&t, &own);
    bool shared = f->spec->format != CAT_FORMAT_GLYPHS;
    if (rc < 0 && (rc != -ERR_NOT_FOUND || !shared)) {
        *e = own;
        return rc;
    }
    if (shared) {
        double deadline = f->comm->deadline;
        f->comm->deadline = 0; /* a large data set takes long; heartbeats find a rank that hangs
                                  meanwhile */
        rc = share(&t, &own, e);
        f->comm->deadline = deadline;
    }
    if (rc == 0 && !t.opened) {
        *e = own;
        rc = -(int)own.code;
    }
    if (rc < 0 && t.opened) {
        dataset_release(d);
    }
    return rc;
}
