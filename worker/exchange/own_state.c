/* See own_state.h. */
#include "worker/exchange/own_state.h"

#include <string.h>

int own_state_alloc(struct own_state *s, size_t n, struct err *e)
{
    *s = (struct own_state){.bytes = calloc(own_state_floats(n) + 1, sizeof(float)), .n = n};
    return s->bytes ? 0
                    : err_set(e, ERR_MEMORY, "cannot hold a state of %zu bytes: memory ran out", n);
}

int own_state_adopt(struct own_state *s, uint8_t *bytes, size_t n, struct err *e)
{
    size_t room = own_state_floats(n) * sizeof(float);
    uint8_t *grown = realloc(bytes, room);
    if (!grown) {
        free(bytes);
        return err_set(e, ERR_MEMORY, "cannot hold a state of %zu bytes: memory ran out", n);
    }
    memset(grown + n, 0, room - n);
    *s = (struct own_state){.bytes = grown, .n = n};
    return 0;
}

int own_state_copy(struct own_state *out, const struct own_state *from, struct err *e)
{
    int rc = from->n > 0 ? own_state_alloc(out, from->n, e) : 0;
    if (rc >= 0 && from->n > 0) {
        memcpy(out->bytes, from->bytes, from->n);
    }
    return rc;
}
