/* What a rank reports to the store: packed rows and its heartbeat, in one round trip that brings
 * the control document back; and facts. All of it is sealed with the rank's key, since others may
 * write the same streams (docs/decisions/0015).
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

void store_seal_with(struct store *s, const struct sign_key *key)
{
    s->seal = *key;
}

/* ---- what a rank reports --------------------------------------------------------------------- */

struct script report_script = {.text = LUA_CLOCK LUA_REPORT, .by_name = true};

/* The sealed message of a document; malloc'd. */
static char *seal_text(const struct store *s, const char *kind, const json_t *document,
                       const char *what, struct err *e)
{
    if (!json_is_object(document)) {
        err_set(e, ERR_INVALID, "cannot store %s: it is no document", what);
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

/* A damaged control document counts as none; the rows of the report were taken anyway. */
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
    char job[STORE_KEY], rows[STORE_KEY], beats[STORE_KEY], control[STORE_KEY] = "", field[16],
                                                            each[16], seal[SIGN_HEX];
    struct sign_key sum;
    int rc = key_of_rank(rows, KEY_JOB_ROWS, id, rank, e);
    report->control = NULL;
    if (rc < 0 || (rc = key_of_job(job, KEY_JOB, id, e)) < 0 ||
        (rc = key_of_job(beats, KEY_JOB_BEATS, id, e)) < 0 ||
        (report->wants_control && (rc = key_of_job(control, KEY_JOB_CONTROL, id, e)) < 0)) {
        return rc;
    }
    char *packed = pack_rows(rank, report, e);
    char *beat =
        packed && report->beat ? seal_text(s, SEAL_BEAT, report->beat, "a heartbeat", e) : NULL;
    if (!packed || (report->beat && !beat)) {
        free(packed);
        return store_failed(e);
    }
    snprintf(field, sizeof field, "%d", rank);
    snprintf(each, sizeof each, "%d", (int)ROW_BYTES);
    sign_bytes(&s->seal, SEAL_ROWS, packed, (size_t)report->n_rows * ROW_BYTES, &sum);
    sign_hex(&sum, seal);
    const char *keys[] = {rows, beats};
    const char *args[] = {job, STORE_ROWS_ENTRIES, packed, field, beat ? beat : "", control, each,
                          seal};
    size_t lens[sizeof args / sizeof *args];
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        lens[i] = args[i] == packed ? (size_t)report->n_rows * ROW_BYTES : strlen(args[i]);
    }
    redisReply *r = store_script(s, &report_script, 2, keys, 8, args, lens, e);
    free(beat);
    free(packed);
    rc = r ? take_report(id, r, report, e) : store_failed(e);
    if (r) {
        freeReplyObject(r);
    }
    return rc;
}

/* ---- facts up -------------------------------------------------------------------------------- */

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
