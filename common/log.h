/* One line per event on stderr, logfmt, UTC with milliseconds:
 *   ts=2026-01-02T03:04:05.678Z level=info mod=sched job=7f3a msg="launched"
 * Any thread may log; a line is one write(2). Repeats of one call site within a second beyond 20
 * are counted and reported once (suppressed=N). Data is not logs: rows go to the store.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level level);
/* The level of this name, as --log-level gives it. */
int log_level_of(const char *name, enum log_level *out, struct err *e);
/* Appended to every line of this process, for example "job=7f3a rank=2". Copied. */
void log_set_context(const char *pairs);
/* The same for lines of the calling thread; "" removes it. */
void log_set_thread_context(const char *pairs);
/* `pairs` is a printf format of logfmt pairs or "": log_info("sched", "launched", "job=%s", id). */
void log_write(enum log_level level, const char *module, const char *msg, const char *pairs, ...)
    __attribute__((format(printf, 4, 5)));
/* As log_write, but without a limit on repeats: the caller limits them. */
void log_each(enum log_level level, const char *module, const char *msg, const char *pairs, ...)
    __attribute__((format(printf, 4, 5)));

#define log_debug(module, msg, ...) log_write(LOG_DEBUG, module, msg, __VA_ARGS__)
#define log_info(module, msg, ...) log_write(LOG_INFO, module, msg, __VA_ARGS__)
#define log_warn(module, msg, ...) log_write(LOG_WARN, module, msg, __VA_ARGS__)
#define log_error(module, msg, ...) log_write(LOG_ERROR, module, msg, __VA_ARGS__)

/* Quotes a value for logfmt into `out` (always terminated) and returns `out`. Writes ? for bytes
 * that are not UTF-8 and for characters that control a terminal (common/text/text.h). */
const char *log_quote(char *out, unsigned long out_bytes, const char *value);

#endif
