/* See webhook.h. */
#include "job/documents/people/webhook.h"

#include <string.h>

static const char *const scopes[] = {"own", "all"};

json_t *webhook_shown(const struct webhook *w, bool with_secret)
{
    json_t *states = json_array();
    for (int i = 0; i < w->n_states; i++) {
        json_array_append_new(states, json_string(jobstate_name(w->states[i])));
    }
    json_t *j =
        json_pack("{s:s, s:s, s:o, s:s, s:s, s:s}", "id", w->id, "address", w->address, "states",
                  states, "scope", scopes[!w->own], "owner", w->owner, "created", w->created);
    if (with_secret) {
        json_object_set_new(j, "secret", json_string(w->secret));
    }
    return j;
}

json_t *webhook_json(const struct webhook *w)
{
    json_t *j = webhook_shown(w, true);
    json_object_set_new(j, "since", json_string(w->since));
    return j;
}

bool webhook_wants(const struct webhook *w, enum job_state state)
{
    int i = 0;
    while (i < w->n_states && w->states[i] != state) {
        i++;
    }
    return i < w->n_states;
}

void webhook_add_state(struct webhook *w, enum job_state state)
{
    if (!webhook_wants(w, state)) {
        w->states[w->n_states++] = state;
    }
}

static void read_states(const struct document *d, struct webhook *out)
{
    const json_t *list = document_list(d, "states", 1, JOB_STATE_COUNT);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int state = name ? jobstate_find(name) : -1;
        if (state < 0) {
            document_problem(d, "states", "has no state at %zu", i);
        } else {
            webhook_add_state(out, (enum job_state)state);
        }
    }
}

int webhook_read(struct webhook *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    struct document d = document_plain(j, &problems);
    memset(out, 0, sizeof *out);
    document_text(&d, "id", out->id, sizeof out->id);
    document_text(&d, "address", out->address, sizeof out->address);
    read_states(&d, out);
    out->own = document_choice(&d, "scope", scopes, 2) == 0;
    document_sentence(&d, "owner", out->owner, sizeof out->owner);
    document_sentence(&d, "created", out->created, sizeof out->created);
    document_text(&d, "since", out->since, sizeof out->since);
    document_text(&d, "secret", out->secret, sizeof out->secret);
    return document_close(&d, "the webhook", e);
}
