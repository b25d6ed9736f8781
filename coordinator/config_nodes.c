/* The nodes of this host: those that --local-node and --label describe, or the machine itself where
 * neither is given (see config.h). */
#include "coordinator/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine/host.h"
#include "common/machine/memory.h"
#include "common/machine/probe.h"
#include "job/node/node.h"

void serve_config_complain(struct buf *bad, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_addf(bad, "%s%s", bad->len ? "; " : "", text);
}

json_t *serve_config_node(const char *text, const char *host, struct err *e)
{
    struct node_host here = {host, host_cores(), memory_read().limit};
    json_t *node = node_parse("--local-node", text, &here, e);
    if (node && node_asks_auto(text)) {
        node_set_auto(node);
    }
    return node;
}

int serve_config_probe(json_t *nodes, const char *worker, struct err *e)
{
    size_t i;
    json_t *node;
    struct probe probed;
    struct err ignored = {0};
    if (node_any_cpu(nodes) && probe_device(&probed, worker, "cpu:1", &ignored) == 0) {
        node_take_precisions(nodes, probed.precisions);
        probe_release(&probed);
    }
    json_array_foreach(nodes, i, node) {
        const char *name = node_name(node);
        char device[64], quoted[600];
        snprintf(device, sizeof device, "%s", node_device(node));
        if (strncmp(device, "cpu", 3) == 0) {
            continue;
        }
        if (probe_device(&probed, worker, device, e) < 0) {
            return err_prefix(e, "--local-node '%s=%s'", name, device);
        }
        node_take_probe(node, &probed);
        log_info("serve", "device", "node=%s device=%s%s%s", name, node_device(node),
                 probed.why[0] ? " why=" : "",
                 probed.why[0] ? log_quote(quoted, sizeof quoted, probed.why) : "");
        probe_release(&probed);
    }
    return 0;
}

double serve_config_overload(const json_t *nodes, int cores)
{
    double sum = 0;
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        if (strncmp(node_device(node), "cpu", 3) == 0) {
            sum += node_threads(node) / node_slowdown(node);
        }
    }
    return sum / (0.7 * cores);
}

void serve_config_nodes(struct serve_config *c, struct buf *bad)
{
    struct err e = {0};
    c->nodes = json_array();
    for (int i = 0; i < opt_count(c->options, "local-node"); i++) {
        const char *text = opt_item(c->options, "local-node", i);
        json_t *node = serve_config_node(text, c->host, &e);
        if (!node) {
            serve_config_complain(bad, "%s", e.message);
        } else if (node_same_name(c->nodes, node)) {
            serve_config_complain(bad, "--local-node '%s': there are two nodes of this name", text);
        } else {
            json_array_append(c->nodes, node);
        }
        json_decref(node);
    }
    for (int i = 0; i < opt_count(c->options, "label");
         i++) { /* labels belong to every local node */
        if (node_label(c->nodes, opt_item(c->options, "label", i), &e) < 0) {
            serve_config_complain(bad, "%s", e.message);
        }
    }
}

json_t *serve_config_own_node(const struct serve_config *c, struct err *e)
{
    char text[64], name[48];
    host_name(name);
    snprintf(text, sizeof text, "%s=auto", name);
    json_t *node = serve_config_node(text, c->host, e), *alone = json_array();
    json_array_append(alone, node);
    for (int i = 0; node && i < opt_count(c->options, "label"); i++) {
        node_label(alone, opt_item(c->options, "label", i), NULL);
    }
    json_decref(alone);
    return node;
}
