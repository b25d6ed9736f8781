/* Mends streams that a stranger has blocked. Anyone who may append to a stream may choose an
 * entry's id, and after the largest id Redis appends nothing more. So a reader that finds an id
 * which Redis does not make removes such entries. Writers try again as after any failure, and
 * nothing that they wrote before is lost.
 */
#include "store/internal.h"
#include "store/lua.h"

/* An id may be this far ahead: when a clock is set back, Redis goes on from its newest id. */
#define AHEAD_MS "86400000"

static struct script mend_script = {.text = LUA_CLOCK LUA_MEND};

int store_mend(struct store *s, const char *key, struct err *e)
{
    const char *keys[] = {key}, *args[] = {AHEAD_MS};
    int64_t n = 0;
    redisReply *r = store_script(s, &mend_script, 1, keys, 1, args, NULL, e);
    int rc = r ? reply_int(r, &n, e) : store_failed(e);
    freeReplyObject(r);
    if (rc >= 0 && n > 0) {
        rc = err_set(e, ERR_UNAVAILABLE,
                     "the stream '%s' had %lld entries with ids that Redis does not make; it is "
                     "whole again",
                     key, (long long)n);
    }
    return rc;
}
