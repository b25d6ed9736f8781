/* Interpreters and shells among the words of `evenstep run`. */
#ifndef CLI_RUN_INTERPRETER_H
#define CLI_RUN_INTERPRETER_H

#include <stdbool.h>

/* "python3", "/usr/bin/python3.11": `evenstep run python3 train.py`, as other launchers have it. */
bool interpreter_is(const char *file);
/* "bash", "/bin/sh": as in `bash train.sh`. */
bool interpreter_is_shell(const char *file);
/* `python3 FILE` becomes `--python python3 FILE`: *argc and *first (the first word that is no
 * option) count the list that is returned, which the caller frees; NULL: memory ran out. */
char **interpreter_take(int *argc, int *first, char **argv);

#endif
