/* What a rank tells the store: packed rows and its heartbeat, in one journey that brings the
 * control document back; and facts.
 *
 * Every turn of a pulse is one script, because what costs is the journey and the sync of Redis's
 * file behind it, not the rows. What a newcomer would get wrong: the job's own key and that of its
 * control document are arguments, not keys of the script. A user of Redis who may only read them
 * (the workers', docs/deployment.md) could not call the script otherwise. Times of heartbeats are
 * Redis's own, so clocks of hosts need not agree.
 */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a rank reports --------------------------------------------------------------------- */

/* KEYS rows beats; ARGV job cap rows rank beat control bytes: packed rows or "", JSON of a heartbeat
 * without its opening brace or "", the key of the control document or "", bytes of a packed row. */
static struct script report_script = {
    .text =
        "if redis.call('EXISTS', ARGV[1]) == 0 then return {0, false} end\n"
        "if ARGV[3] ~= '' then redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'r', ARGV[3], 'bytes', ARGV[7]) end\n"
        "if ARGV[5] ~= '' then\n"
        "  local t = redis.call('TIME')\n"
        "  redis.call('HSET', KEYS[2], ARGV[4], string.format('{\"at\":%d', t[1] * 1000 + math.floor(t[2] / 1000)) .. ARGV[5])\n"
        "end\n"
        "return {1, ARGV[6] ~= '' and redis.call('GET', ARGV[6])}\n",
};

/* The heartbeat's text with a comma for its opening brace: the script puts the time before it. */
static char *beat_text(int rank, const json_t *beat, struct err *e)
{
    if (!json_is_object(beat)) {
        err_set(e, ERR_INVALID, "cannot store the heartbeat of rank %d: it is no document", rank);
        return NULL;
    }
    json_t *copy = json_copy((json_t *)beat);
    json_object_del(copy, "at");
    char *text = store_dump(copy, "a heartbeat", e);
    if (text && json_object_size(copy) == 0) {
        memcpy(text, "}", 2);
    } else if (text) {
        text[0] = ',';
    }
    json_decref(copy);
    return text;
}

/* The rows, packed: n times ROW_BYTES, malloc'd. NULL with an error. */
static char *pack_rows(int rank, const struct store_report *r, struct err *e)
{
    if (r->n_rows < 0 || r->n_rows > STORE_ROWS_BYTES / ROW_BYTES) {
        err_set(e, ERR_INVALID, "cannot store %d rows of rank %d: an entry has at most %d",
                r->n_rows, rank, STORE_ROWS_BYTES / ROW_BYTES);
        return NULL;
    }
    char *packed = malloc((size_t)r->n_rows * ROW_BYTES + 1);
    if (!packed) {
        err_set(e, ERR_MEMORY, "cannot store the rows of rank %d: memory ran out", rank);
        return NULL;
    }
    for (int i = 0; i < r->n_rows; i++) {
        row_pack(&r->rows[i], ROW_BYTES, packed + (size_t)i * ROW_BYTES);
    }
    return packed;
}

/* A damaged control document is as good as none: the rows beside it were taken all the same. */
static int take_report(const char *id, const redisReply *r, struct store_report *report,
                       struct err *e)
{
    int64_t done = 0;
    int rc = reply_record(r, 2, e);
    if (rc < 0 || (rc = reply_int(r->element[0], &done, e)) < 0) {
        return rc;
    }
    report->control = report->wants_control ? reply_json(r->element[1], NULL) : NULL;
    return done ? 0 : store_no_job(id, e);
}

int store_report(struct store *s, const char *id, int rank, struct store_report *report,
                 struct err *e)
{
    char job[STORE_KEY], rows[STORE_KEY], beats[STORE_KEY], control[STORE_KEY] = "", cap[16],
                                                            field[16], each[16];
    int rc = store_rows_key(rows, id, rank, e);
    report->control = NULL;
    if (rc < 0 || (rc = store_job_key(job, id, "", e)) < 0 ||
        (rc = store_job_key(beats, id, ":beats", e)) < 0 ||
        (report->wants_control && (rc = store_job_key(control, id, ":control", e)) < 0)) {
        return rc;
    }
    char *packed = pack_rows(rank, report, e);
    char *beat = packed && report->beat ? beat_text(rank, report->beat, e) : NULL;
    if (!packed || (report->beat && !beat)) {
        free(packed);
        return store_failed(e);
    }
    snprintf(cap, sizeof cap, "%d", (int)STORE_ROWS_ENTRIES);
    snprintf(field, sizeof field, "%d", rank);
    snprintf(each, sizeof each, "%d", (int)ROW_BYTES);
    const char *keys[] = {rows, beats};
    const char *args[] = {job, cap, packed, field, beat ? beat : "", control, each};
    size_t lens[sizeof args / sizeof *args];
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        lens[i] = args[i] == packed ? (size_t)report->n_rows * ROW_BYTES : strlen(args[i]);
    }
    redisReply *r = store_script(s, &report_script, 2, keys, 7, args, lens, e);
    free(beat);
    free(packed);
    rc = r ? take_report(id, r, report, e) : store_failed(e);
    if (r) {
        freeReplyObject(r);
    }
    return rc;
}

/* ---- facts up -------------------------------------------------------------------------------- */

/* KEYS facts; ARGV cap JSON job. */
static struct script fact_script = {
    .text =
        "if redis.call('EXISTS', ARGV[3]) == 0 then return 0 end\n"
        "redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'j', ARGV[2])\n"
        "return 1\n",
};

int store_fact_add(struct store *s, const char *id, const json_t *fact, struct err *e)
{
    char job[STORE_KEY], key[STORE_KEY], cap[16], *text = NULL;
    int rc = store_job_key(job, id, "", e);
    if (rc < 0 || (rc = store_job_key(key, id, ":facts", e)) < 0) {
        return rc;
    }
    if (!(text = store_dump(fact, "a fact", e))) {
        return store_failed(e);
    }
    snprintf(cap, sizeof cap, "%d", (int)STORE_FACTS);
    const char *keys[] = {key}, *args[] = {cap, text, job};
    redisReply *r = store_script(s, &fact_script, 1, keys, 3, args, NULL, e);
    free(text);
    return store_did(id, r, e);
}
