/* Options of `evenstep serve` (DESIGN.md section 9, SEMANTICS.md 9 and 14) and what follows from them: folders, programs, nodes. */
#include "coordinator/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/proc.h"
#include "coordinator/coordinator.h"

const struct opt serve_options[] = {
    {"data-dir", "DIR", OPT_STRING, "./evenstep-data", 0, 0, "where jobs, the admin's token and the private store are kept"},
    {"listen", "HOST:PORT", OPT_STRING, "127.0.0.1:8080", 0, 0, "address of the page and the API; port 0 takes a free one"},
    {"store", "URL", OPT_STRING, NULL, 0, 0, "redis://HOST:PORT or unix:PATH; without it a private redis-server is started"},
    {"store-password-file", "FILE", OPT_STRING, NULL, 0, 0, "file with the store's password"},
    {"token-file", "FILE", OPT_STRING, NULL, 0, 0, "file with the admin's token, made if absent (default: DIR/token)"},
    {"local-node", "NAME=DEVICE", OPT_LIST, NULL, 0, 0,
     "a node on this host: NAME=cpu:THREADS, cuda:INDEX or auto, then ,slowdown=F to emulate a slower one"},
    {"label", "K=V", OPT_LIST, NULL, 0, 0, "a label of every local node, which a spec's `nodes` can name"},
    {"allow-host", "NAME", OPT_LIST, NULL, 0, 0, "a name besides the listen address under which browsers may come"},
    {"virtual-jobs", "N", OPT_INT, "1", 1, 64, "virtual jobs that run at a time"},
    {"static-dir", "DIR", OPT_STRING, NULL, 0, 0, "files of the page (default: found beside the program)"},
    {"log-level", "LEVEL", OPT_STRING, "info", 0, 0, "debug, info, warn or error"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    {0},
};

/* ---- nodes -------------------------------------------------------------------------------------------------- */

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

static int read_labels(struct serve_config *c, struct err *e)
{
    for (int i = 0; i < opt_count(c->options, "label"); i++) {
        const char *text = opt_item(c->options, "label", i), *equals = strchr(text, '=');
        if (!equals || equals == text) {
            return err_set(e, ERR_INVALID, "--label '%s': K=V is wanted", text);
        }
        char key[128];
        size_t k;
        json_t *node;
        snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
        json_array_foreach(c->nodes, k, node)
        {
            json_object_set_new(json_object_get(node, "labels"), key, json_string(equals + 1));
        }
    }
    return 0;
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

static int read_nodes(struct serve_config *c, struct err *e)
{
    c->nodes = json_array();
    for (int i = 0; i < opt_count(c->options, "local-node"); i++) {
        const char *text = opt_item(c->options, "local-node", i);
        json_t *node = serve_config_node(text, c->host, e);
        if (!node) {
            return -ERR_INVALID;
        }
        if (has_name(c->nodes, node)) {
            json_decref(node);
            return err_set(e, ERR_INVALID, "--local-node '%s': there are two nodes of this name", text);
        }
        json_array_append_new(c->nodes, node);
    }
    return read_labels(c, e);
}

/* ---- folders and programs ----------------------------------------------------------------------------------- */

static void own_dir(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    if (slash) {
        *slash = 0;
    }
}

/* The first of these folders that has an index.html. */
static void find_static(struct serve_config *c, const char *dir)
{
    static const char *const places[] = {"%s/../share/evenstep/static", "%s/../static", "%s/static"};
    const char *given = opt_string(c->options, "static-dir");
    char path[PATH_MAX + 32], index[PATH_MAX + 64];
    snprintf(c->static_dir, sizeof c->static_dir, "%s", given ? given : "static");
    for (size_t i = 0; !given && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s", dir, places[i] + 2);
        snprintf(index, sizeof index, "%s/index.html", path);
        if (access(index, R_OK) == 0) {
            snprintf(c->static_dir, sizeof c->static_dir, "%.*s", PATH_MAX - 1, path);
            return;
        }
    }
}

/* EVENSTEP_DATA, or DIR/data; every folder absolute, those that are not there left as they are. */
static void find_roots(struct serve_config *c)
{
    const char *given = getenv("EVENSTEP_DATA");
    char fallback[PATH_MAX + 8], part[PATH_MAX], real[PATH_MAX];
    snprintf(fallback, sizeof fallback, "%s/data", c->data_dir);
    size_t used = 0;
    for (const char *at = given && *given ? given : fallback; *at;) {
        size_t n = strcspn(at, ":");
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        const char *path = realpath(part, real) ? real : part;
        int wrote = n ? snprintf(c->roots + used, sizeof c->roots - used, "%s%s", used ? ":" : "", path) : 0;
        used += wrote > 0 && (size_t)wrote < sizeof c->roots - used ? (size_t)wrote : 0;
        at += n + (at[n] == ':');
    }
}

static int find_places(struct serve_config *c, struct err *e)
{
    const char *dir = opt_string(c->options, "data-dir"), *token = opt_string(c->options, "token-file");
    char here[PATH_MAX];
    int rc = proc_mkdirs(dir, 0700, e);
    if (rc < 0) {
        return rc;
    }
    if (!realpath(dir, c->data_dir)) {
        return err_errno(e, ERR_IO, "cannot find the data directory '%s'", dir);
    }
    own_dir(here);
    snprintf(c->worker, sizeof c->worker, "%.4000s/evenstep-worker", here);
    snprintf(c->simulator, sizeof c->simulator, "%.4000s/evenstep-simulate", here);
    if (token) {
        snprintf(c->token_file, sizeof c->token_file, "%s", token);
    } else {
        snprintf(c->token_file, sizeof c->token_file, "%.4000s/token", c->data_dir);
    }
    find_static(c, here);
    find_roots(c);
    if (gethostname(c->host, sizeof c->host - 1) != 0 || !c->host[0]) {
        snprintf(c->host, sizeof c->host, "localhost");
    }
    return 0;
}

static int read_password(struct serve_config *c, struct err *e)
{
    const char *file = opt_string(c->options, "store-password-file");
    c->password = file ? proc_read_file(file, 512, NULL, e) : NULL;
    if (file && !c->password) {
        return err_prefix(e, "cannot read the store's password");
    }
    if (c->password) {
        c->password[strcspn(c->password, "\r\n")] = 0;
    }
    return 0;
}

int serve_config_read(struct serve_config *c, int argc, char **argv, struct err *e)
{
    memset(c, 0, sizeof *c);
    c->options = opt_parse(serve_options, argc, argv, e);
    if (!c->options) {
        return -ERR_INVALID;
    }
    if (opt_flag(c->options, "help")) {
        opt_help(serve_options, "evenstep serve [OPTIONS]", stdout);
        return 1;
    }
    if (opt_positionals(c->options)) {
        return err_set(e, ERR_INVALID, "serve takes options only, not '%s'", opt_positional(c->options, 0));
    }
    int rc = find_places(c, e);
    if (rc >= 0) {
        rc = read_password(c, e);
    }
    if (rc >= 0) {
        rc = read_nodes(c, e);
    }
    c->store = opt_string(c->options, "store");
    c->listen = opt_string(c->options, "listen");
    c->virtual_jobs = (int)opt_int(c->options, "virtual-jobs");
    int hosts = opt_count(c->options, "allow-host");
    c->allow_hosts = calloc((size_t)hosts + 1, sizeof *c->allow_hosts);
    for (int i = 0; c->allow_hosts && i < hosts; i++) {
        c->allow_hosts[i] = opt_item(c->options, "allow-host", i);
    }
    return rc < 0 ? rc : 0;
}

void serve_config_release(struct serve_config *c)
{
    json_decref(c->nodes);
    free(c->allow_hosts);
    free(c->password);
    opt_free(c->options);
    memset(c, 0, sizeof *c);
}
