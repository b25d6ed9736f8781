/* What the coordinator reads of the ranks: rows, facts and heartbeats (report.c has the other end).
 *
 *   facts         ─┐
 *   rows of ranks ─┴─► one XREAD for all of them ─► history's buffer ─► disk ─► trimmed here
 *
 * Streams carry only the live tail: rows leave Redis once history.c has them on disk, and every
 * stream has a cap, so a coordinator that is away for long costs memory only up to it. Facts come
 * first: while one waits, no rows are handed out, since the fact may decide whether they count (it
 * may name the checkpoint from which an attempt went on).
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sign.h"
#include "job/seal.h"

enum { READ_MOST = 10000, RANK_KEY = 64 }; /* bytes of a rank's key */

/* ---- reading streams ------------------------------------------------------------------------- */

static int check_place(const char *last, struct err *e)
{
    return store_stream_valid(last)
               ? 0
               : err_set(e, ERR_INVALID, "'%.40s' is not a position in a stream", last ? last : "");
}

/* One XREAD: the keys of streams, and where reading begins in each. */
struct reading {
    int n;
    char (*keys)[RANK_KEY];
    const char **argv; /* XREAD COUNT count STREAMS keys places */
};

static int reading_init(struct reading *out, const char *id, const char *facts,
                        const struct store_tail *tails, int n, struct err *e)
{
    int first = facts ? 1 : 0, rc = 0;
    out->n = first + n;
    out->keys = calloc((size_t)n + 1, sizeof *out->keys);
    out->argv = calloc(2 * (size_t)n + 6, sizeof *out->argv);
    if (!out->keys || !out->argv) {
        return err_set(e, ERR_MEMORY, "cannot read the reports of job '%s': memory ran out", id);
    }
    for (int i = 0; rc >= 0 && i < out->n; i++) {
        char key[STORE_KEY];
        const struct store_tail *tail = i < first ? NULL : &tails[i - first];
        out->argv[4 + out->n + i] = tail ? tail->last : facts;
        if ((rc = check_place(out->argv[4 + out->n + i], e)) >= 0) {
            rc = tail ? key_of_rank(key, KEY_JOB_ROWS, id, tail->rank, e)
                      : key_of_job(key, KEY_JOB_FACTS, id, e);
            snprintf(out->keys[i], RANK_KEY, "%s", rc < 0 ? "" : key);
        }
    }
    for (int i = 0; i < out->n; i++) {
        out->argv[4 + i] = out->keys[i];
    }
    return rc;
}

/* The length of each packed row of an entry: the entry names it, else it is that of the first
 * version. 0: the entry is malformed. */
static int bytes_of_each(const struct stream_entry *at, size_t len)
{
    const char *text = reply_field(at->fields, "bytes", NULL);
    long bytes = text ? strtol(text, NULL, 10) : ROW_BYTES_FIRST;
    bool sound = bytes >= ROW_BYTES_FIRST && bytes <= ROW_BYTES_MOST;
    return sound && len > 0 && len % (size_t)bytes == 0 ? (int)bytes : 0;
}

static int take_entry(const struct stream_entry *at, int rank, store_rows_fn *fn, void *ctx,
                      struct err *e)
{
    size_t len = 0;
    const char *packed = reply_field(at->fields, "r", &len);
    int bytes = packed ? bytes_of_each(at, len) : 0;
    if (!bytes) {
        return 0;
    }
    int n = (int)(len / (size_t)bytes);
    const char *seal = reply_field(at->fields, "seal", NULL);
    struct row *rows = calloc((size_t)n, sizeof *rows);
    if (!rows) {
        return err_set(e, ERR_MEMORY, "cannot read the rows of rank %d: memory ran out", rank);
    }
    for (int i = 0; i < n; i++) {
        row_unpack(packed + (size_t)i * (size_t)bytes, bytes, &rows[i]);
    }
    const struct store_rows entry = {.rank = rank,
                                     .n = n,
                                     .rows = rows,
                                     .packed = packed,
                                     .bytes = len,
                                     .seal = seal ? seal : ""};
    int rc = fn(ctx, &entry, e);
    free(rows);
    return rc;
}

/* Hands out the rows of one stream, and moves its position past those that were taken. Returns how
 * many entries it saw. */
