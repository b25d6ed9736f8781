/* What a program needs of a node: see needs.h. */
#include "coordinator/planning/needs.h"

#include <stdio.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/packages.h"
#include "job/node.h"

static bool is_device(const json_t *node, const char *kind)
{
    size_t n = strlen(kind);
    const char *device = node_device(node);
    return strncmp(device, kind, n) == 0 && device[n] == ':';
}

/* The name of the first package that the node lacks, with the least version; NULL: none. */
static const char *lacking(const json_t *node, const json_t *manifest, const char **least)
{
    const json_t *packages = node_packages(node);
    const char *name;
    json_t *version;
    json_object_foreach(json_object_get(manifest, "needs"), name, version) {
        const char *has = json_string_value(json_object_get(packages, name));
        *least = json_string_value(version);
        if (packages && (!has || !packages_at_least(has, *least))) {
            return name;
        }
    }
    return NULL;
}

bool needs_met(const json_t *node, const json_t *manifest)
{
    const char *device = json_string_value(json_object_get(manifest, "device")), *least;
    return (!device || is_device(node, device)) && !lacking(node, manifest, &least);
}

const char *needs_sentence(const json_t *node, const json_t *manifest, char out[NEEDS_TEXT])
{
    const char *device = json_string_value(json_object_get(manifest, "device")), *least = "",
               *name = lacking(node, manifest, &least),
               *has = name ? json_string_value(json_object_get(node_packages(node), name)) : NULL;
    if (device && !is_device(node, device)) {
        snprintf(out, NEEDS_TEXT, "the program needs a device of the kind %s, and node '%s' is %s",
                 device, node_name(node), node_device(node));
    } else {
        snprintf(out, NEEDS_TEXT, "the program needs %s%s%s, and node '%s' has %s%s%s",
                 name ? name : "", *least ? " " : "", least, node_name(node), has ? name : "none",
                 has ? " " : "", has ? has : "");
    }
    return out;
}

const char *needs_list(const json_t *manifest, char out[NEEDS_TEXT])
{
    const char *device = json_string_value(json_object_get(manifest, "device")), *name;
    json_t *version;
    size_t n = 0;
    out[0] = '\0';
    if (device) {
        n = (size_t)snprintf(out, NEEDS_TEXT, " with the device %s", device);
    }
    json_object_foreach(json_object_get(manifest, "needs"), name, version) {
        const char *least = json_string_value(version);
        if (n + 1 < NEEDS_TEXT) {
            n += (size_t)snprintf(out + n, NEEDS_TEXT - n, "%s%s%s%s", n ? " and " : " with ", name,
                                  *least ? " " : "", least);
        }
    }
    return out;
}
