/* Errors: one code, one complete sentence, and what the user can do about it.
 *
 * Fallible functions take a `struct err *` last and return 0 or more for success and a negative
 * code for failure. The message is a sentence without capital or full stop that says what failed
 * first, quotes the subject, then the cause: cannot read dataset 'train-images': file ends at byte
 * 812 of 1024. Return an error or log it, never both. The struct is the caller's and holds no
 * resource.
 */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#include <stddef.h>

/* code, HTTP status, title. The negative of the enumerator is what functions return. */
#define ERR_CODES(X)                                      \
    X(NONE, 200, "no error")                              \
    X(INVALID, 422, "the request is not valid")           \
    X(SYNTAX, 400, "the document is malformed")           \
    X(UNAUTHORIZED, 401, "a token is needed")             \
    X(FORBIDDEN, 403, "this is not allowed")              \
    X(NOT_FOUND, 404, "not found")                        \
    X(CONFLICT, 409, "the state does not allow that")     \
    X(TOO_LARGE, 413, "the request is too large")         \
    X(UNAVAILABLE, 503, "a part of the service is away")  \
    X(IO, 500, "reading or writing failed")               \
    X(DATA, 422, "the data are not as expected")          \
    X(NOT_FINITE, 422, "the loss became NaN or infinite") \
    X(DEVICE, 500, "a device failed")                     \
    X(PEER, 500, "another rank failed or is lost")        \
    X(TIMEOUT, 504, "it took too long")                   \
    X(MEMORY, 500, "memory ran out")                      \
    X(UNSUPPORTED, 422, "this is not offered here")       \
    X(CANCELLED, 409, "it was cancelled")                 \
    X(QUOTA, 429, "a quota is used up")                   \
    X(PROGRAM, 500, "the user's program failed")          \
    X(INTERNAL, 500, "an internal error")

enum err_code {
#define X(name, status, title) ERR_##name,
    ERR_CODES(X)
#undef X
};

struct err {
    enum err_code code;
    char message[480];
    char hint[256]; /* what the user can do, or empty */
};

/* Sets code and message (truncated to fit) and empties the hint; returns -code. `e` may be NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* As err_set, with ": " and the text of errno appended. If the disk is full, the hint asks the user
 * to make room. */
int err_errno(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "TEXT: " before the existing message; returns -code. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_clear(struct err *e);
const char *err_name(enum err_code code);  /* "not_found"; static */
const char *err_title(enum err_code code); /* static */
int err_http_status(enum err_code code);

#if defined(__clang_analyzer__) && \
    !defined(ERR_DEFINES) /* the analyzer sees one file at a time, and must be told that these
                             return a negative number */
#define err_set(...) (err_set(__VA_ARGS__), -1)
#define err_errno(...) (err_errno(__VA_ARGS__), -1)
#define err_prefix(...) (err_prefix(__VA_ARGS__), -1)
#endif

/* A broken invariant: prints the place and aborts. Never for input, network, files or devices. */
#define BUG_ON(cond)                            \
    do {                                        \
        if (cond) {                             \
            err_bug(__FILE__, __LINE__, #cond); \
        }                                       \
    } while (0)
_Noreturn void err_bug(const char *file, int line, const char *what);

#endif
