/* Users' own programs: see programs.h. */
#include "coordinator/programs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_BYTES = 1 << 20 };

/* A name is one folder's, and none that is hidden or leads elsewhere. */
static bool is_name(const char *name)
{
    for (const char *p = name; *p; p++) {
        if (!isalnum((unsigned char)*p) && !strchr("-_.", *p)) {
            return false;
        }
    }
    return name[0] && name[0] != '.';
}

static json_t *read_manifest(const char *data_dir, const char *name, char folder[PATH_MAX],
                             struct err *e)
{
    char path[PATH_MAX];
    if (!is_name(name)) {
        err_set(e, ERR_INVALID, "'%s' cannot be the name of a program", name);
        return NULL;
    }
    snprintf(folder, PATH_MAX, "%.3500s/programs/%s", data_dir, name);
    snprintf(path, sizeof path, "%.3700s/manifest.json", folder);
    json_t *j = jsonx_load(path, MANIFEST_BYTES, e);
    if (!j) {
        err_prefix(e, "this service has no program '%s'", name);
    } else if (json_array_size(json_object_get(j, "command")) == 0) {
        err_set(e, ERR_DATA, "the manifest of the program '%s' has no 'command'", name);
        json_decref(j);
        j = NULL;
    }
    return j;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool is_of_type(const char *value, const char *type)
{
    char *end = NULL;
    if (strcmp(type, "number") == 0) {
        strtod(value, &end);
    } else if (strcmp(type, "integer") == 0) {
        strtoll(value, &end, 10);
    } else {
        return value[0] != '-'; /* a text, which no program takes for an option */
    }
    return end != value && *end == '\0';
}

/* "--lr", "0.1", "--fast": each option is the manifest's, and has a value of its type. */
static void check_arguments(const struct program_spec *p, const json_t *manifest,
                            struct jsonx_problems *problems)
{
    const json_t *known = json_object_get(manifest, "arguments");
    size_t n = json_array_size(p->args);
    char at[40];
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(p->args, i)),
                   *type = json_string_value(json_object_get(known, name));
        snprintf(at, sizeof at, "/program/args/%zu", i);
        if (!type) {
            jsonx_problem(problems, at, "the program '%s' offers no argument '%.60s'", p->name,
                          name);
            return;
        }
        if (strcmp(type, "flag") == 0) {
            continue;
        }
        const char *value = json_string_value(json_array_get(p->args, ++i));
        snprintf(at, sizeof at, "/program/args/%zu", i);
        if (!value || !is_of_type(value, type)) {
            jsonx_problem(problems, at, "'%.60s' needs a value of the type %s", name, type);
        }
    }
}

/* ---- for a job ------------------------------------------------------------------------------- */

static void check_named(const struct program_spec *p, const char *data_dir, bool allowed,
                        struct jsonx_problems *problems)
{
    struct err why = {0};
    char folder[PATH_MAX];
    json_t *manifest = read_manifest(data_dir, p->name, folder, &why);
    if (!manifest) {
        jsonx_problem(problems, "/program/name", "%s", why.message);
    } else if (!allowed) {
        check_arguments(p, manifest, problems);
    }
    json_decref(manifest);
}

void programs_check(const struct jobspec *spec, const char *data_dir, bool allowed,
                    struct jsonx_problems *problems)
{
    static const char closed[] =
        "this service runs only programs that its operator has put there, by name (serve "
        "--allow-programs would allow it)";
    const struct program_spec *p = &spec->program;
    if (!p->given) {
        return;
    }
    if (p->digest[0]) {
        jsonx_problem(problems, "/program/digest", "no program with this digest was uploaded");
    } else if (p->name[0]) {
        check_named(p, data_dir, allowed, problems);
    } else if (!allowed) {
        jsonx_problem(problems, "/program", "%s", closed);
    }
    if (!allowed && p->name[0] && p->command) {
        jsonx_problem(problems, "/program/command", "%s", closed);
    }
    if (!allowed && p->env) {
        jsonx_problem(problems, "/program/env", "%s", closed);
    }
}

json_t *programs_resolve(const struct jobspec *spec, const char *data_dir, char folder[PATH_MAX],
                         struct err *e)
{
    const struct program_spec *p = &spec->program;
    json_t *out = json_deep_copy(spec->json), *program = json_object_get(out, "program");
    folder[0] = '\0';
    if (!p->name[0]) {
        return out;
    }
    json_t *manifest = read_manifest(data_dir, p->name, folder, e);
    if (!manifest) {
        json_decref(out);
        return NULL;
    }
    json_t *env = json_deep_copy(json_object_get(manifest, "env"));
    if (!p->command) {
        json_object_set(program, "command", json_object_get(manifest, "command"));
    }
    if (env) {
        json_object_update(env, json_object_get(program, "env"));
        json_object_set_new(program, "env", env);
    }
    json_decref(manifest);
    return out;
}
