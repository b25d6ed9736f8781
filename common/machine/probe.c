/* See probe.h. A hanging driver must not block the caller, so the program gets some seconds.
 *
 * Drivers and libraries may print before it; its line of JSON is the last one.
 */
#include "common/machine/probe.h"

#include <stdio.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "common/process/proc.h"

static const double patience_seconds =
    30; /* the first use of a GPU after the machine boots takes long */

json_t *probe_json(const struct probe *p)
{
    return json_pack("{s:s, s:s, s:I, s:i, s:O?, s:s?}", "device", p->device, "description",
                     p->description, "memory_bytes", (json_int_t)p->memory_bytes, "threads",
                     p->threads, "precisions", p->precisions, "why", p->why[0] ? p->why : NULL);
}

json_t *probe_refusal(const char *message)
{
    return json_pack("{s:s}", "error", message);
}

static void read_answer(struct probe *out, const json_t *j)
{
    json_t *precisions = json_object_get(j, "precisions");
    *out = (struct probe){.memory_bytes = json_integer_value(json_object_get(j, "memory_bytes")),
                          .threads = (int)json_integer_value(json_object_get(j, "threads")),
                          .precisions = json_is_array(precisions) ? json_incref(precisions) : NULL};
    snprintf(out->device, sizeof out->device, "%s", jsonx_string_at(j, "device"));
    snprintf(out->description, sizeof out->description, "%s", jsonx_string_at(j, "description"));
    snprintf(out->why, sizeof out->why, "%s", jsonx_string_at(j, "why"));
}

int probe_device(struct probe *out, const char *worker, const char *device, struct err *e)
{
    const char *argv[] = {worker, "--probe", device, NULL};
    char said[4096];
    int code = proc_output(argv, patience_seconds, said, sizeof said, e);
    if (code < 0) {
        return code;
    }
    const char *line = said[0] == '{' ? said : strstr(said, "\n{");
    json_t *j = code == 0 && line ? json_loads(line, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const char *error = json_string_value(json_object_get(j, "error"));
    int rc = 0;
    if (!j || error) {
        said[strcspn(said, "\n")] = 0;
        rc = err_set(e, ERR_UNSUPPORTED, "%s",
                     error     ? error
                     : said[0] ? said
                               : "the worker's program does not say what the device is");
    } else {
        read_answer(out, j);
    }
    json_decref(j);
    return rc;
}

void probe_release(struct probe *p)
{
    json_decref(p->precisions);
    p->precisions = NULL;
}
