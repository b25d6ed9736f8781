/* Manifests of programs: see program_manifest.h. */
#include "job/node/program_manifest.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine/packages.h"
#include "job/node/device_kind.h"
#include "job/spec/parts.h"

enum { NEEDS_MOST = 64 };

static bool is_type(const char *text)
{
    static const char *const types[] = {"number", "integer", "text", "flag"};
    for (size_t i = 0; text && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static void read_arguments(struct fields *f)
{
    const json_t *given = fields_get(f, "arguments");
    const char *name;
    json_t *type;
    if (given && !json_is_object(given)) {
        fields_problem(f, "arguments", "'arguments' must be an object of types by name");
        return;
    }
    json_object_foreach((json_t *)given, name, type) {
        if (!is_type(json_string_value(type))) {
            fields_problem(f, "arguments",
                           "the type of '%.60s' must be number, integer, text or flag", name);
        }
    }
    if (given) {
        json_object_set_new(f->full, "arguments", json_deep_copy(given));
    }
}

/* "3", "3.9", "2.1.0", or "": any. */
static bool is_version(const char *text)
{
    return text && strspn(text, "0123456789.") == strlen(text) && strlen(text) < 32;
}

static void read_needs(struct fields *f)
{
    const json_t *given = fields_get(f, "needs");
    const char *name;
    json_t *version;
    if (given && (!json_is_object(given) || json_object_size(given) > NEEDS_MOST)) {
        fields_problem(f, "needs", "'needs' must be an object of at most %d versions by name",
                       NEEDS_MOST);
        return;
    }
    json_object_foreach((json_t *)given, name, version) {
        if (!packages_known(name)) {
            fields_problem(f, "needs", "nodes do not tell whether they have '%.60s'", name);
        } else if (!is_version(json_string_value(version))) {
            fields_problem(f, "needs",
                           "the least version of '%.60s' must be a text like \"2.1\", or \"\"",
                           name);
        }
    }
    if (given) {
        json_object_set_new(f->full, "needs", json_deep_copy(given));
    }
}

static void read_device(struct fields *f)
{
    const char *device = fields_text(f, "device", false, 32);
    char forms[200] = "";
    const struct device_kind *kind = device ? device_kind_of(device) : NULL;
    if (device && (!kind || strcmp(kind->name, device) != 0)) {
        device_kind_forms(forms, sizeof forms);
        fields_problem(f, "device", "'%s' is not a kind of device: expected %s", device, forms);
    } else if (device) {
        json_object_set_new(f->full, "device", json_string(device));
    }
}

json_t *program_manifest_read(const json_t *given, const char *pointer,
                              struct jsonx_problems *problems)
{
    json_t *full = json_object();
    struct fields f;
    fields_open(&f, given, full, pointer, problems);
    const char *description = fields_text(&f, "description", false, 400);
    if (description) {
        json_object_set_new(full, "description", json_string(description));
    }
    const json_t *command = spec_read_texts(&f, "command");
    if (command && json_array_size(command) == 0) {
        fields_problem(&f, "command", "'command' is empty");
    }
    read_arguments(&f);
    spec_read_env(&f);
    read_device(&f);
    read_needs(&f);
    fields_close(&f);
    return full;
}

/* ---- what it says ---------------------------------------------------------------------------- */

const json_t *program_manifest_command(const json_t *manifest)
{
    return json_object_get(manifest, "command");
}

const json_t *program_manifest_needs(const json_t *manifest)
{
    return json_object_get(manifest, "needs");
}

const char *program_manifest_device(const json_t *manifest)
{
    return json_string_value(json_object_get(manifest, "device"));
}

const char *program_manifest_interpreter(const json_t *manifest)
{
    return json_string_value(json_object_get(manifest, "interpreter"));
}

/* Is it a Python by its name, such as /srv/venv/bin/python or python3.12? */
static bool is_interpreter(const char *command)
{
    const char *slash = strrchr(command, '/');
    return strncmp(slash ? slash + 1 : command, "python", 6) == 0;
}

void program_manifest_command_needs(json_t *manifest, const json_t *command)
{
    const char *first = json_string_value(json_array_get(command, 0));
    if (first && strcmp(first, "python3") == 0 && !program_manifest_needs(manifest)) {
        json_object_set_new(manifest, "needs", json_pack("{s:s}", "python3", ""));
    } else if (first && strcmp(first, "python3") != 0 && is_interpreter(first)) {
        json_object_set_new(manifest, "interpreter", json_string(first));
    }
}

void program_manifest_fill_in(json_t *program, const json_t *manifest)
{
    json_t *env = json_deep_copy(json_object_get(manifest, "env")),
           *command = json_object_get(manifest, "command");
    if (command && !json_object_get(program, "command")) {
        json_object_set(program, "command", command);
    }
    if (env) {
        json_object_update(env, json_object_get(program, "env"));
        json_object_set_new(program, "env", env);
    }
}

void program_manifest_tell(json_t *program, const json_t *manifest)
{
    static const char *const keys[] = {"description", "command", "arguments", "device", "needs"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *value = json_object_get(manifest, keys[i]);
        if (value) {
            json_object_set(program, keys[i], value);
        }
    }
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
        return value[0] != '-'; /* a text must not look like an option */
    }
    return end != value && *end == '\0';
}

bool program_manifest_lists_arguments(const json_t *manifest)
{
    return json_object_get(manifest, "arguments") != NULL;
}

void program_manifest_arguments(const json_t *manifest, const json_t *args, const char *program,
                                struct jsonx_problems *problems)
{
    const json_t *known = json_object_get(manifest, "arguments");
    size_t n = json_array_size(args);
    char at[40];
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(args, i)),
                   *type = json_string_value(json_object_get(known, name));
        snprintf(at, sizeof at, "/program/args/%zu", i);
        if (!type) {
            jsonx_problem(problems, at, "the program '%.64s' offers no argument '%.60s'", program,
                          name);
            return;
        }
        if (strcmp(type, "flag") == 0) {
            continue;
        }
        const char *value = json_string_value(json_array_get(args, ++i));
        snprintf(at, sizeof at, "/program/args/%zu", i);
        if (!value || !is_of_type(value, type)) {
            jsonx_problem(problems, at, "'%.60s' needs a value of the type %s", name, type);
        }
    }
}
