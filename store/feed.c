/* The feed: rows, facts and heartbeats from ranks up to the monitor; events from everybody out to browsers.
 *
 * Streams carry only the live tail: rows leave Redis once history.c has them on disk, and every stream has a cap, so a
 * coordinator that is away for long costs memory only up to it. A reader of events must be told when what it wanted next has
 * been trimmed already: that is the gap. What ranks append names the job's own key as an argument, not among the script's keys: a user of Redis who
 * may only read that key (the workers', docs/deployment.md) could not call the script otherwise. Times of heartbeats are Redis's own, so clocks of hosts need not agree.
 */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "store/row.h"

enum { READ_MOST = 10000, BLOCK_MOST_MS = 60000 };

static int code_of(const struct err *e)
{
    return -(e && e->code ? (int)e->code : ERR_UNAVAILABLE);
}

/* ---- appending to a job's streams ------------------------------------------------------------------------ */

/* KEYS stream; ARGV cap field bytes job. */
static const struct script add_script = {
    "if redis.call('EXISTS', ARGV[4]) == 0 then return 0 end\n"
    "redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', ARGV[2], ARGV[3])\n"
    "return 1\n"};

static int stream_add(struct store *s, const char *id, const char *suffix, int most, const char *field, const void *bytes,
                      size_t n, struct err *e)
{
    char job[STORE_KEY], key[STORE_KEY], cap[16];
    int rc = store_job_key(job, id, "", e);
    if (rc < 0 || (rc = store_job_key(key, id, suffix, e)) < 0) {
        return rc;
    }
    snprintf(cap, sizeof cap, "%d", most);
    const char *keys[] = {key};
    const char *args[] = {cap, field, bytes, job};
    size_t lens[] = {strlen(cap), strlen(field), n, strlen(job)};
    redisReply *r = store_script(s, &add_script, 1, keys, 4, args, lens, e);
    if (!r) {
        return code_of(e);
    }
    int64_t added = 0;
    rc = reply_int(r, &added, e);
    freeReplyObject(r);
    return rc < 0 ? rc : added ? 0 : store_no_job(id, e);
}

static int rows_suffix(char out[32], int rank, struct err *e)
{
    if (rank < 0 || rank >= STORE_RANKS) {
        return err_set(e, ERR_INVALID, "rank %d is not within 0 and %d", rank, STORE_RANKS - 1);
    }
    snprintf(out, 32, ":rows:%d", rank);
    return 0;
}

int store_rows_add(struct store *s, const char *id, int rank, const void *rows, size_t bytes, struct err *e)
{
    char suffix[32];
    int rc = rows_suffix(suffix, rank, e);
    if (rc < 0) {
        return rc;
    }
    if (bytes == 0 || bytes % sizeof(struct row) || bytes > STORE_ROWS_BYTES) {
        return err_set(e, ERR_INVALID, "cannot store rows of rank %d: %zu bytes are no whole rows of %zu, up to %d", rank, bytes,
                       sizeof(struct row), STORE_ROWS_BYTES);
    }
    return stream_add(s, id, suffix, STORE_ROWS_ENTRIES, "r", rows, bytes, e);
}

int store_fact_add(struct store *s, const char *id, const json_t *fact, struct err *e)
{
    char *text = store_dump(fact, "a fact", e);
    if (!text) {
        return code_of(e);
    }
    int rc = stream_add(s, id, ":facts", STORE_FACTS, "j", text, strlen(text), e);
    free(text);
    return rc;
}

/* ---- reading streams ------------------------------------------------------------------------------------- */

struct stream_entry {
    const char *id;
    const redisReply *fields;
};

/* The i-th entry of [[id, [field, value, …]], …]; fields is NULL for one that was deleted meanwhile. */
static int entry_at(const redisReply *list, int i, struct stream_entry *out, struct err *e)
{
    const redisReply *r = list->element[i];
    if (reply_array(r, 2, e) < 2 || reply_text(r->element[0], &out->id, NULL, e) <= 0 || !store_stream_valid(out->id)) {
        return err_set(e, ERR_DATA, "the store answered with an entry that is none");
    }
    out->fields = r->element[1]->type == REDIS_REPLY_ARRAY ? r->element[1] : NULL;
    return 0;
}