static int take_rows(const redisReply *list, int n, const struct store_tail *tail,
                     store_rows_fn *fn, void *ctx, struct err *e)
{
    for (int i = 0; i < n; i++) {
        struct stream_entry at;
        int rc = reply_entry(list, i, &at, e);
        if (rc < 0 || (at.fields && (rc = take_entry(&at, tail->rank, fn, ctx, e)) < 0)) {
            return rc;
        }
        snprintf(tail->last, STORE_PLACE, "%s", at.id);
    }
    return n;
}

/* Mends the stream if the answer was malformed (ERR_DATA), and returns the result of that; else
 * returns rc. */
static int mended(struct store *s, const char *key, int rc, struct err *e)
{
    struct err why = {0};
    int again = rc == -ERR_DATA ? store_mend(s, key, &why) : 0;
    if (again == -ERR_UNAVAILABLE && e) {
        *e = why;
    }
    return again == -ERR_UNAVAILABLE ? again : rc;
}

/* Only streams that have something new are in the answer, in the order in which they were asked
 * for. */
static int take_streams(const redisReply *r, const struct reading *reading,
                        const struct store_rows_ask *ask, struct err *e)
{
    int streams = reply_array(r, 0, e), most = 0, k = 0, first = ask->facts ? 1 : 0;
    for (int i = 0; i < streams; i++) {
        const redisReply *list = NULL;
        const char *key = "";
        int n = reply_stream(r->element[i], &key, &list, e);
        if (n < 0) {
            return n;
        }
        while (k < reading->n && strcmp(reading->keys[k], key) != 0) {
            k++;
        }
        if (k == reading->n) {
            return err_set(e, ERR_DATA, "the store answered with a stream that nobody asked for");
        }
        if (k < first) {
            *ask->facts = true;
            return 0;
        }
        if ((n = take_rows(list, n, &ask->tails[k - first], ask->fn, ask->ctx, e)) < 0) {
            return n;
        }
        most = n > most ? n : most;
    }
    return streams < 0 ? streams : most;
}

int store_rows_read(struct store *s, const char *id, const struct store_rows_ask *ask,
                    struct err *e)
{
    char most[16];
    struct reading reading;
    redisReply *r = NULL;
    int rc = reading_init(&reading, id, ask->facts_at, ask->tails, ask->n, e), count = ask->count;
    snprintf(most, sizeof most, "%d", count < 1 ? 1 : count > READ_MOST ? READ_MOST : count);
    if (rc >= 0) {
        reading.argv[0] = "XREAD";
        reading.argv[1] = "COUNT";
        reading.argv[2] = most;
        reading.argv[3] = "STREAMS";
        r = store_command(s, 4 + 2 * reading.n, reading.argv, NULL, e);
        rc = r ? take_streams(r, &reading, ask, e) : store_failed(e);
    }
    for (int i = 0; rc == -ERR_DATA && i < reading.n; i++) {
        rc = mended(s, reading.keys[i], rc, e);
    }
    freeReplyObject(r);
    free(reading.keys);
    free(reading.argv);
    return rc;
}

/* The first position that is kept when everything up to `upto` is trimmed. */
static void place_after(const char *upto, char first[64])
{
    char *dash = NULL;
    unsigned long long ms = strtoull(upto, &dash, 10), seq = strtoull(dash + 1, NULL, 10);
    snprintf(first, 64, "%llu-%llu", seq == ~0ull ? ms + 1 : ms, seq + 1);
}

static struct script trim_script = {.text = LUA_ROWS_TRIM};

int store_rows_trim(struct store *s, const char *id, const struct store_tail *tails, int n,
                    struct err *e)
{
    char(*rows)[STORE_KEY] = calloc((size_t)n + 1, sizeof *rows),
    (*first)[64] = calloc((size_t)n + 1, sizeof *first);
    const char **keys = calloc((size_t)n + 1, sizeof *keys),
               **args = calloc((size_t)n + 1, sizeof *args);
    int rc = rows && first && keys && args
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot trim the rows of job '%s': memory ran out", id);
    for (int i = 0; rc >= 0 && i < n; i++) {
        if ((rc = key_of_rank(rows[i], KEY_JOB_ROWS, id, tails[i].rank, e)) >= 0 &&
            (rc = check_place(tails[i].last, e)) >= 0) {
            place_after(tails[i].last, first[i]);
            keys[i] = rows[i];
            args[i] = first[i];
        }
    }
    if (rc >= 0 && n > 0) {
        rc = store_done(store_script(s, &trim_script, n, keys, n, args, NULL, e), e);
    }
    free(rows);
    free(first);
    free(keys);
    free(args);
    return rc;
}

