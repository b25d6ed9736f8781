/* A node on the command line and as a document: see node.h. Pure: the caller says what the host
 * has. */
#include "job/node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "common/version.h"
#include "job/node/device_kind.h"

enum { NODE_NAME = 47, INDEX_MOST = 1024 };

bool node_valid_name(const char *name, size_t n, size_t most, bool dots)
{
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  (c == '-' && i > 0) || (c == '.' && dots && i > 0);
        if (!ok) {
            return false;
        }
    }
    return n > 0 && n <= most;
}

/* One of the forms of job/node/devices.def, or auto. */
static int read_device(const char *text, size_t n, int cores, char device[64], int *threads,
                       struct err *e)
{
    char copy[64], *end;
    snprintf(copy, sizeof copy, "%.*s", (int)n, text);
    *threads = 1;
    if (strcmp(copy, "auto") == 0) {
        *threads = cores > 0 ? cores : 1;
        snprintf(device, 64, "cpu:%d", *threads);
        return 0;
    }
    const struct device_kind *kind = device_kind_of(copy);
    bool of_threads = kind && kind->argument == DEVICE_THREADS;
    const char *colon = strchr(copy, ':'), *digits = colon ? colon + 1 : "";
    long number = kind && *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
    if (number < (of_threads ? 1 : 0) || number > INDEX_MOST || *end) {
        char forms[200];
        device_kind_forms(forms, sizeof forms);
        return err_set(e, ERR_INVALID, "'%s' is not a device: expected %s or auto", copy, forms);
    }
    *threads = of_threads ? (int)number : 1;
    snprintf(device, 64, "%s", copy);
    return 0;
}

static int read_slowdown(const char *rest, double *slowdown, struct err *e)
{
    char *end = NULL;
    if (!*rest) {
        return 0;
    }
    *slowdown = strncmp(rest, ",slowdown=", 10) == 0 ? strtod(rest + 10, &end) : 0;
    if (!end || end == rest + 10 || *end || !(*slowdown >= 1) || *slowdown > 1000) {
        return err_set(e, ERR_INVALID,
                       "after the device only ,slowdown=F may follow, F from 1 to 1000");
    }
    return 0;
}

json_t *node_parse(const char *option, const char *text, const struct node_host *host,
                   struct err *e)
{
    const char *equals = strchr(text, '='), *device_text = equals ? equals + 1 : "";
    size_t name_len = equals ? (size_t)(equals - text) : 0, device_len = strcspn(device_text, ",");
    char device[64] = "", name[NODE_NAME + 1];
    double slowdown = 1;
    int threads = 1;
    if (!equals || !node_valid_name(text, name_len, NODE_NAME, true)) {
        err_set(e, ERR_INVALID,
                "%s '%s': expected NAME=DEVICE with a name of letters, digits, '-' and '.'", option,
                text);
        return NULL;
    }
    if (read_device(device_text, device_len, host->cores, device, &threads, e) < 0 ||
        read_slowdown(device_text + device_len, &slowdown, e) < 0) {
        err_prefix(e, "%s '%s'", option, text);
        return NULL;
    }
    snprintf(name, sizeof name, "%.*s", (int)name_len, text);
    return json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:{}, s:{s:s}, s:i}", "name", name, "host",
                     host->name, "device", device, "memory_bytes", (json_int_t)host->memory_bytes,
                     "threads", threads, "slowdown", slowdown, "labels", "versions", "evenstep",
                     EVENSTEP_VERSION, "quantum", device_kind_quantum(device));
}

bool node_asks_auto(const char *text)
{
    const char *device = strchr(text, '=');
    return device && strncmp(device, "=auto", 5) == 0 && (device[5] == 0 || device[5] == ',');
}

void node_take_probe(json_t *node, const struct probe *probed)
{
    json_object_set_new(node, "device", json_string(probed->device));
    node_set_memory_bytes(node, probed->memory_bytes);
    json_object_set_new(node, "threads", json_integer(probed->threads));
    if (probed->precisions) {
        json_object_set(node, "precisions", probed->precisions);
    }
    json_object_set_new(node, "description", json_string(probed->description));
    json_object_set_new(node, "quantum", json_integer(device_kind_quantum(probed->device)));
}

static bool is_cpu(const json_t *node)
{
    return strncmp(node_device(node), "cpu", 3) == 0;
}

bool node_any_cpu(const json_t *nodes)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        if (is_cpu(node)) {
            return true;
        }
    }
    return false;
}

void node_take_precisions(json_t *nodes, json_t *precisions)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        if (precisions && is_cpu(node)) {
            json_object_set(node, "precisions", precisions);
        }
    }
}