/* The entries in the answer of XREAD on one stream: [[key, entries]]. 0: none. */
static int entries_of(const redisReply *r, const redisReply **list, struct err *e)
{
    int n = reply_array(r, 1, e);
    if (n <= 0) {
        return n;
    }
    if (reply_array(r->element[0], 2, e) < 2) {
        return err_set(e, ERR_DATA, "the store answered with something else than a stream");
    }
    *list = r->element[0]->element[1];
    return reply_array(*list, 0, e);
}

/* Reads after `last`; negative on failure, else the number of entries in *list (part of *reply, the caller frees). */
static int stream_read(struct store *s, const char *id, const char *suffix, const char *last, int count, redisReply **reply,
                       const redisReply **list, struct err *e)
{
    char key[STORE_KEY];
    int rc = store_job_key(key, id, suffix, e);
    *reply = NULL;
    if (rc < 0) {
        return rc;
    }
    if (!store_stream_valid(last)) {
        return err_set(e, ERR_INVALID, "'%.40s' is no place in a stream", last ? last : "");
    }
    count = count < 1 ? 1 : count > READ_MOST ? READ_MOST : count;
    *reply = store_commandf(s, e, "XREAD COUNT %d STREAMS %s %s", count, key, last);
    return *reply ? entries_of(*reply, list, e) : code_of(e);
}

int store_rows_read(struct store *s, const char *id, int rank, char last[32], int count, store_rows_fn *fn, void *ctx, struct err *e)
{
    char suffix[32];
    redisReply *r;
    const redisReply *list = NULL;
    int rc = rows_suffix(suffix, rank, e);
    if (rc < 0) {
        return rc;
    }
    int n = stream_read(s, id, suffix, last, count, &r, &list, e), seen = 0;
    for (int i = 0; i < n; i++) {
        struct stream_entry at;
        if ((rc = entry_at(list, i, &at, e)) < 0) {
            break;
        }
        size_t len = 0;
        const char *bytes = reply_field(at.fields, "r", &len);
        if (bytes && len && len % sizeof(struct row) == 0) { /* anything else is none of ours */
            fn(ctx, bytes, len);
        }
        snprintf(last, 32, "%s", at.id);
        seen++;
    }
    if (r) {
        freeReplyObject(r);
    }
    return n < 0 ? n : rc < 0 ? rc : seen;
}

int store_rows_trim(struct store *s, const char *id, int rank, const char *upto, struct err *e)
{
    char suffix[32], key[STORE_KEY], first[64];
    int rc = rows_suffix(suffix, rank, e);
    if (rc < 0 || (rc = store_job_key(key, id, suffix, e)) < 0) {
        return rc;
    }
    if (!store_stream_valid(upto)) {
        return err_set(e, ERR_INVALID, "'%.40s' is no place in a stream", upto ? upto : "");
    }
    char *dash = NULL;
    unsigned long long ms = strtoull(upto, &dash, 10), seq = strtoull(dash + 1, NULL, 10);
    snprintf(first, sizeof first, "%llu-%llu", seq == ~0ull ? ms + 1 : ms, seq + 1); /* the first that stays */
    redisReply *r = store_commandf(s, e, "XTRIM %s MINID = %s", key, first);
    int64_t gone = 0;
    rc = r ? reply_int(r, &gone, e) : code_of(e);
    if (r) {
        freeReplyObject(r);
    }
    return rc;
}

json_t *store_facts_read(struct store *s, const char *id, char last[32], int count, struct err *e)
{
    redisReply *r;
    const redisReply *list = NULL;
    int n = stream_read(s, id, ":facts", last, count, &r, &list, e);
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i < n; i++) {
        struct stream_entry at;
        if (entry_at(list, i, &at, e) < 0) {
            json_decref(out);
            out = NULL;
            break;
        }
        size_t len = 0;
        const char *text = reply_field(at.fields, "j", &len);
        json_t *j = text ? jsonx_parse(text, len, NULL) : NULL;
        if (j) {
            json_array_append_new(out, j);
        }
        snprintf(last, 32, "%s", at.id);
    }
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

