/* The rank holds the program while it reads parameters, and may then ask for the program's own
 * state. */
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
