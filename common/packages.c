/* What a host has for programs: see packages.h. */
#include "common/packages.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/proc.h"

static const double patience_seconds = 20;
enum { NO_PROGRAM = 127, ANSWER = 2048 };

const char *const packages_names[] = {"python3", "numpy", "torch", "tensorflow",
                                      "keras",   "jax",   NULL};

/* A distribution for CPUs alone has another name than the package in it. */
static const char script[] =
    "import importlib.metadata as m, importlib.util as u, json, re, sys\n"
    "found = {'python3': '%d.%d.%d' % sys.version_info[:3]}\n"
    "for name in sys.argv[1:]:\n"
    "    if u.find_spec(name):\n"
    "        found[name] = ''\n"
    "        for one in (name, name + '-cpu'):\n"
    "            try:\n"
    "                found[name] = re.match('[0-9.]*', m.version(one)).group().strip('.')\n"
    "                break\n"
    "            except m.PackageNotFoundError:\n"
    "                pass\n"
    "print(json.dumps(found))\n";

bool packages_known(const char *name)
{
    for (int i = 0; packages_names[i]; i++) {
        if (strcmp(packages_names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

json_t *packages_find(const char *path, struct err *e)
{
    char variable[PATH_MAX + 64], said[ANSWER];
    const char *argv[16] = {"env", variable, "python3", "-c", script};
    int n = 5;
    const char *own = getenv("PATH");
    snprintf(variable, sizeof variable, "PATH=%s",
             path  ? path
             : own ? own
                   : "/usr/local/bin:/usr/bin:/bin");
    for (int i = 1; packages_names[i]; i++) {
        argv[n++] = packages_names[i];
    }
    argv[n] = NULL;
    int code = proc_output(argv, patience_seconds, said, sizeof said, e);
    if (code == NO_PROGRAM) {
        return json_object();
    }
    json_t *j = code == 0 ? jsonx_parse(said, strlen(said), e) : NULL;
    if (!j && code > 0) {
        err_set(e, ERR_DATA, "python3 does not say which packages it has: %.200s", said);
    }
    return j;
}

bool packages_at_least(const char *version, const char *least)
{
    while (*version && *least) {
        char *had, *wanted;
        long a = strtol(version, &had, 10), b = strtol(least, &wanted, 10);
        if (a != b) {
            return a > b;
        }
        version = had + (*had == '.');
        least = wanted + (*wanted == '.');
        if (had == version && wanted == least) {
            break; /* neither a number nor a dot */
        }
    }
    return true;
}