static struct script facts_script = {.text = LUA_FACTS_TRIM};

int store_facts_trim(struct store *s, const char *id, const char *upto, struct err *e)
{
    char key[STORE_KEY], first[64];
    int rc = check_place(upto, e);
    if (rc < 0 || (rc = key_of_job(key, KEY_JOB_FACTS, id, e)) < 0) {
        return rc;
    }
    place_after(upto, first);
    const char *keys[] = {key}, *args[] = {first, STORE_FACTS_KEPT};
    return store_done(store_script(s, &facts_script, 1, keys, 2, args, NULL, e), e);
}

/* The document that a sealed message claims to be, with the message itself; NULL: it is no such
 * message. */
static json_t *claimed(const char *text)
{
    json_t *j = sign_peek(text);
    if (j && json_is_object(j)) {
        json_object_set_new(j, SEAL_FIELD, json_string(text));
        return j;
    }
    json_decref(j);
    return NULL;
}

/* A fact. One without any content is returned too, so that it is counted. */
static json_t *fact_of(const struct stream_entry *at)
{
    const char *text = reply_field(at->fields, "j", NULL);
    json_t *j = text ? claimed(text) : NULL;
    return j ? j : json_object();
}

json_t *store_facts_read(struct store *s, const char *id, char last[STORE_PLACE], int count,
                         struct err *e)
{
    char key[STORE_KEY];
    const redisReply *list = NULL;
    if (key_of_job(key, KEY_JOB_FACTS, id, e) < 0 || check_place(last, e) < 0) {
        return NULL;
    }
    redisReply *r = store_commandf(s, e, "XREAD COUNT %d STREAMS %s %s",
                                   count < 1           ? 1
                                   : count > READ_MOST ? READ_MOST
                                                       : count,
                                   key, last);
    int n = r ? reply_only_stream(r, &list, e) : -1;
    json_t *out = reply_entries(list, n, fact_of, last, e);
    freeReplyObject(r);
    if (!out && e && e->code == ERR_DATA) {
        mended(s, key, -ERR_DATA, e);
    }
    return out;
}

/* ---- heartbeats ------------------------------------------------------------------------------ */

enum { BEAT_BYTES = 256 << 10 }; /* many times a real heartbeat */

static struct script beats_script = {.text = LUA_CLOCK LUA_BEATS};

/* "AT MESSAGE" */
static json_t *beat_of(const char *text, double now)
{
    char *message = NULL;
    long long at = strtoll(text, &message, 10);
    json_t *beat = *message == ' ' ? claimed(message + 1) : NULL;
    double age = (now - (double)at) / 1000;
    beat = beat ? beat : json_object();
    json_object_set_new(beat, "at", json_integer(at));
    json_object_set_new(beat, "age", json_real(age < 0 ? 0 : age));
    return beat;
}

json_t *store_beats(struct store *s, const char *id, int ranks, struct err *e)
{
    char key[STORE_KEY], count[16], most[16];
    const char *keys[] = {key}, *args[] = {count, most};
    double now;
    snprintf(count, sizeof count, "%d", ranks);
    snprintf(most, sizeof most, "%d", (int)BEAT_BYTES);
    if (key_of_job(key, KEY_JOB_BEATS, id, e) < 0) {
        return NULL;
    }
    redisReply *r = store_script(s, &beats_script, 1, keys, 2, args, NULL, e);
    json_t *out = NULL;
    if (!r || reply_record(r, 2, e) < 0 || reply_clock(r->element[0], &now, e) < 0) {
        goto out;
    }
    int n = reply_array(r->element[1], 0, e);
    out = n < 0 ? NULL : json_object();
    for (int i = 0; out && i + 1 < n; i += 2) {
        const char *rank = NULL, *text = NULL;
        if (reply_text(r->element[1]->element[i], &rank, NULL, NULL) > 0 &&
            reply_text(r->element[1]->element[i + 1], &text, NULL, NULL) > 0) {
            json_object_set_new(out, rank, beat_of(text, now));
        }
    }
out:
    freeReplyObject(r);
    return out;
}

int store_beats_clear(struct store *s, const char *id, struct err *e)
{
    char key[STORE_KEY];
    int rc = key_of_job(key, KEY_JOB_BEATS, id, e);
    if (rc < 0) {
        return rc;
    }
    const char *argv[] = {"DEL", key};
    return store_done(store_change(s, 2, argv, e), e);
}
