/* The job that `evenstep run` submits: see spec.h. */
#include "cli/run/spec.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/refusals.h"
#include "common/json/jsonx.h"
#include "job/spec/spec.h"

enum { KEY_BYTES = 200 };

/* ---- the program ----------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* The file's own folder, or the one that was given. */
static int find_folder(struct run_program *p, const char *real, const char *folder, struct err *e)
{
    if (folder) {
        return realpath(folder, p->folder)
                   ? 0
                   : err_errno(e, ERR_NOT_FOUND, "cannot find the folder '%.300s'", folder);
    }
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", real);
    snprintf(p->folder, sizeof p->folder, "%s", dirname(copy));
    return 0;
}

/* A link is run by its own name, in the folder where it stands. */
static int find_file(const char *file, char out[PATH_MAX], struct err *e)
{
    char copy[PATH_MAX], folder[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", file);
    if (!realpath(dirname(copy), folder)) {
        return err_errno(e, ERR_NOT_FOUND, "cannot find the program '%.300s'", file);
    }
    snprintf(copy, sizeof copy, "%s", file);
    int n = snprintf(out, PATH_MAX, "%s/%s", strcmp(folder, "/") ? folder : "", basename(copy));
    struct stat st;
    if (n >= PATH_MAX || stat(out, &st) < 0) {
        return err_errno(e, ERR_NOT_FOUND, "cannot find the program '%.300s'", file);
    }
    return S_ISREG(st.st_mode)
               ? 0
               : err_set(e, ERR_INVALID, "the program '%.300s' is %s", file,
                         S_ISDIR(st.st_mode) ? "a folder: name the file to run in it"
                                             : "not a file");
}

int run_program_find(struct run_program *p, const char *file, const char *folder, struct err *e)
{
    char real[PATH_MAX];
    int rc = find_file(file, real, e);
    if (rc < 0 || (rc = find_folder(p, real, folder, e)) < 0) {
        return rc;
    }
    /* a file beneath / goes alone (refusals.c); all of / is nobody's wish */
    bool is_root = !folder && strcmp(p->folder, "/") == 0;
    size_t n = is_root ? 0 : strlen(p->folder);
    if (strncmp(real, p->folder, n) != 0 || real[n] != '/') {
        return err_set(e, ERR_INVALID, "the program '%.200s' is not in the folder '%.200s'", file,
                       p->folder);
    }
    snprintf(p->file, sizeof p->file, "%s", real + n + 1);
    bool by_name = ends_with(p->file, ".py");
    p->is_python = p->is_python || by_name;
    if (!p->is_python && access(real, X_OK) != 0) {
        bool notebook = ends_with(p->file, ".ipynb");
        err_set(e, ERR_INVALID, "the program '%.300s' does not end in .py and is not executable",
                file);
        return err_hint(e, "%s",
                        notebook ? "jupyter nbconvert --to script makes a program of it"
                                 : "chmod +x makes it executable");
    }
    const char *why = p->is_python ? NULL : refusal_of_program(real);
    if (why) {
        return err_set(e, ERR_INVALID, "'%.200s' is not a program: %s", file, why);
    }
    const char *last = strrchr(real, '/') + 1;
    snprintf(p->name, sizeof p->name, "%.*s", (int)strlen(last) - (by_name ? 3 : 0), last);
    return 0;
}

int run_module_find(struct run_program *p, const char *module, const char *folder, struct err *e)
{
    char path[PATH_MAX], file[PATH_MAX];
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", module);
    for (char *c = path + (folder ? strlen(folder) + 1 : 0); *c; c++) {
        *c = *c == '.' ? '/' : *c;
    }
    int n = snprintf(file, sizeof file, "%s.py", path);
    if (access(file, F_OK) != 0) {
        n = snprintf(file, sizeof file, "%s/__main__.py", path);
    }
    if (n >= (int)sizeof file || access(file, F_OK) != 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "cannot find the module '%.200s' in the %s: neither %.200s.py nor "
                       "%.200s/__main__.py is there",
                       module, folder ? "folder of --folder" : "current folder", path, path);
    }
    p->module = module;
    int rc = run_program_find(p, file, folder ? folder : ".", e);
    const char *last = strrchr(module, '.');
    snprintf(p->name, sizeof p->name, "%s", last ? last + 1 : module);
    return rc;
}

