/* Errors: see err.h. One X-macro gives code, name, HTTP status and title. */
#define ERR_DEFINES
#include "common/err.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *title;
    int status;
} codes[] = {
#define X(id, http, text) {#id, text, http},
    ERR_CODES(X)
#undef X
};

enum { CODES = sizeof codes / sizeof codes[0] };

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (e) {
        /* formatted into a copy first: the arguments may point into e->message */
        char text[sizeof e->message];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        memcpy(e->message, text, sizeof text);
        e->code = code;
        e->hint[0] = 0;
    }
    return -(int)code;
}

int err_errno(struct err *e, enum err_code code, const char *fmt, ...)
{
    int saved = errno;
    if (e) {
        char text[sizeof e->message], reason[128];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        const char *why = strerror_r(saved, reason, sizeof reason);
        snprintf(e->message, sizeof e->message, "%.*s: %s", (int)(sizeof text - 130), text, why);
        e->code = code;
        snprintf(e->hint, sizeof e->hint, "%s",
                 saved == ENOSPC || saved == EDQUOT ? "make room there: delete files or jobs" : "");
    }
    return -(int)code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    if (!e) {
        return -ERR_INTERNAL;
    }
    char text[sizeof e->message], rest[sizeof e->message];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(rest, e->message, sizeof rest);
    snprintf(e->message, sizeof e->message, "%s: %s", text, rest);
    return -(int)e->code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
    if (!e) {
        return -ERR_INTERNAL;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
    return -(int)e->code;
}

void err_clear(struct err *e)
{
    if (e) {
        e->code = ERR_NONE;
        e->message[0] = e->hint[0] = 0;
    }
}

static unsigned index_of(enum err_code code)
{
    return (unsigned)code < CODES ? (unsigned)code : ERR_INTERNAL;
}

static char names[CODES][24];

static void make_names(void)
{
    for (size_t i = 0; i < CODES; i++) {
        for (size_t j = 0; codes[i].name[j] && j < sizeof names[i] - 1; j++) {
            names[i][j] = (char)tolower((unsigned char)codes[i].name[j]);
        }
    }
}

const char *err_name(enum err_code code)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_names); /* any thread may be the first */
    return names[index_of(code)];
}

const char *err_title(enum err_code code)
{
    return codes[index_of(code)].title;
}

int err_http_status(enum err_code code)
{
    return codes[index_of(code)].status;
}

void err_bug(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
    abort();
}
