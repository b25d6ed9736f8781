/* See joining.h. */
#include "job/documents/hosts/joining.h"

#include "common/json/jsonx.h"
#include "common/sign.h"

json_t *joining_ask_json(const struct joining_ask *a)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:O, s:O}", "host", a->host, "instance",
                          a->instance, "address", a->address, "network", a->network, "versions",
                          a->versions, "nodes", a->nodes);
    if (a->faulty) {
        json_object_set_new(j, "fault",
                            json_pack("{s:s, s:s}", "message", a->message, "hint", a->hint));
    }
    return j;
}

void joining_ask_read(struct joining_ask *out, const json_t *j)
{
    const json_t *fault = json_object_get(j, "fault");
    *out = (struct joining_ask){.host = jsonx_string_at(j, "host"),
                                .instance = jsonx_string_at(j, "instance"),
                                .address = jsonx_string_at(j, "address"),
                                .network = jsonx_string_at(j, "network"),
                                .nonce = sign_nonce_of(j),
                                .versions = json_object_get(j, "versions"),
                                .nodes = json_object_get(j, "nodes"),
                                .faulty = fault != NULL,
                                .message = jsonx_string_at(fault, "message"),
                                .hint = jsonx_string_at(fault, "hint")};
}

json_t *joining_answer_json(const struct joining_answer *a)
{
    return a->accepted
               ? json_pack("{s:b, s:s, s:s, s:s, s:b}", "accepted", 1, "coordinator",
                           a->coordinator, "salt", a->salt, "key", a->key, "own_user", a->own_user)
               : json_pack("{s:b, s:s, s:s}", "accepted", 0, "message", a->message, "hint",
                           a->hint);
}

void joining_answer_read(struct joining_answer *out, const json_t *j)
{
    *out = (struct joining_answer){.accepted = json_is_true(json_object_get(j, "accepted")),
                                   .coordinator = jsonx_string_at(j, "coordinator"),
                                   .salt = jsonx_string_at(j, "salt"),
                                   .key = jsonx_string_at(j, "key"),
                                   .own_user = json_is_true(json_object_get(j, "own_user")),
                                   .message = jsonx_string_at(j, "message"),
                                   .hint = jsonx_string_at(j, "hint")};
}
