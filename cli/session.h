/* What every command does first and last: options, help, the connection, errors on stderr. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/client.h"

struct session {
    struct opt_values *options;
    struct client client;
    struct err err;
};

/* Tells of an error on stderr, with its hint; `problems` (or NULL) are lines of their own. */
void session_complain(const struct err *e, const char *problems);
/* 0 ready; 1 help was printed; 2 used wrongly (said so); 3 no connection possible (said so).
 * `positionals` are wanted exactly. */
int session_open(struct session *s, const struct opt *table, const char *usage, int positionals,
                 int argc, char **argv);
/* Prints s->err if `failed`, closes, and gives the exit status. */
int session_close(struct session *s, int failed);
/* A call whose answer is for people: texts in it are safe to print (common/text.h). NULL: s->err.
 * */
json_t *session_ask(struct session *s, const char *method, const char *path, const json_t *body);
/* The same, but with --json the answer is printed as it is; else it is returned for the command to
 * print. NULL: printed, or failed (then s->err.code says so). */
json_t *session_call(struct session *s, const char *method, const char *path, const json_t *body);

#endif
