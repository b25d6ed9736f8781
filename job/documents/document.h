/* What all documents between processes have in common. Coordinator, ranks and simulator speak to
 * each other in JSON; each document has a file pair of its own in this folder: a struct, X_json()
 * that writes it, X_read() that reads it, X_release() where it owns memory, and its format number.
 * No other file knows a key of it.
 *
 *   {"format": 1, "job": "7f3a…", "attempt": 2, "rank": 3, …}     who says it, of which attempt
 *
 * A document of another attempt is as old as that attempt. Every reader calls sender_is() first,
 * and drops, counts and logs a document of another attempt.
 *
 * X_read() fills its struct whatever it finds, so that X_release() is always safe, and returns a
 * negative code with ERR_DATA and one sentence for each thing that is wrong:
 *
 *   the plan is not valid: /workers/0/node: is missing; /servers: must be a whole number, 0 to 1024
 *
 * An optional key that is missing has a default, which the struct's comment names. Readers ignore
 * unknown keys, so that a newer writer may add some.
 */
#ifndef JOB_DOCUMENTS_DOCUMENT_H
#define JOB_DOCUMENTS_DOCUMENT_H

#include "common/json/jsonx.h"

enum {
    DOCUMENT_JOB = 17,      /* bytes of a job's id */
    DOCUMENT_NODE = 64,     /* of a node's name, or of a device's */
    DOCUMENT_MESSAGE = 480, /* of a sentence */
    DOCUMENT_DOOR = 64,     /* of an address with its port */
    COORDINATOR = -1        /* the coordinator, in place of a rank */
};

/* Who wrote a document. */
struct sender {
    char job[DOCUMENT_JOB];
    int attempt;
    int rank; /* COORDINATOR: no rank */
};
/* Do both belong to the same attempt of the same job? */
bool sender_is(const struct sender *from, const struct sender *ours);

/* ---- writing --------------------------------------------------------------------------------- */

/* {"format", "job", "attempt", "rank"}, to which a writer adds its own keys. New reference. */
json_t *document_new(int format, const struct sender *from);
/* A number, or null for NaN and infinity, which JSON does not have. New reference. */
json_t *document_real(double x);

/* ---- reading: for X_read() alone ------------------------------------------------------------- */

/* An object that is being read. Every call below reports what is wrong into `problems`, and returns
 * a harmless value then. */
struct document {
    const json_t *j;  /* borrowed; NULL: it was no object, and nothing more is reported */
    char pointer[96]; /* of this object: "" or "/workers/3" */
    struct jsonx_problems *problems; /* borrowed */
};

/* Begins: checks that it is an object of this format, and reads who wrote it. `from` NULL: a
 * document that no attempt writes. `problems` is empty, and released by document_close(). */
struct document document_open(const json_t *j, int format, struct sender *from,
                              struct jsonx_problems *problems);
/* As document_open(), for an object without a format of its own. */
struct document document_plain(const json_t *j, struct jsonx_problems *problems);
/* Ends: 0, or -ERR_DATA with "NAME is not valid: …". Releases the problems. */
int document_close(struct document *d, const char *name, struct err *e);
/* The object at `key`; an element of an array that document_list() gave. */
struct document document_within(const struct document *d, const char *key);
struct document document_element(const struct document *d, const char *key, size_t index);

void document_problem(const struct document *d, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool document_has(const struct document *d, const char *key); /* is the key there, and not null? */
/* Text of 1 to bytes-1 bytes. */
void document_text(const struct document *d, const char *key, char *out, size_t bytes);
/* Text that may be empty. It is cut if it is too long. */
void document_sentence(const struct document *d, const char *key, char *out, size_t bytes);
int64_t document_integer(const struct document *d, const char *key, int64_t least, int64_t most);
double document_number(const struct document *d, const char *key, double least, double most);
/* As document_number(), without bounds; null is NaN. */
double document_maybe(const struct document *d, const char *key);
bool document_flag(const struct document *d, const char *key);
/* The array at `key` of `least` to `most` elements, or NULL. Borrowed. */
const json_t *document_list(const struct document *d, const char *key, size_t least, size_t most);
/* Whole numbers of an array into out[most]; returns how many. */
int document_integers(const struct document *d, const char *key, int *out, int least, int most);
/* The index of the text at `key` among the n `names`; -1: it is none of them, which is reported. */
int document_choice(const struct document *d, const char *key, const char *const *names, int n);
/* The object at `key`: a new reference, or NULL where there is none. */
json_t *document_object(const struct document *d, const char *key, bool needed);

#endif
