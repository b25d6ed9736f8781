/* See events.h. */
#include "job/documents/people/events.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
    [EVENT_JOB] = "job", [EVENT_DELETED] = "deleted", [EVENT_NODE] = "node", [EVENT_ROWS] = "rows"};

/* ---- the entry ------------------------------------------------------------------------------- */

json_t *event_entry_json(const struct event_entry *entry)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "id", entry->id, "job", entry->job, "type",
                     entry->type, "data", entry->data);
}

bool event_entry_read(const json_t *j, struct event_entry *out)
{
    *out = (struct event_entry){.id = json_string_value(json_object_get(j, "id")),
                                .job = json_string_value(json_object_get(j, "job")),
                                .type = json_string_value(json_object_get(j, "type")),
                                .data = json_string_value(json_object_get(j, "data")),
                                .kind = EVENT_JOB};
    if (!out->id || !out->job || !out->type || !out->data) {
        return false;
    }
    while (out->kind < EVENT_OTHER && strcmp(kinds[out->kind], out->type) != 0) {
        out->kind++;
    }
    return true;
}

json_t *event_entry_data(const struct event_entry *entry)
{
    return json_loads(entry->data, 0, NULL);
}

/* ---- job ------------------------------------------------------------------------------------- */

bool job_event_read(const json_t *data, struct job_event *out)
{
    const char *from = json_string_value(json_object_get(data, "from"));
    int state = jobstate_find(jsonx_string_at(data, "state"));
    *out = (struct job_event){.from = from ? jobstate_find(from) : -1};
    snprintf(out->code, sizeof out->code, "%s",
             jsonx_string_at(json_object_get(data, "error"), "code"));
    out->state = state < 0 ? JOB_QUEUED : (enum job_state)state;
    return state >= 0;
}

bool job_event_changes(const struct job_event *event)
{
    return event->from != (int)event->state;
}

json_t *job_event_told(const json_t *data, const char *owner)
{
    json_t *told = json_copy((json_t *)data);
    json_object_set_new(told, "owner", owner ? json_string(owner) : json_null());
    return told;
}

/* ---- node ------------------------------------------------------------------------------------ */

bool node_event_read(const json_t *data, struct node_event *out)
{
    out->name = json_string_value(json_object_get(data, "name"));
    out->change = json_string_value(json_object_get(data, "change"));
    return out->name && out->change;
}

/* ---- rows ------------------------------------------------------------------------------------ */

json_t *rows_event_row(const struct row *row, const char *node)
{
    json_t *j = row_json(row, ROW_EVENTS);
    json_object_set_new(j, "rank", json_integer(row->rank));
    json_object_set_new(j, "node", json_string(node));
    return j;
}

json_t *rows_event_json(json_t *rows, int64_t samples)
{
    return json_pack("{s:o, s:f}", "rows", rows, "samples", (double)samples);
}

bool rows_event_read(const json_t *data, size_t i, struct row *out)
{
    const json_t *row = json_array_get(json_object_get(data, "rows"), i);
    *out = row_read(row);
    return json_is_object(row);
}
