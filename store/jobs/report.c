/* What a rank reports to the store: packed rows, a fact and its heartbeat, in one round trip that
 * brings the control document back. Everything is sealed with the rank's key, since others may
 * write to the same streams (docs/decisions/0015).
 *
 * Every turn of a pulse is one script, because the round trip and the sync of Redis's file cost
 * time, not the rows. Times of heartbeats are Redis's own, so clocks of hosts need not agree.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/seal.h"

/* ---- what a rank reports --------------------------------------------------------------------- */

struct script report_script = {.text = LUA_CLOCK LUA_REPORT, .by_name = true};

/* The sealed message of a document; malloc'd. */
static char *seal_text(const struct store *s, const char *kind, const json_t *document,
                       const char *what, struct err *e)
{
    if (!json_is_object(document)) {
        err_set(e, ERR_INVALID, "cannot store %s: it is not a document", what);
        return NULL;
    }
    json_t *copy = json_copy((json_t *)document);
    char *text = sign_seal(&s->seal, kind, copy, e);
    json_decref(copy);
    if (text && strlen(text) > STORE_DOC_BYTES) {
        err_set(e, ERR_TOO_LARGE, "cannot store %s: it has %zu bytes, and %d are allowed", what,
                strlen(text), STORE_DOC_BYTES);
        free(text);
        return NULL;
    }
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

/* The control document; NULL: it is the one that was returned last. A damaged one counts as none,
 * since the rows of the report were taken anyway. */
static json_t *take_control(struct store *s, const redisReply *r)
{
    const char *text = NULL;
    if (reply_text(r, &text, NULL, NULL) <= 0 || (s->control && strcmp(s->control, text) == 0)) {
        return NULL;
    }
    free(s->control);
    s->control = strdup(text);
    return reply_json(r, NULL);
}

static int take_report(struct store *s, const char *id, const redisReply *r,
                       struct store_report *report, struct err *e)
{
    int64_t done = 0;
    int rc = reply_record(r, 2, e);
    if (rc < 0 || (rc = reply_int(r->element[0], &done, e)) < 0) {
        return rc;
    }
    report->control = report->wants_control ? take_control(s, r->element[1]) : NULL;
    return done ? 0 : store_no_job(id, e);
}

/* What a report sends, as text. */
struct sent {
    char *rows, *fact, *beat; /* owned; packed or sealed; NULL: nothing to send */
    size_t rows_bytes;
    char rows_seal[SIGN_HEX];
};

static void sent_release(struct sent *t)
{
    free(t->rows);
    free(t->fact);
    free(t->beat);
}

static int seal_all(const struct store *s, int rank, const struct store_report *r, struct sent *out,
                    struct err *e)
{
    struct sign_key sum;
    out->rows_bytes = (size_t)r->n_rows * ROW_BYTES;
    if (!(out->rows = pack_rows(rank, r, e)) ||
        (r->fact && !(out->fact = seal_text(s, SEAL_FACT, r->fact, "a fact", e))) ||
        (r->beat && !(out->beat = seal_text(s, SEAL_BEAT, r->beat, "a heartbeat", e)))) {
        return store_failed(e);
    }
    if (r->n_rows > 0) {
        sign_bytes(&s->seal_rows, out->rows, out->rows_bytes, &sum);
        sign_hex(&sum, out->rows_seal);
    }
    return 0;
}

static int send_report(struct store *s, const char *id, int rank, const struct sent *t,
                       struct store_report *report, struct err *e)
{
    char job[STORE_KEY], rows[STORE_KEY], beats[STORE_KEY], facts[STORE_KEY],
        control[STORE_KEY] = "", field[16], each[16];
    int rc = key_of_rank(rows, KEY_JOB_ROWS, id, rank, e);
    if (rc < 0 || (rc = key_of_job(job, KEY_JOB, id, e)) < 0 ||
        (rc = key_of_job(beats, KEY_JOB_BEATS, id, e)) < 0 ||
        (rc = key_of_job(facts, KEY_JOB_FACTS, id, e)) < 0 ||
        (report->wants_control && (rc = key_of_job(control, KEY_JOB_CONTROL, id, e)) < 0)) {
        return rc;
    }
    snprintf(field, sizeof field, "%d", rank);
    snprintf(each, sizeof each, "%d", (int)ROW_BYTES);
    const char *keys[] = {rows, beats, facts};
    const char *args[] = {job,
                          STORE_ROWS_ENTRIES,
                          t->rows,
                          field,
                          t->beat ? t->beat : "",
                          control,
                          each,
                          t->rows_seal,
                          STORE_FACTS,
                          t->fact ? t->fact : ""};
    size_t lens[sizeof args / sizeof *args];
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        lens[i] = args[i] == t->rows ? t->rows_bytes : strlen(args[i]);
    }
    redisReply *r = store_script(s, &report_script, 3, keys, 10, args, lens, e);
    rc = r ? take_report(s, id, r, report, e) : store_failed(e);
    freeReplyObject(r);
    return rc;
}

/* Asks only for the control document, without a script. Ranks that wait ask in each turn whether
 * one of them is lost. */
static int ask_control(struct store *s, const char *id, struct store_report *report, struct err *e)
{
    char key[STORE_KEY];
    int rc = key_of_job(key, KEY_JOB_CONTROL, id, e);
    redisReply *r = rc < 0 ? NULL : store_commandf(s, e, "GET %s", key);
    if (!r) {
        return store_failed(e);
    }
    report->control = take_control(s, r);
    freeReplyObject(r);
    return 0;
}

int store_report(struct store *s, const char *id, int rank, struct store_report *report,
                 struct err *e)
{
    struct sent sent = {0};
    report->control = NULL;
    if (report->wants_control && report->n_rows == 0 && !report->fact && !report->beat) {
        return ask_control(s, id, report, e);
    }
    int rc = seal_all(s, rank, report, &sent, e);
    if (rc >= 0) {
        rc = send_report(s, id, rank, &sent, report, e);
    }
    sent_release(&sent);
    return rc;
}

/* ---- a fact alone ---------------------------------------------------------------------------- */

struct script fact_script = {.text = LUA_FACT, .by_name = true};

int store_fact_add(struct store *s, const char *id, const json_t *fact, struct err *e)
{
    char job[STORE_KEY], key[STORE_KEY], *text = NULL;
    int rc = key_of_job(job, KEY_JOB, id, e);
    if (rc < 0 || (rc = key_of_job(key, KEY_JOB_FACTS, id, e)) < 0) {
        return rc;
    }
    if (!(text = seal_text(s, SEAL_FACT, fact, "a fact", e))) {
        return store_failed(e);
    }
    const char *keys[] = {key}, *args[] = {STORE_FACTS, text, job};
    redisReply *r = store_script(s, &fact_script, 1, keys, 3, args, NULL, e);
    free(text);
    return store_did(id, r, e);
}
