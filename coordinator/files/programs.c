/* Users' own programs: see programs.h. */
#include "coordinator/files/programs.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/files/uploads.h"
#include "job/node/program_manifest.h"

enum { MANIFEST_BYTES = 1 << 20 };

/* Is this the name of one folder, not hidden and not leading elsewhere? */
static bool is_name(const char *name)
{
    for (const char *p = name; *p; p++) {
        if (!isalnum((unsigned char)*p) && !strchr("-_.", *p)) {
            return false;
        }
    }
    return name[0] && name[0] != '.';
}

/* ---- manifests ------------------------------------------------------------------------------- */

/* The manifest of a program that an operator put in DIR/programs/NAME. */
static json_t *read_named(const char *data_dir, const char *name, struct err *e)
{
    char path[PATH_MAX];
    struct jsonx_problems problems = {0};
    if (!is_name(name)) {
        err_set(e, ERR_INVALID, "'%s' cannot be the name of a program", name);
        return NULL;
    }
    snprintf(path, sizeof path, "%.3500s/programs/%s/manifest.json", data_dir, name);
    json_t *given = jsonx_load(path, MANIFEST_BYTES, e);
    if (!given) {
        err_prefix(e, "this service has no program '%s'", name);
        return NULL;
    }
    json_t *j = program_manifest_read(given, "", &problems);
    if (problems.count > 0) {
        err_set(e, ERR_DATA, "the manifest of the program '%s' is not valid: %s", name,
                problems.items[0].message);
    } else if (!program_manifest_command(j)) {
        err_set(e, ERR_DATA, "the manifest of the program '%s' has no 'command'", name);
    }
    if (problems.count > 0 || !program_manifest_command(j)) {
        json_decref(j);
        j = NULL;
    }
    jsonx_problems_release(&problems);
    json_decref(given);
    return j;
}

/* The manifest of an uploaded program; JSON null where it has none. */
static json_t *read_uploaded(const char *data_dir, const char *digest, struct err *e)
{
    json_t *facts = uploads_get(data_dir, digest, e),
           *manifest = json_incref(uploads_manifest(facts));
    json_decref(facts);
    return facts && !manifest ? json_null() : manifest;
}

static json_t *read_manifest(const struct program_spec *p, const char *data_dir, struct err *e)
{
    return p->digest[0] ? read_uploaded(data_dir, p->digest, e) : read_named(data_dir, p->name, e);
}

/* ---- for a job ------------------------------------------------------------------------------- */

static const char *closed(const struct program_spec *p, struct program_rights rights)
{
    if (rights.allowed) {
        return "this needs the role programs: with your role a job runs a program as its manifest "
               "says";
    }
    return p->digest[0]
               ? "this service runs no uploaded programs (serve --allow-programs would "
                 "allow it)"
               : "this service runs only programs that its operator has put there, by name "
                 "(serve --allow-programs would allow it)";
}

/* A program by name or by digest. */
static void check_kept(const struct program_spec *p, const char *data_dir,
                       struct program_rights rights, struct jsonx_problems *problems)
{
    const char *key = p->digest[0] ? "/program/digest" : "/program/name";
    struct err why = {0};
    json_t *manifest = read_manifest(p, data_dir, &why);
    if (!manifest) {
        jsonx_problem(problems, key, "%s", why.message);
    } else if (p->digest[0] && !rights.allowed) {
        jsonx_problem(problems, key, "%s", closed(p, rights));
    } else if (!p->command && !program_manifest_command(manifest)) {
        jsonx_problem(
            problems, "/program/command",
            "this program has no manifest (evenstep.json) with a command, so the job must "
            "give one");
    } else if (!rights.any || (!p->command && program_manifest_lists_arguments(manifest))) {
        program_manifest_arguments(manifest, p->args, p->digest[0] ? p->digest : p->name, problems);
    }
    json_decref(manifest);
}

void programs_check(const struct jobspec *spec, const char *data_dir, struct program_rights rights,
                    struct jsonx_problems *problems)
{
    const struct program_spec *p = &spec->program;
    bool kept = p->digest[0] || p->name[0];
    rights.any = rights.any && rights.allowed;
    if (!p->given) {
        return;
    }
    if (kept) {
        check_kept(p, data_dir, rights, problems);
    } else if (!rights.any) {
        jsonx_problem(problems, "/program", "%s", closed(p, rights));
    }
    if (!rights.any && kept && p->command) {
        jsonx_problem(problems, "/program/command", "%s", closed(p, rights));
    }
    if (!rights.any && p->env) {
        jsonx_problem(problems, "/program/env", "%s", closed(p, rights));
    }
}

int programs_plan(struct plan *plan, const struct jobspec *spec, const char *data_dir,
                  struct err *e)
{
    const struct program_spec *p = &spec->program;
    plan->program_folder[0] = plan->program_archive[0] = '\0';
    if (!p->given || (!p->name[0] && !p->digest[0])) {
        return 0;
    }
    json_t *manifest = read_manifest(p, data_dir, e);
    if (!manifest) {
        return -(int)e->code;
    }
    json_t *full = json_deep_copy(spec->json);
    program_manifest_fill_in(json_object_get(full, "program"), manifest);
    json_decref(manifest);
    json_decref(plan->spec);
    plan->spec = full;
    if (p->digest[0]) {
        uploads_use(data_dir, p->digest, plan->program_archive);
    } else {
        snprintf(plan->program_folder, sizeof plan->program_folder, "%.3500s/programs/%s", data_dir,
                 p->name);
    }
    return 0;
}

json_t *programs_manifest(const struct jobspec *spec, const char *data_dir)
{
    const struct program_spec *p = &spec->program;
    json_t *manifest =
        p->name[0] || p->digest[0] ? read_manifest(p, data_dir, NULL) : json_object();
    if (!p->given || !json_is_object(manifest)) {
        json_decref(manifest);
        manifest = p->given ? json_object() : NULL;
    }
    program_manifest_command_needs(manifest,
                                   p->command ? p->command : program_manifest_command(manifest));
    return manifest;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void list_named(json_t *list, const char *data_dir)
{
    char path[PATH_MAX];
    struct dirent **names = NULL;
    snprintf(path, sizeof path, "%.3500s/programs", data_dir);
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        json_t *manifest = read_named(data_dir, names[i]->d_name, NULL);
        if (manifest) {
            json_t *program = json_pack("{s:s, s:s}", "kind", "operator", "name", names[i]->d_name);
            program_manifest_tell(program, manifest);
            json_array_append_new(list, program);
        }
        json_decref(manifest);
        free(names[i]);
    }
    free(names);
}

json_t *programs_list(const char *data_dir, struct err *e)
{
    json_t *list = json_array(), *uploads = uploads_list(data_dir, e), *one;
    size_t i;
    list_named(list, data_dir);
    json_array_foreach(uploads, i, one) {
        json_array_append_new(list, programs_describe(one));
    }
    json_decref(uploads);
    return list;
}

json_t *programs_describe(const json_t *upload)
{
    json_t *program = json_copy((json_t *)upload);
    json_object_set_new(program, "kind", json_string("uploaded"));
    json_object_del(program, "manifest");
    program_manifest_tell(program, uploads_manifest(upload));
    return program;
}
