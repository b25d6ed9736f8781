/* Asks the worker's program what a device is: see probe.h. A driver that hangs must not hang us:
 * the program gets some seconds.
 *
 * What it prints is one line of JSON, behind whatever a driver or a library has to say.
 */
#include "common/probe.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/proc.h"

static const double patience_seconds =
    30; /* the first use of a GPU after the machine's start takes some */

json_t *probe_device(const char *worker, const char *device, struct err *e)
{
    const char *argv[] = {worker, "--probe", device, NULL};
    char out[4096];
    int code = proc_output(argv, patience_seconds, out, sizeof out, e);
    if (code < 0) {
        return NULL;
    }
    const char *line = out[0] == '{' ? out : strstr(out, "\n{");
    json_t *j = code == 0 && line ? json_loads(line, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const char *error = json_string_value(json_object_get(j, "error"));
    if (!j || error) {
        out[strcspn(out, "\n")] = 0;
        err_set(e, ERR_UNSUPPORTED, "%s",
                error    ? error
                : out[0] ? out
                         : "the worker's program does not say what the device is");
        json_decref(j);
        return NULL;
    }
    return j;
}

void probe_cpu_nodes(json_t *nodes, const char *worker)
{
    struct err ignored = {0};
    json_t *probed = NULL, *node;
    bool asked = false;
    size_t i;
    json_array_foreach(nodes, i, node) {
        if (strncmp(json_string_value(json_object_get(node, "device")), "cpu", 3) == 0) {
            probed = asked ? probed : probe_device(worker, "cpu:1", &ignored);
            asked = true;
            json_object_set(node, "precisions", json_object_get(probed, "precisions"));
        }
    }
    json_decref(probed);
}
