/* What a program needs of a node: see needs.h. */
#include "coordinator/planning/needs.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/machine/packages.h"
#include "job/node/node.h"
#include "job/node/program_manifest.h"

static bool is_device(const json_t *node, const char *kind)
{
    size_t n = strlen(kind);
    const char *device = node_device(node);
    return strncmp(device, kind, n) == 0 && device[n] == ':';
}

static struct node_python python_of(const json_t *node, const json_t *manifest)
{
    const char *interpreter = program_manifest_interpreter(manifest);
    return node_python(node, interpreter ? interpreter : "python3");
}

/* The first package that the node lacks, by name and least version; NULL: none. */
static const char *lacking(const struct node_python *python, const json_t *manifest,
                           const char **least)
{
    const char *name;
    json_t *version;
    json_object_foreach((json_t *)(uintptr_t)program_manifest_needs(manifest), name, version) {
        const char *has = json_string_value(json_object_get(python->packages, name));
        *least = json_string_value(version);
        if (python->packages && (!has || !packages_at_least(has, *least))) {
            return name;
        }
    }
    return NULL;
}

enum needs_answer needs_answer(const json_t *node, const json_t *manifest)
{
    const char *device = program_manifest_device(manifest), *least;
    struct node_python python = python_of(node, manifest);
    bool of_python = program_manifest_interpreter(manifest) || program_manifest_needs(manifest);
    if ((device && !is_device(node, device)) || python.missing ||
        lacking(&python, manifest, &least)) {
        return NEEDS_LACKING;
    }
    return of_python && python.asked ? NEEDS_ASKED : NEEDS_MET;
}

/* "node 'a' has /srv/venv/bin/python, /usr/bin/python3.12" */
static void list_interpreters(const json_t *node, const char *wanted, char out[NEEDS_TEXT])
{
    const char *path;
    int n = snprintf(out, NEEDS_TEXT, "the program needs the interpreter %.100s, and node '%s' has",
                     wanted, node_name(node));
    for (size_t i = 0; n < NEEDS_TEXT && (path = node_interpreter(node, i)); i++) {
        n += snprintf(out + n, (size_t)(NEEDS_TEXT - n), "%s %s", i ? "," : "", path);
    }
}

static void tell_package(const json_t *node, const json_t *manifest, char out[NEEDS_TEXT])
{
    struct node_python python = python_of(node, manifest);
    const char *least = "", *found = lacking(&python, manifest, &least), *name = found ? found : "",
               *has = json_string_value(json_object_get(python.packages, name)),
               *why = json_string_value(json_object_get(python.broken, name));
    int n = snprintf(out, NEEDS_TEXT, "the program needs %s%s%s, and node '%s' ", name,
                     *least ? " " : "", least, node_name(node));
    if (n >= NEEDS_TEXT) {
        return;
    }
    if (why) {
        snprintf(out + n, (size_t)(NEEDS_TEXT - n), "cannot import its own: %s", why);
    } else {
        snprintf(out + n, (size_t)(NEEDS_TEXT - n), "has %s%s%s", has ? name : "none",
                 has ? " " : "", has ? has : "");
    }
}

const char *needs_sentence(const json_t *node, const json_t *manifest, char out[NEEDS_TEXT])
{
    const char *device = program_manifest_device(manifest);
    if (device && !is_device(node, device)) {
        snprintf(out, NEEDS_TEXT, "the program needs a device of the kind %s, and node '%s' is %s",
                 device, node_name(node), node_device(node));
    } else if (python_of(node, manifest).missing) {
        list_interpreters(node, program_manifest_interpreter(manifest), out);
    } else {
        tell_package(node, manifest, out);
    }
    return out;
}

const char *needs_list(const json_t *manifest, char out[NEEDS_TEXT])
{
    const char *device = program_manifest_device(manifest), *name,
               *interpreter = program_manifest_interpreter(manifest);
    json_t *version;
    size_t n = 0;
    out[0] = '\0';
    if (device) {
        n = (size_t)snprintf(out, NEEDS_TEXT, " with the device %s", device);
    }
    if (interpreter) {
        n += (size_t)snprintf(out + n, NEEDS_TEXT - n, "%s%.100s", n ? " and " : " with ",
                              interpreter);
    }
    json_object_foreach((json_t *)(uintptr_t)program_manifest_needs(manifest), name, version) {
        const char *least = json_string_value(version);
        if (n + 1 < NEEDS_TEXT) {
            n += (size_t)snprintf(out + n, NEEDS_TEXT - n, "%s%s%s%s", n ? " and " : " with ", name,
                                  *least ? " " : "", least);
        }
    }
    return out;
}
