/* Around the steps: holds, the program's own state, metrics, the ends of epochs and of the run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/lib/session.h"

int hold(struct session *s, int type)
{
    struct wire_message m;

    if (!s->holding) {
        if (type != WIRE_EPOCH_END && !s->hold) {
            return 0;
        }
        s->holding = type;
    }
    if (s->saving && es_state(NULL, 0) < 0) {
        return -1;
    }
    for (;;) {
        if (talk_receive(s, &m, NULL) < 0) {
            return -1;
        }
        if (m.type == WIRE_SAVE) {
            s->saving = true;
            if (s->has_state) {
                return ES_SAVE;
            }
            if (es_state(NULL, 0) < 0) {
                return -1;
            }
        } else if (m.type == WIRE_CONTINUE) {
            s->over = s->over || (m.flags & WIRE_STOP);
            s->hold = (m.flags & WIRE_HOLD) != 0;
            s->holding = 0;
            return 0;
        } else if (m.type != WIRE_SLICE) {
            return es_fail("the rank sent message %u to a program that it holds", m.type);
        }
    }
}

PUBLIC int es_holds(void)
{
    return es_usable("es_holds") < 0 ? -1 : es_session.hold;
}

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

PUBLIC int es_state(const void *bytes, size_t n)
{
    struct session *s = &es_session;
    struct wire_message none = {.type = WIRE_STATE};

    if (es_usable("es_state") < 0) {
        return -1;
    }
    if (!s->saving) {
        return es_fail("es_state: the rank has not asked for the program's state (ES_SAVE)");
    }
    s->saving = false;
    return bytes && n ? talk_text(s, WIRE_STATE, 0, bytes, n) : talk_send(s, &none, -1);
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

/* An open pass is given up before: nothing after it would sum its gradients. */
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

static void part(struct session *s)
{
    s->left = true;
    free(s->state);
    s->state = NULL;
    if (s->fd >= 0) {
        shutdown(s->fd, SHUT_WR);
    }
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
        rc = 0; /* the rank of a job that was stopped need not wait for this */
    }
    if (rc == 0) {
        part(s);
    }
    return rc;
}

static int give_up(const char *call, const struct wire_message *m, const char *text, size_t n)
{
    struct session *s = &es_session;

    if (es_usable(call) < 0) {
        return -1;
    }
    s->open = false;
    if (talk_message(s, m, text, n) < 0) {
        return -1;
    }
    part(s);
    return 0;
}

PUBLIC int es_failed(const char *sentence)
{
    const struct wire_message m = {.type = WIRE_FAILED};

    return give_up("es_failed", &m, sentence, strlen(sentence));
}

PUBLIC int es_refused(const char *sentence)
{
    const struct wire_message m = {.type = WIRE_FAILED, .flags = WIRE_FINAL};

    return give_up("es_refused", &m, sentence, strlen(sentence));
}

int es_settled(const char *call)
{
    if (es_usable(call) < 0) {
        return -1;
    }
    if (!es_session.owed || es_session.over) {
        return 0;
    }
    es_fail(
        "%s: es_gradients answered ES_GO_DIFFERENCE: put parameters before minus after the "
        "optimizer step into run.grads, and call es_difference",
        call);
    es_refused(es_error());
    return -1;
}

PUBLIC int es_raised(const char *sentence, const char *exception, const char *file, int line)
{
    struct wire_message m = {.type = WIRE_FAILED, .failed = {.line = file ? line : 0}};
    size_t first = strlen(sentence) + 1, n = first + strlen(exception);
    char *text = malloc(n + 1);
    int rc;

    if (!text) {
        return es_failed(sentence);
    }
    memcpy(text, sentence, first);
    memcpy(text + first, exception, n - first + 1);
    memcpy(m.failed.file, file ? file : "", strnlen(file ? file : "", sizeof(m.failed.file)));
    rc = give_up("es_raised", &m, text, n);
    free(text);
    return rc;
}
