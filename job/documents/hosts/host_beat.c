/* See host_beat.h. */
#include "job/documents/hosts/host_beat.h"

#include "common/json/jsonx.h"

json_t *host_beat_json(const struct host_beat *b)
{
    json_t *j = json_pack("{s:s*, s:s*, s:s*, s:s*, s:O*, s:O*}", "name", b->name, "instance",
                          b->instance, "address", b->address, "network", b->network, "versions",
                          b->versions, "nodes", b->nodes);
    if (j && b->load) {
        json_object_update_new(j, json_pack("{s:O, s:O*, s:i, s:O*}", "load", b->load, "gpus",
                                            b->gpus, "daemons", b->daemons, "refused", b->refused));
    }
    return j;
}

void host_beat_read(struct host_beat *out, const json_t *j)
{
    *out = (struct host_beat){.name = jsonx_string_at(j, "name"),
                              .instance = jsonx_string_at(j, "instance"),
                              .address = jsonx_string_at(j, "address"),
                              .network = jsonx_string_at(j, "network"),
                              .versions = json_object_get(j, "versions"),
                              .nodes = json_object_get(j, "nodes"),
                              .load = json_object_get(j, "load"),
                              .gpus = json_object_get(j, "gpus"),
                              .refused = json_object_get(j, "refused"),
                              .daemons = (int)json_integer_value(json_object_get(j, "daemons")),
                              .lost = json_is_true(json_object_get(j, "lost"))};
}

void host_beat_aged(json_t *j, double age_seconds, bool lost)
{
    json_object_set_new(j, "heartbeat_age_seconds", json_real(age_seconds));
    json_object_set_new(j, "lost", json_boolean(lost));
}