/* ---- heartbeats ------------------------------------------------------------------------------------------ */

/* KEYS beats; ARGV rank, JSON without its opening brace, job. */
static const struct script beat_script = {
    "if redis.call('EXISTS', ARGV[3]) == 0 then return 0 end\n"
    "local t = redis.call('TIME')\n"
    "redis.call('HSET', KEYS[1], ARGV[1], string.format('{\"at\":%d', t[1] * 1000 + math.floor(t[2] / 1000)) .. ARGV[2])\n"
    "return 1\n"};

static const struct script beats_script = {
    "local t = redis.call('TIME')\n"
    "return {string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000)), redis.call('HGETALL', KEYS[1])}\n"};

int store_beat_set(struct store *s, const char *id, int rank, const json_t *beat, struct err *e)
{
    char job[STORE_KEY], key[STORE_KEY], field[16];
    int rc = store_job_key(job, id, "", e);
    if (rc < 0 || (rc = store_job_key(key, id, ":beats", e)) < 0) {
        return rc;
    }
    if (rank < 0 || rank >= STORE_RANKS || !json_is_object(beat)) {
        return err_set(e, ERR_INVALID, "cannot store the heartbeat of rank %d: the rank or the document is not valid", rank);
    }
    json_t *copy = json_copy((json_t *)beat);
    json_object_del(copy, "at");
    char *text = store_dump(copy, "a heartbeat", e);
    bool empty = json_object_size(copy) == 0;
    json_decref(copy);
    if (!text) {
        return code_of(e);
    }
    text[0] = ','; /* "{…}" follows the time that the script puts first */
    snprintf(field, sizeof field, "%d", rank);
    const char *keys[] = {key};
    const char *args[] = {field, empty ? "}" : text, job};
    redisReply *r = store_script(s, &beat_script, 1, keys, 3, args, NULL, e);
    free(text);
    int64_t done = 0;
    rc = r ? reply_int(r, &done, e) : code_of(e);
    if (r) {
        freeReplyObject(r);
    }
    return rc < 0 ? rc : done ? 0 : store_no_job(id, e);
}

json_t *store_beats(struct store *s, const char *id, struct err *e)
{
    char key[STORE_KEY];
    const char *keys[] = {key};
    double now;
    if (store_job_key(key, id, ":beats", e) < 0) {
        return NULL;
    }
    redisReply *r = store_script(s, &beats_script, 1, keys, 0, NULL, NULL, e);
    json_t *out = NULL;
    if (!r || reply_record(r, 2, e) < 0 || reply_clock(r->element[0], &now, e) < 0) {
        goto out;
    }
    int n = reply_array(r->element[1], 0, e);
    out = n < 0 ? NULL : json_object();
    for (int i = 0; out && i + 1 < n; i += 2) {
        const char *rank = NULL;
        json_t *beat = reply_json(r->element[1]->element[i + 1], NULL);
        if (beat && json_is_object(beat) && reply_text(r->element[1]->element[i], &rank, NULL, NULL) > 0) {
            double age = (now - json_number_value(json_object_get(beat, "at"))) / 1000;
            json_object_set_new(beat, "age", json_real(age < 0 ? 0 : age));
            json_object_set(out, rank, beat);
        }
        json_decref(beat);
    }
out:
    if (r) {
        freeReplyObject(r);
    }
    return out;
}

