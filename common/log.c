/* Log lines: see log.h. A line is built in a local buffer and written with one call, so lines of
 * threads and of processes that share a file never mix. */
#include "common/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text/text.h"

enum { REPEATS = 20, SITES = 64 };

static const char *const levels[] = {"debug", "info", "warn", "error"};
static enum log_level least = LOG_INFO;
static char context[200];
static _Thread_local char thread_context[120];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards sites */
static struct {
    char what[96]; /* module and message */
    double since;
    int count;
} sites[SITES];

void log_set_level(enum log_level level)
{
    least = level;
}

int log_level_of(const char *name, enum log_level *out, struct err *e)
{
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
        if (strcmp(name, levels[i]) == 0) {
            *out = (enum log_level)i;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "--log-level '%s': expected debug, info, warn or error", name);
}

void log_set_context(const char *pairs)
{
    snprintf(context, sizeof context, "%s", pairs);
}

void log_set_thread_context(const char *pairs)
{
    snprintf(thread_context, sizeof thread_context, "%s", pairs);
}

const char *log_quote(char *out, unsigned long out_bytes, const char *value)
{
    size_t n = 0;
    if (out_bytes < 4) {
        if (out_bytes) {
            out[0] = 0;
        }
        return out;
    }
    out[n++] = '"';
    const char *p = value ? value : "", *end = p + strlen(p);
    const char *unsafe = p + text_unsafe(p, strlen(p));
    for (; *p && n + 4 < out_bytes; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else if (c == '\n' || c == '\t') {
            out[n++] = '\\';
            out[n++] = c == '\n' ? 'n' : 't';
        } else {
            out[n++] = p == unsafe ? '?' : (char)c;
        }
        if (p == unsafe) {
            unsafe = p + 1 + text_unsafe(p + 1, (size_t)(end - p - 1));
        }
    }
    out[n++] = '"';
    out[n] = 0;
    return out;
}

/* The number of repeats of this event that were left out before; -1: leave out this one too. */
static int admit(const char *module, const char *msg)
{
    char what[sizeof sites[0].what];
    snprintf(what, sizeof what, "%s %s", module, msg);
    unsigned h = 5381;
    for (const char *p = what; *p; p++) {
        h = h * 33 + (unsigned char)*p;
    }
    int swallowed = 0;
    double now = clock_now();
    pthread_mutex_lock(&lock);
    unsigned i = h % SITES;
    if (strcmp(sites[i].what, what) != 0 || now - sites[i].since > 1) {
        swallowed = strcmp(sites[i].what, what) == 0 && sites[i].count > REPEATS
                        ? sites[i].count - REPEATS
                        : 0;
        memcpy(sites[i].what, what, sizeof what);
        sites[i].since = now;
        sites[i].count = 1;
    } else if (++sites[i].count > REPEATS) {
        swallowed = -1;
    }
    pthread_mutex_unlock(&lock);
    return swallowed;
}

static void put(enum log_level level, const char *module, const char *msg, int swallowed,
                const char *pairs, va_list ap)
{
    char when[32], quoted[512], line[2048];
    int n = snprintf(line, sizeof line, "ts=%s level=%s mod=%s msg=%s",
                     clock_format(when, clock_wall_ms()), levels[level], module,
                     log_quote(quoted, sizeof quoted, msg));
    if (context[0]) {
        n += snprintf(line + n, sizeof line - (size_t)n, " %s", context);
    }
    if (thread_context[0]) {
        n += snprintf(line + n, sizeof line - (size_t)n, " %s", thread_context);
    }
    if (swallowed > 0) {
        n += snprintf(line + n, sizeof line - (size_t)n, " suppressed=%d", swallowed);
    }
    if (pairs && pairs[0]) {
        line[n++] = ' ';
        int more = vsnprintf(line + n, sizeof line - 1 - (size_t)n, pairs, ap);
        n += more > 0 ? more : 0;
        n = n > (int)sizeof line - 2 ? (int)sizeof line - 2 : n;
    }
    line[n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
    (void)ignored;
}

void log_write(enum log_level level, const char *module, const char *msg, const char *pairs, ...)
{
    int swallowed = level < least ? -1 : admit(module, msg);
    if (swallowed >= 0) {
        va_list ap;
        va_start(ap, pairs);
        put(level, module, msg, swallowed, pairs, ap);
        va_end(ap);
    }
}

void log_each(enum log_level level, const char *module, const char *msg, const char *pairs, ...)
{
    if (level >= least) {
        va_list ap;
        va_start(ap, pairs);
        put(level, module, msg, 0, pairs, ap);
        va_end(ap);
    }
}
