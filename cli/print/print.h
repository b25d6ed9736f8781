/* What is made of the table of commands for shells and for man: `make` writes these texts into
 * BUILD/share, and `make install` puts them where shells and man look for them. */
#ifndef CLI_PRINT_PRINT_H
#define CLI_PRINT_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/commands.h"

/* What an argument or an option's value is, for a shell. */
enum word_kind {
    WORD_PLAIN,
    WORD_FILE,
    WORD_FOLDER,
    WORD_JOB,
    WORD_NODE,
    WORD_PROGRAM,
    WORD_SHELL,
    WORD_ACTION, /* of the command's actions */
    WORD_SWEEP,
    WORD_DATASET,
};

/* The kind that a word of `arguments`, or an option's metavar, stands for. */
enum word_kind word_kind(const char *word);
/* Prints the values that an option may have (cli/choices.h); false: it may have any. */
bool print_choices(const struct opt *o, const char *between, FILE *out);
/* The kind of a command's i-th argument: the last word holds for all that follow. */
enum word_kind argument_kind(const struct command *c, int i);
/* How many arguments come before the one that may be repeated; how many there are if none may. */
int argument_places(const struct command *c);

void print_bash(FILE *out);   /* bash.c */
void print_zsh(FILE *out);    /* zsh.c */
void print_fish(FILE *out);   /* fish.c */
void print_manual(FILE *out); /* manual.c: evenstep(1), roff */
/* manual_json.c: {"version", "commands": [{"name", "group", "arguments", "help", "options": […]}],
 * "statuses": […]}; new reference. */
json_t *manual_json(void);

extern const struct opt manual_options[]; /* print.c */

int command_completion(int argc, char **argv);
int command_manual(int argc, char **argv);

#endif
