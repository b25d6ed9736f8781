/* What happens around the steps: the number of epochs, their ends, logging, the end of the run. */
#include <math.h>
#include <string.h>

#include "client/lib/session.h"

_Static_assert(sizeof(((struct wire_shared *)0)->kept) == ES_KEPT * sizeof(double),
               "the block has as many figures as the header says");

PUBLIC int es_kept(double **figures)
{
    if (es_usable("es_kept") < 0) {
        return -1;
    }
    *figures = ((struct wire_shared *)(void *)es_session.block)->kept;
    return 0;
}

PUBLIC int es_epochs(double epochs)
{
    struct session *s = &es_session;
    struct wire_message m = {.type = WIRE_EPOCHS, .epochs = epochs};

    if (es_usable("es_epochs") < 0) {
        return -1;
    }
    if (s->started) {
        return es_fail("es_epochs: the run has started; its length is told before es_start");
    }
    return epochs > 0 ? talk_send(s, &m, -1)
                      : es_fail("es_epochs: expected more than 0 epochs, not %g", epochs);
}

PUBLIC int es_epochs_at_least(double epochs)
{
    struct wire_message m = {.type = WIRE_EPOCHS, .flags = WIRE_MORE, .epochs = epochs};

    if (es_usable("es_epochs_at_least") < 0) {
        return -1;
    }
    if (epochs <= 0 || !isfinite(epochs)) {
        return es_fail("es_epochs_at_least: expected a finite number above 0, not %g", epochs);
    }
    return talk_send(&es_session, &m, -1);
}

/* Abandons an open pass first: nothing after it would sum its gradients. */
static int ends(struct session *s, int type, int64_t epoch)
{
    if (!s->holding) {
        struct wire_message m = {.type = (uint32_t)type};

        if (s->open && !s->over && es_abort() < 0) {
            return -1;
        }
        m.slice.epoch = epoch;
        s->between = type == WIRE_EPOCH_END;
        if (talk_send(s, &m, -1) < 0) {
            return -1;
        }
    }
    return hold(s, type);
}

PUBLIC int es_epoch_end(int64_t epoch)
{
    struct session *s = &es_session;

    if (es_settled("es_epoch_end") < 0) {
        return -1;
    }
    return s->over && !s->holding ? 0 : ends(s, WIRE_EPOCH_END, epoch);
}

PUBLIC int es_log(const char *json)
{
    return es_usable("es_log") < 0 ? -1 : talk_text(&es_session, WIRE_LOG, 0, json, strlen(json));
}

PUBLIC int es_leave(void)
{
    struct session *s = &es_session;
    int rc;

    if (s->joined && s->left && !s->forked) {
        return 0;
    }
    if (es_settled("es_leave") < 0) {
        return -1;
    }
    rc = ends(s, WIRE_LEAVE, -1);
    if (rc < 0 && s->over) {
        rc = 0; /* the rank of a stopped job need not wait for this */
    }
    if (rc == 0) {
        session_part(s);
    }
    return rc;
}
