/* Which exception of Python ended a program, read from the traceback that it printed. A program
 * that fails before prepare() cannot tell it itself.
 */
#ifndef WORKER_PROGRAM_CHILD_EXCEPTION_H
#define WORKER_PROGRAM_CHILD_EXCEPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "job/documents/ranks/program_end.h"

struct exception {
    bool open;      /* within a traceback: its exception comes */
    bool fatal;     /* a fault ended the process: what follows is where; .open: of its own thread */
    bool own;       /* `file` is none of a library's */
    char file[96];  /* of the innermost line that is the program's, without its folder */
    int line;       /* in `file`; 0: none */
    char said[400]; /* "KeyError: 'x'", if the newest lines are that; else "" */
    bool announces; /* its first line ends with a colon: the lines that follow belong to it */
    int lines;      /* of the exception so far */
};

/* Reads one more line that the program printed. */
void exception_read(struct exception *x, const char *line);
/* Exception, file and line of out; "" and 0 if the newest line ends no traceback. */
void exception_note(const struct exception *x, struct program_end *out);

#endif
