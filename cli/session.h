/* What every command that talks to a service does first and last: options, help, the connection,
 * answers on stdout, errors on stderr, and the exit status that follows from them. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/client.h"
#include "cli/columns.h"
#include "cli/status.h"

/* How often a command that watches asks again where the service does not answer: it may be starting
 * anew. */
enum { SESSION_RETRIES = 40 };

struct session {
    struct opt_values *options;
    struct client client;
    struct err err;
    char owner[128]; /* value of `jobs --owner`; "": jobs of all owners are listed */
    bool json;       /* --json: answers are printed as they are, and nothing else goes to stdout */
};

/* How a command is used. */
struct usage {
    const struct opt *options;
    const char *text; /* "evenstep show ID" */
    int least, most;  /* arguments; most -1: any number */
};

/* Tells of an error on stderr, with its hint; `problems` (or NULL) are lines of their own. */
void session_complain(const struct err *e, const char *problems);
/* True: ready. False: *status is the exit status of the command, and the reason has been printed
 * (help, wrong use, no connection possible). */
bool session_open(struct session *s, const struct usage *use, int argc, char **argv, int *status);
/* Prints s->err if there is one, closes, and gives the exit status: `result` where it is positive,
 * else what s->err means, STATUS_DONE without an error. */
int session_close(struct session *s, int result);

/* The i-th argument; NULL: there are fewer. */
const char *session_argument(const struct session *s, int i);
/* Refuses a word of the command line that is not UTF-8, as no name in the service is. */
int session_check_text(struct session *s, const char *word);
/* A call whose answer is for people: texts in it are safe to print (common/text/text.h). NULL:
 * s->err says why there is none. */
json_t *session_ask(struct session *s, const char *method, const char *path, const json_t *body);
/* The same without a body, and the answer (taken) is printed: as it is with --json, else by `print`
 * with texts that are safe. 0, or negative with s->err. */
int session_show(struct session *s, const char *method, const char *path,
                 void (*print)(const json_t *answer));
/* The first `most` of a list, of all its pages, each of at most `page`; `path` writes the address
 * of a page of `limit` behind the cursor (NULL: the first page). *next (or NULL): where the rest
 * begins, a cursor or null; owned by the caller. NULL: s->err says why there is none. */
typedef void page_path(const struct session *s, long limit, const char *cursor, struct buf *out);
json_t *session_pages(struct session *s, const char *list, long most, long page, page_path *path,
                      json_t **next);
#define SESSION_CSV                                                                       \
    {                                                                                     \
        "csv", NULL, OPT_FLAG, NULL, 0, 0, "prints a table of values separated by commas" \
    }
/* The table (text/csv) at this address on stdout; it excludes --json. */
int session_table(struct session *s, const char *path);
/* DELETE of `path` with each of the arguments from the second on; {KEY: [those that are gone]} is
 * printed. `none`: what is missing without any, with a hint. */
int session_delete_each(struct session *s, const char *path, const char *key, const char *none,
                        const char *hint, void (*print)(const json_t *answer));
/* Prints a document as JSON. */
void session_put(const json_t *answer);
/* Prints a document of ours (taken) in the same two ways. NULL: s->err says why there is none. */
int session_print(struct session *s, json_t *answer, void (*print)(const json_t *answer));
/* After an error: asks `path` for the documents at `list` and hints at the one whose `name` is
 * nearest to what was given. */
void session_suggest(struct session *s, const char *path, const char *list, const char *name,
                     const char *given);
/* The error for the argument `given`, which is none of the command's n actions. `can`: a clause
 * that names them, as "a token can be created, listed or revoked". */
int session_no_action(struct session *s, const char *command, const char *can, const char *given,
                      const char *const *actions, int n);

#endif