/* A node that was not probed counts as usual for its kind. */
bool node_offers(const json_t *node, const char *precision)
{
    const json_t *offered = json_object_get(node, "precisions");
    const char *device = json_string_value(json_object_get(node, "device"));
    size_t i;
    json_t *one;
    if (!json_is_array(offered)) {
        return device_kind_offers(device, precision);
    }
    json_array_foreach(offered, i, one) {
        if (json_is_string(one) && strcmp(json_string_value(one), precision) == 0) {
            return true;
        }
    }
    return false;
}

int node_label(json_t *nodes, const char *text, struct err *e)
{
    const char *equals = strchr(text, '=');
    char key[128];
    size_t i;
    json_t *node;
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof key) {
        return err_set(e, ERR_INVALID, "--label '%s': expected K=V", text);
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    json_array_foreach(nodes, i, node) {
        json_object_set_new(json_object_get(node, "labels"), key, json_string(equals + 1));
    }
    return 0;
}

bool node_same_name(const json_t *nodes, const json_t *node)
{
    size_t i;
    json_t *other;
    json_array_foreach(nodes, i, other) {
        if (json_equal(json_object_get(other, "name"), json_object_get(node, "name"))) {
            return true;
        }
    }
    return false;
}

/* ---- what the document says ------------------------------------------------------------------ */

const char *node_name(const json_t *node)
{
    return jsonx_string_at(node, "name");
}

const char *node_host(const json_t *node)
{
    return jsonx_string_at(node, "host");
}

const char *node_device(const json_t *node)
{
    return jsonx_string_at(node, "device");
}

const char *node_address(const json_t *node)
{
    return jsonx_string_at(node, "address");
}

double node_slowdown(const json_t *node)
{
    double slowdown = json_number_value(json_object_get(node, "slowdown"));
    return slowdown > 1 ? slowdown : 1;
}

int node_threads(const json_t *node)
{
    json_int_t threads = json_integer_value(json_object_get(node, "threads"));
    return threads > 0 && threads < 4096 ? (int)threads : 1;
}

int64_t node_memory_bytes(const json_t *node)
{
    return json_integer_value(json_object_get(node, "memory_bytes"));
}

const json_t *node_labels(const json_t *node)
{
    return json_object_get(node, "labels");
}

struct node_python node_python(const json_t *node, const char *interpreter)
{
    const json_t *all = json_object_get(node, "interpreters"), *one;
    struct node_python found = {.asked = json_is_true(json_object_get(node, "asking"))};
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)all, i, one) {
        bool named = strcmp(jsonx_string_at(one, "path"), interpreter) == 0;
        if (named || (i == 0 && strcmp(interpreter, "python3") == 0)) {
            found.packages = json_object_get(one, "packages");
            found.broken = json_object_get(one, "broken");
            return found;
        }
    }
    found.packages = all ? NULL : json_object_get(node, "packages");
    found.missing = all && interpreter[0] == '/';
    return found;
}

const char *node_interpreter(const json_t *node, size_t i)
{
    const json_t *all = json_object_get(node, "interpreters");
    return json_string_value(json_object_get(json_array_get(all, i), "path"));
}

/* If no interpreter was named, there is one entry, `python3`. */
void node_set_interpreters(json_t *node, const json_t *all)
{
    json_t *first = json_array_get(all, 0), *packages = json_object_get(first, "packages");
    if (!all) {
        json_object_set_new(node, "asking", json_true());
        return;
    }
    json_object_del(node, "asking");
    if (packages) {
        json_object_set(node, "packages", packages);
    }
    if (strcmp(jsonx_string_at(first, "path"), "python3") != 0) {
        json_object_set(node, "interpreters", (json_t *)(uintptr_t)all);
    }
}

bool node_has_agent(const json_t *node)
{
    return json_is_true(json_object_get(node, "agent"));
}

bool node_is_leaving(const json_t *node)
{
    return json_is_true(json_object_get(node, "leaving"));
}

void node_set_leaving(json_t *node)
{
    json_object_set_new(node, "leaving", json_true());
}

void node_set_auto(json_t *node)
{
    json_object_set_new(node, "device", json_string("auto"));
}

void node_set_memory_bytes(json_t *node, int64_t bytes)
{
    json_object_set_new(node, "memory_bytes", json_integer((json_int_t)bytes));
}

void node_set_agent(json_t *node, json_t *versions)
{
    json_object_set_new(node, "agent", json_true());
    json_object_set(node, "versions", versions);
}

void node_set_address(json_t *node, const char *address)
{
    json_object_set_new(node, "address", json_string(address));
}

void node_set_state(json_t *node, const char *state)
{
    json_object_set_new(node, "state", json_string(state));
}

int node_failures(const json_t *node)
{
    return (int)json_integer_value(json_object_get(node, "failures"));
}

const char *node_state(const json_t *node)
{
    return jsonx_string_at(node, "state");
}

const char *node_user(const json_t *node)
{
    return jsonx_string_at(node, "job");
}

double node_beat_age(const json_t *node)
{
    return json_number_value(json_object_get(node, "heartbeat_age_seconds"));
}
