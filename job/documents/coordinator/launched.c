/* See launched.h. */
#include "job/documents/coordinator/launched.h"

#include <string.h>

json_t *launched_json(const struct launched *l)
{
    json_t *j = document_new(LAUNCHED_FORMAT, &l->from);
    json_object_set_new(j, "pid", json_integer(l->pid));
    json_object_set_new(j, "start_ticks", json_integer((json_int_t)l->start_ticks));
    json_object_set_new(j, "launcher", json_string(l->launcher));
    json_object_set_new(j, "host", json_string(l->host));
    json_object_set_new(j, "space", json_string(l->space));
    return j;
}

int launched_read(struct launched *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, LAUNCHED_FORMAT, &out->from, &problems);
    out->pid = (int)document_integer(&d, "pid", 0, INT32_MAX);
    out->start_ticks = (uint64_t)document_integer(&d, "start_ticks", 0, INT64_MAX);
    document_text(&d, "launcher", out->launcher, sizeof out->launcher);
    if (document_has(&d, "space")) {
        document_sentence(&d, "host", out->host, sizeof out->host);
        document_sentence(&d, "space", out->space, sizeof out->space);
    }
    return document_close(&d, "the record of a launch", e);
}
