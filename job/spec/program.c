/* The key `program` of a job spec: a user's own program trains in place of our network
 * (worker/program/). It replaces `model` and `data`, and what belongs to them. The program brings
 * model, samples, optimizer and evaluation with it, so a key about one of these is refused instead
 * of being ignored.
 *
 *   "program": {"name": "mnist", "command": ["python3", "train.py"], "args": ["--lr", "0.1"],
 *               "env": {"DATA": "/data/mnist"}, "patience_seconds": 120}
 *
 * `name` and `digest` choose a folder that the service has. The coordinator decides who may give a
 * `command`. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "job/spec/parts.h"

enum { TEXTS_MOST = 256, TEXT_BYTES = 4096 };

const struct catalog_param spec_program_params[] = {
    {"patience_seconds", PARAM_REAL, 0, 120, 1, 86400, NULL, NULL,
     "seconds that the program may neither report nor compute before it counts as hanging"},
    {.name = NULL},
};

const json_t *spec_read_texts(struct fields *f, const char *key)
{
    const json_t *given = fields_get(f, key);
    size_t i;
    json_t *text;
    char shown[48], list[FIELDS_POINTER], at[FIELDS_POINTER];
    if (given == NULL) {
        return NULL;
    }
    if (!json_is_array(given) || json_array_size(given) > TEXTS_MOST) {
        fields_problem(f, key, "'%s' must be an array of at most %d texts, not %s", key, TEXTS_MOST,
                       fields_show(shown, given));
        return NULL;
    }
    bool good = true;
    json_array_foreach((json_t *)given, i, text) {
        if (!json_is_string(text) || json_string_length(text) >= TEXT_BYTES ||
            strlen(json_string_value(text)) != json_string_length(text)) {
            jsonx_join(list, sizeof list, f->pointer, key);
            jsonx_problem(f->problems, jsonx_join_index(at, sizeof at, list, i),
                          "'%s' must hold texts of at most %d bytes, not %s", key, TEXT_BYTES - 1,
                          fields_show(shown, text));
            good = false;
        }
    }
    if (!good) {
        return NULL;
    }
    json_object_set_new(f->full, key, json_deep_copy(given));
    return json_object_get(f->full, key);
}

/* Is the name allowed for a variable? Prefixes of the rank and of MPI are not: with such a variable
 * a program could get another rank than its own, or join our ranks. */
static bool is_variable(const char *name)
{
    static const char *const ours[] = {"EVENSTEP_", "OMPI_", "PMIX_", "PRTE_"};
    if (!isalpha((unsigned char)name[0]) && name[0] != '_') {
        return false;
    }
    for (const char *p = name; *p; p++) {
        if (!isalnum((unsigned char)*p) && *p != '_') {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (strncmp(name, ours[i], strlen(ours[i])) == 0) {
            return false;
        }
    }
    return true;
}

const json_t *spec_read_env(struct fields *f)
{
    const json_t *given = fields_get(f, "env");
    const char *name;
    json_t *value;
    if (given == NULL) {
        return NULL;
    }
    if (!json_is_object(given) || json_object_size(given) > TEXTS_MOST) {
        fields_problem(f, "env", "'env' must be an object of at most %d texts by name", TEXTS_MOST);
        return NULL;
    }
    json_object_foreach((json_t *)given, name, value) {
        if (!is_variable(name)) {
            fields_problem(f, "env", "'%.60s' cannot be the name of a program's variable", name);
        } else if (!json_is_string(value) || json_string_length(value) >= TEXT_BYTES) {
            fields_problem(f, "env", "the variable '%.60s' must be a text of at most %d bytes",
                           name, TEXT_BYTES - 1);
        }
    }
    json_object_set_new(f->full, "env", json_deep_copy(given));
    return json_object_get(f->full, "env");
}

/* Checks that the job names its program. Wrong types were reported before. */
static void check_named(struct fields *f, struct fields *in, const struct program_spec *p)
{
    const char *first = json_string_value(json_array_get(p->command, 0));
    bool tells = false;
    for (const char *const *key = (const char *const[]){"name", "digest", "command", NULL}; *key;
         key++) {
        const json_t *given = json_object_get(in->given, *key);
        tells = tells || (given && !json_is_null(given));
    }
    if (p->name[0] && p->digest[0]) {
        fields_problem(in, "digest", "'name' and 'digest' exclude each other");
    }
    if (!tells && json_is_object(json_object_get(f->given, "program"))) {
        fields_problem(f, "program", "a program needs a 'name', a 'digest' or a 'command'");
    }
    bool alone = !p->name[0] && !p->digest[0];
    if (p->command && (first ? !*first : alone)) {
        fields_problem(in, "command", "the first text of 'command' is the program to start%s",
                       first ? ", not \"\"" : "; there is none");
    }
}

void spec_read_program(struct jobspec *spec, struct fields *f)
{
    static const char *const own[] = {"model",     "data",     "augment",
                                      "optimizer", "evaluate", "cluster"};
    struct program_spec *p = &spec->program;
    struct fields in;
    if (json_object_get(f->given, "program") == NULL) {
        return;
    }
    p->given = true;
    spec_open(&in, f, "program", true);
    const char *name = fields_name(&in, "name", false, sizeof p->name),
               *digest = fields_text(&in, "digest", false, sizeof p->digest);
    snprintf(p->name, sizeof p->name, "%s", name ? name : "");
    snprintf(p->digest, sizeof p->digest, "%s", digest ? digest : "");
    p->command = spec_read_texts(&in, "command");
    p->args = spec_read_texts(&in, "args");
    p->env = spec_read_env(&in);
    fields_params(&in, spec_program_params);
    fields_close(&in);
    p->patience_seconds = fields_real(in.full, "patience_seconds");
    check_named(f, &in, p);
    if (strcmp(spec->precision, "fp32") != 0) {
        fields_problem(f, "precision", "the arithmetic of a program is its own, not '%s'",
                       spec->precision);
    }
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (fields_get(f, own[i]) != NULL) {
            fields_problem(f, own[i], "'%s' has no meaning for a program, which brings its own",
                           own[i]);
        }
    }
}

bool jobspec_programs_meet(const struct jobspec *spec)
{
    size_t i;
    const json_t *word;
    json_array_foreach(spec->program.command, i, word) {
        const char *text = json_string_value(word);
        if (text && strcmp(text, "evenstep.ddp") == 0) {
            return true;
        }
    }
    return false;
}
