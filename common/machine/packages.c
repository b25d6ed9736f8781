/* What a Python interpreter offers to programs: see packages.h. */
#include "common/machine/packages.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "common/process/proc.h"

static const double patience_seconds = 20, import_seconds = 180;
enum { NO_PROGRAM = 127, ANSWER = 2048, VARIABLE = PATH_MAX + 64 };

const char *const packages_names[] = {"python3", "numpy", "torch", "tensorflow",
                                      "keras",   "jax",   NULL};

/* A distribution for CPUs only has another name than its package. */
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

/* Builds "PATH=…" for env(1). */
static const char *search_path(const struct packages_ask *ask, char out[VARIABLE])
{
    const char *own = getenv("PATH");
    snprintf(out, VARIABLE, "PATH=%s",
             ask->path ? ask->path
             : own     ? own
                       : "/usr/local/bin:/usr/bin:/bin");
    return out;
}

static int run(const struct packages_ask *ask, const char *const *argv, double seconds,
               char said[ANSWER], struct err *e)
{
    static const atomic_bool never;
    return proc_output_until(argv, seconds, ask->stop ? ask->stop : &never, said, ANSWER, e);
}

json_t *packages_find(const struct packages_ask *ask, struct err *e)
{
    char variable[VARIABLE], said[ANSWER];
    const char *python = ask->python ? ask->python : "python3";
    const char *argv[16] = {"env", search_path(ask, variable), python, "-c", script};
    int n = 5;
    for (int i = 1; packages_names[i]; i++) {
        argv[n++] = packages_names[i];
    }
    argv[n] = NULL;
    int code = run(ask, argv, patience_seconds, said, e);
    if (code == NO_PROGRAM) {
        return json_object();
    }
    json_t *j = code == 0 ? jsonx_parse(said, strlen(said), e) : NULL;
    if (!j && code > 0) {
        err_set(e, ERR_DATA, "%s does not say which packages it has: %.200s", python, said);
    }
    return j;
}

int packages_import(const struct packages_ask *ask, const char *name, struct err *e)
{
    /* discards what a package prints, so that only the exception is printed */
    static const char import[] =
        "import os, sys\n"
        "said, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)\n"
        "os.dup2(null, 1), os.dup2(null, 2)\n"
        "try:\n"
        "    __import__(sys.argv[1])\n"
        "except BaseException as e:\n"
        "    os.write(said, repr(e).encode())\n"
        "    sys.exit(1)\n";
    char variable[VARIABLE], said[ANSWER];
    const char *python = ask->python ? ask->python : "python3";
    const char *argv[] = {
        "env", search_path(ask, variable), "nice", "-n", "19", python, "-c", import, name, NULL};
    if (strcmp(name, "keras") == 0 || strcmp(name, "python3") == 0) {
        return 0;
    }
    int code = run(ask, argv, import_seconds, said, e);
    return code <= 0 ? code
           : said[0] ? err_set(e, ERR_DATA, "%.200s", said)
                     : err_set(e, ERR_DATA, "the interpreter ends with code %d", code);
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
            break; /* neither a digit nor a dot */
        }
    }
    return true;
}
