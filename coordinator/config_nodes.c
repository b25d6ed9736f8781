/* The nodes of this host: what --local-node and --label say, and the machine itself where nothing is said (see config.h). */
#include "coordinator/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void serve_config_complain(struct buf *bad, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_addf(bad, "%s%s", bad->len ? "; " : "", text);
}

static int cores_of_host(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static bool valid_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool ok = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') || (name[i] >= '0' && name[i] <= '9') ||
                  name[i] == '-' || name[i] == '.';
        if (!ok) {
            return false;
        }
    }
    return n > 0 && n < 48;
}

/* cpu:THREADS, cuda:INDEX, auto. Fills device and threads. */
static int read_device(const char *text, size_t n, char device[64], int *threads, struct err *e)
{
    char copy[64], *end;
    snprintf(copy, sizeof copy, "%.*s", (int)n, text);
    *threads = 1;
    if (strcmp(copy, "auto") == 0) {
        *threads = cores_of_host();
        snprintf(device, 64, "cpu:%d", *threads);
        return 0;
    }
    bool cpu = strncmp(copy, "cpu:", 4) == 0, cuda = strncmp(copy, "cuda:", 5) == 0;
    long number = cpu || cuda ? strtol(copy + (cpu ? 4 : 5), &end, 10) : -1;
    if (number < (cpu ? 1 : 0) || number > 1024 || *end) {
        return err_set(e, ERR_INVALID, "'%s' is no device: cpu:THREADS, cuda:INDEX or auto is wanted", copy);
    }
    *threads = cpu ? (int)number : 1;
    snprintf(device, 64, "%s", copy);
    return 0;
}

json_t *serve_config_node(const char *text, const char *host, struct err *e)
{
    const char *equals = strchr(text, '='), *device_text = equals ? equals + 1 : "";
    size_t name_len = equals ? (size_t)(equals - text) : 0, device_len = strcspn(device_text, ",");
    char device[64] = "", name[64];
    double slowdown = 1;
    int threads = 1;
    if (!equals || !valid_name(text, name_len)) {
        err_set(e, ERR_INVALID, "--local-node '%s': NAME=DEVICE is wanted, the name of letters, digits, '-' and '.'", text);
        return NULL;
    }
    if (read_device(device_text, device_len, device, &threads, e) < 0) {
        err_prefix(e, "--local-node '%s'", text);
        return NULL;
    }
    const char *rest = device_text + device_len;
    if (*rest) {
        char *end = NULL;
        slowdown = strncmp(rest, ",slowdown=", 10) == 0 ? strtod(rest + 10, &end) : 0;
        if (!end || end == rest + 10 || *end || !(slowdown >= 1) || slowdown > 1000) {
            err_set(e, ERR_INVALID, "--local-node '%s': after the device only ,slowdown=F may follow, F from 1 to 1000", text);
            return NULL;
        }
    }
    snprintf(name, sizeof name, "%.*s", (int)name_len, text);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:{}, s:{s:s}, s:i}", "name", name, "host", host, "device", device, "memory_bytes",
                     (json_int_t)pages * page, "threads", threads, "slowdown", slowdown, "labels", "versions", "evenstep", "0.1.0",
                     "quantum", strncmp(device, "cuda", 4) == 0 ? 8 : 4);
}

double serve_config_overload(const json_t *nodes, int cores)
{
    double sum = 0;
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        if (strncmp(json_string_value(json_object_get(node, "device")), "cpu", 3) == 0) {
            sum += json_number_value(json_object_get(node, "threads")) / json_number_value(json_object_get(node, "slowdown"));
        }
    }
    return sum / (0.7 * cores);
}

static bool has_name(const json_t *nodes, const json_t *wanted)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        if (json_equal(json_object_get(node, "name"), json_object_get(wanted, "name"))) {
            return true;
        }
    }
    return false;
}

/* Labels belong to every local node. */
static void put_labels(const struct serve_config *c, json_t *node)
{
    for (int i = 0; i < opt_count(c->options, "label"); i++) {
        const char *text = opt_item(c->options, "label", i), *equals = strchr(text, '=');
        char key[128];
        if (equals && equals != text) {
            snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
            json_object_set_new(json_object_get(node, "labels"), key, json_string(equals + 1));
        }
    }
}

void serve_config_nodes(struct serve_config *c, struct buf *bad)
{
    c->nodes = json_array();
    for (int i = 0; i < opt_count(c->options, "local-node"); i++) {
        struct err e = {0};
        const char *text = opt_item(c->options, "local-node", i);
        json_t *node = serve_config_node(text, c->host, &e);
        if (!node) {
            serve_config_complain(bad, "%s", e.message);
        } else if (has_name(c->nodes, node)) {
            serve_config_complain(bad, "--local-node '%s': there are two nodes of this name", text);
        } else {
            put_labels(c, node);
            json_array_append(c->nodes, node);
        }
        json_decref(node);
    }
    for (int i = 0; i < opt_count(c->options, "label"); i++) {
        const char *text = opt_item(c->options, "label", i), *equals = strchr(text, '=');
        if (!equals || equals == text) {
            serve_config_complain(bad, "--label '%s': K=V is wanted", text);
        }
    }
}

json_t *serve_config_own_node(const struct serve_config *c, struct err *e)
{
    char text[64], name[48];
    size_t n = 0;
    for (const char *h = c->host; *h && *h != '.' && n < sizeof name - 1; h++) { /* no '_' (PLATFORM.md) */
        name[n++] = *h == '_' ? '-' : *h;
    }
    name[n] = 0;
    snprintf(text, sizeof text, "%s=auto", name);
    json_t *node = serve_config_node(text, c->host, e);
    if (node) {
        put_labels(c, node);
    }
    return node;
}
