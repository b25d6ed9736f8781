/* A thread reads what the program prints, so that the program never waits for its log. It writes
 * each line to the log, and keeps the last ones for the message that says how the program ended. A
 * program that prints without end would fill the disk. So only the first lines of each span of time
 * are logged, and then how many were left out.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/program/child/child.h"

static const double span_seconds = 10;

static void keep_line(struct child *c, const char *line)
{
    pthread_mutex_lock(&c->lock);
    snprintf(c->lines[c->n_lines++ % CHILD_LINES], CHILD_LINE, "%s", line);
    exception_read(&c->exception, line);
    pthread_mutex_unlock(&c->lock);
}

/* Logs how many lines were left out since it was called last. */
static void tell_left_out(struct child *c)
{
    if (c->left_out > 0) {
        log_each(LOG_INFO, "program", "tells",
                 "line=\"evenstep: %lld lines are left out here, since the "
                 "program printed more than %d within %g s\"",
                 (long long)c->left_out, (int)CHILD_LINES_MOST, span_seconds);
        c->left_out = 0;
    }
}

/* Does the log have room for one more line in this span of time? */
static bool has_room(struct child *c)
{
    double now = clock_now();
    if (now >= c->span_end) {
        tell_left_out(c);
        c->span_end = now + span_seconds;
        c->told = 0;
    }
    return c->told < CHILD_LINES_MOST;
}

static void tell_line(struct child *c, const char *line)
{
    char quoted[2 * CHILD_LINE];
    if (!*line) {
        return;
    }
    if (strncmp(line, "Extension modules:", 18) != 0) { /* ends each dump of faulthandler */
        keep_line(c, line);
    }
    if (!has_room(c)) {
        c->left_out++;
        return;
    }
    c->told++;
    log_each(LOG_INFO, "program", "says", "line=%s", log_quote(quoted, sizeof(quoted), line));
}

/* Waits for output. False: none will come. Every process that had the other end has closed it, or
 * child_stop does not wait for a process that outlives the program. */
static bool await_output(struct child *c)
{
    struct pollfd more = {.fd = c->output, .events = POLLIN};
    while (poll(&more, 1, 200) == 0) {
        if (atomic_load(&c->stop)) {
            return false;
        }
    }
    return true;
}

void *child_read_output(void *arg)
{
    struct child *c = arg;
    char line[CHILD_LINE], bytes[4096];
    size_t n = 0;
    ssize_t got = 0;
    while (await_output(c) && (got = read(c->output, bytes, sizeof(bytes))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            bool end = bytes[i] == '\n' || bytes[i] == '\r';
            if (!end) {
                line[n++] = bytes[i];
            }
            if (end || n == sizeof(line) - 1) {
                line[n] = '\0';
                tell_line(c, line);
                n = 0;
            }
        }
    }
    line[n] = '\0';
    tell_line(c, line);
    tell_left_out(c);
    atomic_store(&c->read_all, true);
    return NULL;
}

/* ---- the last lines -------------------------------------------------------------------------- */

/* When the process has ended its last words are in the pipe, and the reader takes them. Where a
 * process that it has started holds the pipe open the wait is short. */
static void await_last_words(struct child *c)
{
    struct pollfd more = {.fd = c->output, .events = POLLIN};
    double begin = clock_now();
    while (c->reading && !atomic_load(&c->read_all)) {
        bool closed = poll(&more, 1, 0) == 1 && (more.revents & POLLHUP);
        if (clock_now() > begin + (closed ? 5 : 0.2)) {
            return;
        }
        clock_sleep(0.002);
    }
}

const char *child_last_lines(struct child *c, char *out, size_t bytes)
{
    size_t room = bytes > 40 ? bytes - 40 : 0, used = 0;
    int from;
    await_last_words(c);
    pthread_mutex_lock(&c->lock);
    int oldest = c->n_lines > CHILD_LINES ? c->n_lines - CHILD_LINES : 0;
    for (from = c->n_lines; from > oldest; from--) { /* as many of the last as there is room for */
        size_t more = strlen(c->lines[(from - 1) % CHILD_LINES]) + 3;
        if (used + more > room && from < c->n_lines) {
            break;
        }
        used += more;
    }
    size_t n = from < c->n_lines ? (size_t)snprintf(out, bytes, "its last lines: ") : 0;
    for (int i = from; i < c->n_lines && n + 1 < bytes; i++) {
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", i > from ? " | " : "",
                              c->lines[i % CHILD_LINES]);
    }
    pthread_mutex_unlock(&c->lock);
    if (n == 0) {
        out[0] = '\0';
    }
    return out;
}
