/* GET /api/v1/owners: who has how much of the cluster, and how much they may have. */
#include "http/api/api.h"
#include "http/rights/limits.h"
#include "http/request/request.h"

int api_owners(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    json_t *all = store ? store_owners(store, e) : NULL, *list = json_array(), *owner;
    const char *name;
    if (!all) {
        json_decref(list);
        return -(int)e->code;
    }
    json_object_foreach(all, name, owner) {
        struct quota quota;
        limits_find(q, name, &quota);
        json_t *one = json_pack("{s:s, s:o}", "name", name, "quota", quota_json(&quota));
        json_object_update(one, owner);
        json_array_append_new(list, one);
    }
    json_decref(all);
    return reply_set_json(out, 200, json_pack("{s:o}", "owners", list), e);
}
