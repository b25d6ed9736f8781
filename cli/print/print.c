/* `evenstep completion` and `evenstep manual`, and what they have in common: what a word of the
 * table stands for. */
#include "cli/print/print.h"

#include <string.h>

#include "cli/choices.h"
#include "cli/session.h"
#include "common/text/text.h"

enum word_kind word_kind(const char *word)
{
    static const struct {
        const char *begin;
        enum word_kind kind;
    } kinds[] = {{"FILE", WORD_FILE},      {"MODEL", WORD_FILE},      {"ARGS", WORD_FILE},
                 {"DIR", WORD_FOLDER},     {"FOLDER", WORD_FOLDER},   {"ID", WORD_JOB},
                 {"NODE", WORD_NODE},      {"PROGRAM", WORD_PROGRAM}, {"SHELL", WORD_SHELL},
                 {"PATH", WORD_FILE},      {"ACTION", WORD_ACTION},   {"SWEEP", WORD_SWEEP},
                 {"DATASET", WORD_DATASET}};
    word += *word == '[';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(word, kinds[i].begin, strlen(kinds[i].begin)) == 0) {
            return kinds[i].kind;
        }
    }
    return WORD_PLAIN;
}

bool print_choices(const struct opt *o, const char *between, FILE *out)
{
    int n;
    const char *const *values = choices_of(o->metavar, &n);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s%s", i ? between : "", values[i]);
    }
    return values != NULL;
}

enum word_kind argument_kind(const struct command *c, int i)
{
    const char *word = c->arguments, *last = NULL;
    for (; *word; word += strcspn(word, " "), word += strspn(word, " ")) {
        if (strncmp(word, "[OPTIONS]", 9) == 0) {
            continue;
        }
        last = word;
        if (i-- == 0) {
            return word_kind(word);
        }
    }
    return last && strstr(last, "…") ? word_kind(last) : WORD_PLAIN;
}

int argument_places(const struct command *c)
{
    int n = 0;
    for (const char *word = c->arguments; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        bool counts = strncmp(word, "[OPTIONS]", 9) != 0 && !memmem(word, length, "…", strlen("…"));
        n += counts ? 1 : 0;
        word += length;
    }
    return n;
}

static const struct opt completion_options[] = {CLIENT_HELP, {0}};
const struct opt manual_options[] = {
    {"json", NULL, OPT_FLAG, NULL, 0, 0, "prints the commands, their options and statuses as JSON"},
    CLIENT_HELP,
    {0},
};

/* Parses the options of a command that prints. True: go on, with *v; false: *status is how it
 * ends. */
static bool begin(const struct opt *options, const char *usage, int arguments, int argc,
                  char **argv, struct opt_values **v, int *status)
{
    struct err e = {0};
    int rc = opt_begin(options, usage, argc, argv, v, &e);
    *status = rc < 0 ? STATUS_USAGE : STATUS_DONE;
    if (rc < 0) {
        session_complain(&e, NULL);
    } else if (rc == 0 && opt_positionals(*v) != arguments) {
        fprintf(stderr, "usage: %s\n", usage);
        opt_free(*v);
        *status = STATUS_USAGE;
        rc = 1;
    }
    return rc == 0;
}

int command_completion(int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*print)(FILE *out);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    struct opt_values *v;
    int status;
    if (!begin(completion_options, "evenstep completion bash|zsh|fish", 1, argc, argv, &v,
               &status)) {
        return status;
    }
    status = STATUS_USAGE;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(opt_positional(v, 0), shells[i].shell) == 0) {
            shells[i].print(stdout);
            status = STATUS_DONE;
        }
    }
    if (status != STATUS_DONE) {
        char shown[64];
        fprintf(stderr, "evenstep: '%s' is not a known shell: expected bash, zsh or fish\n",
                text_shown(shown, sizeof shown, opt_positional(v, 0)));
    }
    opt_free(v);
    return status;
}

int command_manual(int argc, char **argv)
{
    struct opt_values *v;
    int status;
    if (begin(manual_options, "evenstep manual", 0, argc, argv, &v, &status)) {
        if (opt_flag(v, "json")) {
            json_t *all = manual_json();
            session_put(all);
            json_decref(all);
        } else {
            print_manual(stdout);
        }
        opt_free(v);
    }
    return status;
}
