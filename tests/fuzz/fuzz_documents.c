/* Documents between processes (job/documents). The first byte picks the reader, what follows is
 * JSON. Of a document that was read is checked what others rely on: written and read again it is
 * the same. */
#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "job/documents/ranks/beat.h"
#include "job/documents/coordinator/bookmark.h"
#include "job/documents/results/checked.h"
#include "job/documents/results/compared.h"
#include "job/documents/coordinator/control.h"
#include "job/documents/people/events.h"
#include "job/documents/ranks/fact.h"
#include "job/documents/hosts/host_beat.h"
#include "job/documents/hosts/joining.h"
#include "job/documents/coordinator/launched.h"
#include "job/documents/coordinator/measured.h"
#include "job/documents/ranks/offer.h"
#include "job/documents/coordinator/plan.h"
#include "job/documents/results/scored.h"
#include "job/documents/results/summary.h"
#include "job/documents/people/webhook.h"
#include "worker/checkpoint/progress.h"

/* Reads `j`; NULL: it is not valid, and *rc and *e say why. Else what was read, written again. */
typedef json_t *again_fn(const json_t *j, int *rc, struct err *e);

#define AGAIN(X, read, release)                                       \
    static json_t *again_##X(const json_t *j, int *rc, struct err *e) \
    {                                                                 \
        static struct X x;                                            \
        *rc = read;                                                   \
        json_t *out = *rc < 0 ? NULL : X##_json(&x);                  \
        release;                                                      \
        return out;                                                   \
    }

AGAIN(control, control_read(&x, j, e), (void)0)
AGAIN(plan, plan_read(&x, j, e), plan_release(&x))
AGAIN(beat, beat_read(&x, j, e), beat_release(&x))
AGAIN(fact, fact_read(&x, j, e), fact_release(&x))
AGAIN(launched, launched_read(&x, j, e), (void)0)
AGAIN(bookmark, bookmark_read(&x, 3, j, e), bookmark_release(&x))
AGAIN(measured, measured_read(&x, j, e), measured_release(&x))
AGAIN(checked, checked_read(&x, j, e), checked_release(&x))
AGAIN(compared, compared_read(&x, j, e), (void)0)
AGAIN(offer, offer_read(&x, j, e), offer_release(&x))
AGAIN(evaluations, evaluations_read(&x, j, e), evaluations_release(&x))

AGAIN(webhook, webhook_read(&x, j, e), (void)0)
AGAIN(scored, scored_read(&x, j, e), scored_release(&x))
AGAIN(host_beat, (host_beat_read(&x, j), 0), (void)0)
AGAIN(joining_ask, (joining_ask_read(&x, j), 0), (void)0)
AGAIN(joining_answer, (joining_answer_read(&x, j), 0), (void)0)

/* What a checkpoint tells is told on by the next one, of a job with the same spec. */
static json_t *again_progress(const json_t *j, int *rc, struct err *e)
{
    static struct jobspec spec;
    static struct run_state state;
    struct progress_run of;
    state = (struct run_state){0};
    *rc = progress_read(&state, &of, j, e);
    json_t *out = *rc < 0 ? NULL : progress_json(&spec, &state);
    json_decref(state.staleness);
    return out;
}

/* What is taken from a summary is no summary: it is only read. */
static json_t *again_summary(const json_t *j, int *rc, struct err *e)
{
    struct summary_read s;
    *rc = summary_read(&s, j, e);
    BUG_ON(*rc >= 0 && (!json_is_object(s.live) || !json_is_array(s.assignments)));
    summary_release(&s);
    return NULL;
}

/* The data of an event, of whichever type. */
static json_t *again_events(const json_t *j, int *rc, struct err *e)
{
    struct job_event job;
    struct node_event node;
    struct row row;
    (void)e;
    *rc = 0;
    BUG_ON(job_event_read(j, &job) && (int)job.state >= JOB_STATE_COUNT);
    BUG_ON(node_event_read(j, &node) && (!node.name || !node.change));
    for (size_t i = 0; rows_event_read(j, i, &row); i++) {
        BUG_ON(isinf(row.time));
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static again_fn *const all[] = {
        again_control,  again_plan,     again_beat,      again_fact,        again_launched,
        again_bookmark, again_measured, again_checked,   again_evaluations, again_summary,
        again_offer,    again_scored,   again_host_beat, again_joining_ask, again_joining_answer,
        again_progress, again_webhook,  again_events,    again_compared};
    json_t *j = size > 0 ? fuzz_json(data + 1, size - 1) : NULL;
    struct err e = {0};
    int rc;
    if (!j) {
        return 0;
    }
    again_fn *again = all[data[0] % (sizeof all / sizeof *all)];
    json_t *once = again(j, &rc, &e);
    fuzz_error(rc, &e);
    if (once) {
        json_t *twice = again(once, &rc, &e);
        fuzz_error(rc, &e);
        BUG_ON(!twice || !json_equal(once, twice));
        json_decref(twice);
    }
    json_decref(once);
    json_decref(j);
    return 0;
}
