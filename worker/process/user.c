/* Changes a rank's user (see parts.h and docs/decisions/0037). */
#include "worker/process/parts.h"

#include <stdlib.h>
#include <sys/prctl.h>

#include "common/process/run_as.h"

static int become(const struct run_as *as, struct err *e)
{
    int rc = run_as_become(as) == 0
                 ? 0
                 : err_errno(e, ERR_FORBIDDEN, "this rank cannot run as '%s'", as->name);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of user has cleared it */
    setenv("HOME", as->home, 1);
    setenv("USER", as->name, 1);
    setenv("LOGNAME", as->name, 1);
    return rc;
}

int user_become(struct worker_config *c, struct err *e)
{
    const char *name = getenv(RUN_AS_VARIABLE), *rank = getenv("OMPI_COMM_WORLD_RANK"),
               *cache = getenv(RUN_AS_CACHE);
    bool works = rank && strtol(rank, NULL, 10) < c->plan.n_workers;
    if (!name || !cache || !works) {
        return 0;
    }
    struct run_as *as = calloc(1, sizeof(*as));
    if (!as) {
        return err_set(e, ERR_MEMORY, "cannot change the user: memory ran out");
    }
    int rc = run_as_find(as, name, e);
    if (rc == 0) {
        rc = become(as, e);
        c->cache = cache;
        c->cache_bytes = WORKER_UNPACKED_BYTES;
        c->unpacked = (struct received){c->cache, c->cache_bytes};
    }
    free(as);
    return rc;
}
