/* Whose a job is; see owner.h. A job's owner never changes, so a check here still holds when the
 * job is changed.
 */
#include "http/rights/owner.h"

#include <stdlib.h>
#include <string.h>

#include "http/request/request.h"

int owner_check(const struct request *q, const char *what, const char *id, const char *owner,
                struct err *e)
{
    if (q->who.role >= ROLE_ADMIN || (owner && owner[0] && strcmp(owner, q->who.owner) == 0)) {
        return 0;
    }
    if (owner && owner[0]) {
        err_set(e, ERR_FORBIDDEN,
                "%s '%s' belongs to '%s', and with the role %s '%s' changes only "
                "%ss of their own",
                what, id, owner, auth_role_name(q->who.role), q->who.owner, what);
    } else {
        err_set(e, ERR_FORBIDDEN,
                "%s '%s' belongs to nobody, and the role %s changes only %ss of "
                "one's own",
                what, id, auth_role_name(q->who.role), what);
    }
    return err_hint(e, "an admin can change it");
}

/* May the sender change this job? */
static int check(const struct request *q, const char *id, struct err *e)
{
    enum job_state state;
    if (q->who.role >= ROLE_ADMIN) {
        return 0;
    }
    struct store *store = request_store(q, e);
    if (!store || store_job_state(store, id, &state, e) < 0) {
        return -(int)e->code;
    }
    err_clear(e);
    char *owner = store_job_field(store, id, "owner", e);
    int rc = e->code ? -(int)e->code : owner_check(q, "job", id, owner, e);
    free(owner);
    return rc;
}

const char *owner_job(const struct request *q, struct err *e)
{
    const char *id = request_job(q, e);
    return id && check(q, id, e) == 0 ? id : NULL;
}
