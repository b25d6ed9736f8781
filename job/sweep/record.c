/* See record.h. */
#include "job/sweep/record.h"

#include <string.h>

#include "common/json/jsonx.h"

int sweep_record_read(struct sweep_record *out, const json_t *kept, struct err *e)
{
    const char *word = jsonx_string_at(kept, "state");
    int state = sweep_state_find(word), rc;
    memset(out, 0, sizeof *out);
    out->owner = sweep_record_owner(kept);
    if (state < 0) {
        return err_set(e, ERR_DATA, "a sweep in the store has the unknown state '%.40s'", word);
    }
    out->state = (enum sweep_state)state;
    if ((rc = sweep_read(&out->sweep, json_object_get(kept, "document"), e)) < 0) {
        return rc;
    }
    return sweep_runs_read(&out->runs, json_object_get(kept, "jobs"), e);
}

void sweep_record_release(struct sweep_record *r)
{
    sweep_release(&r->sweep);
}

const char *sweep_record_owner(const json_t *kept)
{
    return jsonx_string_at(kept, "owner");
}

void sweep_record_show(const json_t *kept, json_t *out)
{
    static const char *const facts[] = {"id", "owner", "state", "created", "finished"};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        json_object_set(out, facts[i], json_object_get(kept, facts[i]));
    }
}