/* ---- --set ----------------------------------------------------------------------------------- */

/* The next key of a JSON pointer, unescaped; *at moves behind it. */
static int next_key(const char **at, char key[KEY_BYTES])
{
    size_t n = 0;
    const char *p = *at + 1;
    for (; *p && *p != '/'; p++) {
        char c = *p;
        if (c == '~' && (p[1] == '0' || p[1] == '1')) {
            c = *++p == '0' ? '~' : '/';
        }
        if (n + 1 == KEY_BYTES) {
            return -1;
        }
        key[n++] = c;
    }
    key[n] = '\0';
    *at = p;
    return 0;
}

/* Steals value. Objects on the way are made. */
static int set_at(json_t *spec, const char *pointer, json_t *value, struct err *e)
{
    char key[KEY_BYTES];
    const char *at = pointer;
    json_t *place = spec;
    for (;;) {
        if (*at != '/' || next_key(&at, key) < 0) {
            json_decref(value);
            return err_set(e, ERR_INVALID, "--set: '%.100s' is not a JSON pointer, such as /seed",
                           pointer);
        }
        if (!json_is_object(place)) {
            json_decref(value);
            return err_set(e, ERR_INVALID,
                           "--set: '%.100s' leads into something that is not an object", pointer);
        }
        if (!*at) {
            json_object_set_new(place, key, value);
            return 0;
        }
        json_t *next = json_object_get(place, key);
        if (!next) {
            next = json_object();
            json_object_set_new(place, key, next);
        }
        place = next;
    }
}

/* A value that is no JSON is a text: --set /strategy/type=sync needs no quotes in the shell. */
static int set_one(json_t *spec, const char *text, struct err *e)
{
    const char *equals = strchr(text, '=');
    if (!equals) {
        return err_set(e, ERR_INVALID, "--set '%.100s': expected POINTER=VALUE", text);
    }
    char pointer[512];
    snprintf(pointer, sizeof pointer, "%.*s", (int)(equals - text), text);
    json_t *value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    value = value ? value : json_string(equals + 1);
    return value ? set_at(spec, pointer, value, e)
                 : err_set(e, ERR_INVALID, "--set '%.100s': the value is not UTF-8", text);
}

/* ---- --env ----------------------------------------------------------------------------------- */

static int set_variable(json_t *env, const char *text, struct err *e)
{
    const char *equals = strchr(text, '='), *value = equals ? equals + 1 : getenv(text);
    char name[KEY_BYTES];
    int n = snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    if (!value) {
        return err_set(e, ERR_INVALID, "--env '%.100s': there is no such variable here", text);
    }
    return n < KEY_BYTES && json_object_set_new(env, name, json_string(value)) == 0
               ? 0
               : err_set(e, ERR_INVALID, "--env '%.100s': the name is too long, or not UTF-8",
                         text);
}

