/* How far the monitor has read, kept in the store for the next coordinator, which goes on from
 * there: see parts.h. An adopted attempt goes on in its middle, a new one after the end of the
 * last.
 */
#include "coordinator/monitor/parts.h"

#include "common/log.h"

/* The bookmark stays before what waits for the gate, so the next coordinator reads that again. */
int monitor_save(struct monitor *m, struct err *e)
{
    struct bookmark b;
    if (m->early.count > 0) {
        return 0;
    }
    bookmark_init(&b, ranks_count(&m->ranks));
    b.from = m->ours;
    feed_note(&m->feed, &b);
    ranks_note(&m->ranks, &b);
    b.training_samples = m->training_samples;
    b.gate_open = m->gate_open;
    b.log_offset = m->logs.offset;
    b.has_ended = m->results.has_ended;
    b.ended = m->results.ended;
    b.program = m->program;
    b.left = m->ranks.left;
    b.n_left = m->ranks.n_left;
    json_t *j = bookmark_json(&b);
    int rc = store_doc_set(m->store, m->ours.job, "detail:monitor", j, e);
    json_decref(j);
    b.left = NULL; /* borrowed from the ranks */
    bookmark_release(&b);
    return rc;
}

/* Goes on where an earlier coordinator stopped reading: of this attempt if it is adopted, else of
 * the previous one. */
static void resume(struct monitor *m, bool adopted, struct bookmark *b)
{
    feed_resume(&m->feed, b);
    m->program = b->program;
    m->training_samples = b->training_samples;
    if (adopted && sender_is(&b->from, &m->ours)) {
        m->gate_open = b->gate_open;
        m->logs.offset = (long)b->log_offset;
        m->results.has_ended = b->has_ended;
        m->results.ended = b->ended;
        ranks_resume(&m->ranks, b);
        for (int i = 0; i < b->n_left; i++) {
            ranks_leave(&m->ranks, &b->left[i]);
        }
    }
}

/* Without a readable bookmark everything is read again; the history ignores rows that it already
 * has. */
int monitor_load(struct monitor *m, bool adopted, struct err *e)
{
    struct bookmark b;
    struct err why = {0};
    char quoted[600];
    json_t *j = store_doc_get(m->store, m->ours.job, "detail:monitor", &why);
    if (!j && why.code) {
        return err_set(e, why.code, "%s", why.message);
    }
    if (j && bookmark_read(&b, ranks_count(&m->ranks), j, &why) >= 0) {
        resume(m, adopted, &b);
    } else if (j) {
        log_warn("monitor", "begins to read anew", "job=%s why=%s", m->ours.job,
                 log_quote(quoted, sizeof quoted, why.message));
    }
    if (j) {
        bookmark_release(&b);
    }
    json_decref(j);
    m->gate_open |= m->ours.attempt == 1;
    return 0;
}