int store_beats_clear(struct store *s, const char *id, struct err *e)
{
    char key[STORE_KEY];
    int rc = store_job_key(key, id, ":beats", e);
    if (rc < 0) {
        return rc;
    }
    redisReply *r = store_commandf(s, e, "DEL %s", key);
    if (!r) {
        return code_of(e);
    }
    freeReplyObject(r);
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------------------- */

int store_event(struct store *s, const char *job, const char *type, const json_t *body, struct err *e)
{
    char *text = body ? store_dump(body, "an event", e) : strdup("{}");
    if (!text) {
        return code_of(e);
    }
    redisReply *r = store_commandf(s, e, "XADD es:events MAXLEN ~ %d * job %s type %s j %s", (int)STORE_EVENTS, job ? job : "", type, text);
    free(text);
    if (!r) {
        return code_of(e);
    }
    freeReplyObject(r);
    return 0;
}

/* The id of the first or the last event that is kept ("0-0": there is none). */
static int event_end(struct store *s, bool newest, char out[32], struct err *e)
{
    redisReply *r = newest ? store_commandf(s, e, "XREVRANGE es:events + - COUNT 1") : store_commandf(s, e, "XRANGE es:events - + COUNT 1");
    int n = r ? reply_array(r, 0, e) : code_of(e);
    struct stream_entry at;
    snprintf(out, 32, "0-0");
    if (n > 0 && (n = entry_at(r, 0, &at, e)) == 0) {
        snprintf(out, 32, "%s", at.id);
    }
    if (r) {
        freeReplyObject(r);
    }
    return n < 0 ? n : 0;
}

static json_t *event_json(const struct stream_entry *at)
{
    size_t len = 0;
    const char *job = reply_field(at->fields, "job", NULL), *type = reply_field(at->fields, "type", NULL);
    const char *text = reply_field(at->fields, "j", &len);
    json_t *data = text ? jsonx_parse(text, len, NULL) : NULL;
    return json_pack("{s:s, s:s, s:s, s:o}", "id", at->id, "job", job ? job : "", "type", type ? type : "", "data",
                     data ? data : json_object());
}

/* "$" becomes the newest id, so that nothing between two calls is missed; an id from the future (another store) starts anew. */
static int event_place(struct store *s, char last[32], bool *gap, struct err *e)
{
    bool from_now = !strcmp(last, "$");
    if (!from_now && !store_stream_valid(last)) {
        return err_set(e, ERR_INVALID, "'%.40s' is no event's id", last);
    }
    char newest[32];
    int rc = event_end(s, true, newest, e);
    if (rc == 0 && (from_now || store_stream_compare(last, newest) > 0)) {
        *gap = !from_now;
        snprintf(last, 32, "%s", newest);
    }
    return rc;
}

json_t *store_events_read(struct store *s, char last[32], int count, int block_ms, bool *gap, struct err *e)
{
    bool missed = false;
    char most[16], wait[16], first[32];
    if (event_place(s, last, &missed, e) < 0) {
        return NULL;
    }
    block_ms = block_ms > BLOCK_MOST_MS ? BLOCK_MOST_MS : block_ms;
    snprintf(most, sizeof most, "%d", count < 1 ? 1 : count > READ_MOST ? READ_MOST : count);
    snprintf(wait, sizeof wait, "%d", block_ms > 0 ? block_ms : 1);
    const char *blocking[] = {"XREAD", "COUNT", most, "BLOCK", wait, "STREAMS", "es:events", last};
    const char *plain[] = {"XREAD", "COUNT", most, "STREAMS", "es:events", last};
    redisReply *r = block_ms > 0 ? store_wait(s, block_ms, 8, blocking, e) : store_wait(s, 0, 6, plain, e);
    const redisReply *list = NULL;
    int n = r ? entries_of(r, &list, e) : -1;
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i < n; i++) {
        struct stream_entry at;
        if (entry_at(list, i, &at, e) < 0 || (i == 0 && strcmp(last, "0-0") && event_end(s, false, first, e) < 0)) {
            json_decref(out);
            out = NULL;
            break;
        }
        if (i == 0 && strcmp(last, "0-0")) {
            missed |= store_stream_compare(last, first) < 0;
        }
        json_array_append_new(out, event_json(&at));
        snprintf(last, 32, "%s", at.id);
    }
    if (r) {
        freeReplyObject(r);
    }
    if (out && gap) {
        *gap = missed;
    }
    return out;
}