static int set_environment(json_t *program, const struct opt_values *options, struct err *e)
{
    int n = opt_count(options, "env"), rc = 0;
    json_t *env = json_object();
    for (int i = 0; rc == 0 && i < n; i++) {
        rc = set_variable(env, opt_item(options, "env", i), e);
    }
    if (n > 0) {
        json_object_set(program, "env", env);
    }
    json_decref(env);
    return rc;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* Appends a text; an argument that is no UTF-8 cannot be said in JSON. */
static int add_text(json_t *list, const char *text, struct err *e)
{
    return json_array_append_new(list, json_string(text)) == 0
               ? 0
               : err_set(e, ERR_INVALID, "the argument '%.100s' is not UTF-8", text);
}

static int fill_program(json_t *program, const struct run_program *p, const char *python, bool ddp,
                        struct err *e)
{
    char own[PATH_MAX + 2];
    json_t *command = json_array(), *args = json_array();
    json_object_set_new(program, "command", command);
    json_object_set_new(program, "args", args);
    snprintf(own, sizeof own, "%s%s", p->is_python ? "" : "./", p->file);
    int rc = p->is_python ? add_text(command, python, e) : 0;
    if (ddp || p->module) {
        json_array_append_new(command, json_string("-m"));
    }
    if (ddp) {
        json_array_append_new(command, json_string("evenstep.ddp"));
    }
    rc = rc == 0 ? add_text(command, p->module ? p->module : own, e) : rc;
    for (int i = 0; rc == 0 && i < p->n_args; i++) {
        rc = add_text(args, p->args[i], e);
    }
    return rc;
}

int run_python(const struct opt_values *options, char out[PATH_MAX], struct err *e)
{
    const char *given = opt_string(options, "python");
    char here[PATH_MAX];
    bool relative = given[0] != '/' && strchr(given, '/');
    if (relative && !getcwd(here, sizeof here)) {
        return err_errno(e, ERR_IO, "--python '%.200s': the current folder has no path", given);
    }
    int n = snprintf(out, PATH_MAX, "%s%s%s", relative ? here : "", relative ? "/" : "", given);
    if (n >= PATH_MAX) {
        return err_set(e, ERR_INVALID, "--python '%.200s…': the path is too long", given);
    }
    return relative && access(out, X_OK) != 0
               ? err_errno(e, ERR_NOT_FOUND, "--python '%.200s' cannot be run", given)
               : 0;
}

/* --workers: N, or MIN..MAX. */
struct bounds {
    int min, max; /* the same: that many; else the job is elastic */
};

static int read_bounds(const struct opt_values *options, struct bounds *out, struct err *e)
{
    const char *text = opt_string(options, "workers");
    int end = -1, least = 0, most = 0;
    if (sscanf(text, "%4d..%4d%n", &least, &most, &end) < 2) {
        end = -1;
        sscanf(text, "%4d%n", &least, &end);
        most = least;
    }
    *out = (struct bounds){.min = least, .max = most};
    return end > 0 && !text[end] && least >= 1 && least <= most && most <= SPEC_WORKERS
               ? 0
               : err_set(e, ERR_INVALID,
                         "--workers '%.40s': expected a number from 1 to %d, or two such as 2..4",
                         text, SPEC_WORKERS);
}

static void set_workers(json_t *spec, const struct bounds *w)
{
    if (w->min < w->max) {
        json_object_set_new(spec, "elastic", json_pack("{s:i, s:i}", "min", w->min, "max", w->max));
    } else {
        json_object_set_new(spec, "workers", json_integer(w->max));
    }
}

json_t *run_spec(const struct run_program *p, const struct opt_values *options, struct err *e)
{
    char python[PATH_MAX];
    const char *name = opt_string(options, "name"), *strategy = opt_string(options, "strategy");
    bool ddp = opt_flag(options, "ddp");
    struct bounds workers;
    if (read_bounds(options, &workers, e) < 0) {
        return NULL;
    }
    if (ddp && (!p->is_python || p->module)) {
        err_set(e, ERR_INVALID, "--ddp runs PyTorch programs, as a file that ends in .py");
        return NULL;
    }
    json_t *spec = json_object();
    json_object_set_new(spec, "name", json_string(name ? name : p->name));
    set_workers(spec, &workers);
    if (strategy) {
        json_object_set_new(spec, "strategy", json_pack("{s:s}", "type", strategy));
    }
    if (ddp) { /* as DistributedDataParallel averages: each rank counts the same */
        json_object_set_new(spec, "batching", json_pack("{s:s}", "policy", "equal"));
    }
    json_t *program = json_object();
    json_object_set_new(spec, "program", program);
    int rc = p->is_python ? run_python(options, python, e) : 0;
    rc = rc == 0 ? fill_program(program, p, python, ddp, e) : rc;
    rc = rc == 0 ? set_environment(program, options, e) : rc;
    for (int i = 0; rc == 0 && i < opt_count(options, "set"); i++) {
        rc = set_one(spec, opt_item(options, "set", i), e);
    }
    if (json_object_get(spec, "elastic") && !opt_given(options, "workers")) {
        json_object_del(spec, "workers"); /* its `max` says it */
    }
    if (rc < 0) {
        json_decref(spec);
        spec = NULL;
    }
    return spec;
}
