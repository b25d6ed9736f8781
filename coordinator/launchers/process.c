/* What launchers share. An attempt is a process in a session of its own, and its output goes to a
 * file. So it outlives the coordinator, and is found again by pid and start time.
 *
 * Ranks sometimes survive a killed mpirun. Most end by PR_SET_PDEATHSIG. The others are found by
 * their environment, EVENSTEP_JOB and EVENSTEP_ATTEMPT, which no other process has; never by name
 * alone.
 */
#include "coordinator/launchers/launcher.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/process/proc.h"

char *attempt_output(char *path, const char *data_dir, const char *job, int number)
{
    snprintf(path, PATH_MAX, "%s/jobs/%s/logs/attempt-%d.out", data_dir, job, number);
    return path;
}

int attempt_start(const char *data_dir, struct attempt *a, const char *const *argv,
                  const char *const *env, struct err *e)
{
    char dir[PATH_MAX], output[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/jobs/%s/logs", data_dir, a->job);
    int rc = proc_mkdirs(dir, 0755, e);
    if (rc < 0) {
        return rc;
    }
    attempt_output(output, data_dir, a->job, a->number);
    struct proc_spec spec = {.argv = argv,
                             .env = env,
                             .stdout_path = output,
                             .stderr_path = output,
                             .new_session = true};
    pid_t pid = proc_start(&spec, e);
    if (pid < 0) {
        return pid;
    }
    a->pid = pid;
    a->start_ticks = proc_start_ticks(pid);
    return 0;
}

/* ---- what it says at the end ----------------------------------------------------------------- */

/* The index of the first word in the list that the line contains, or the list's length. */
static int place_of(const char *const *telling, const char *line)
{
    int i = 0;
    while (telling[i] && !strstr(line, telling[i])) {
        i++;
    }
    return i;
}

/* The line with the best telling word, or the last line that is not empty. Lines of ranks begin
 * with "[1,". */
static void last_words(const char *output, const char *const *telling, char *why, size_t bytes)
{
    size_t n = 0;
    why[0] = 0;
    char *text = proc_read_file(output, 64 << 20, &n, NULL), *rest = NULL;
    int best = INT_MAX;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        bool rule = line[strspn(line, "-= ")] == 0;
        if (rule || strncmp(line, "[1,", 3) == 0) {
            continue;
        }
        int place = place_of(telling, line);
        if (place <= best) {
            best = place;
            snprintf(why, bytes, "%s", line + strspn(line, " "));
        }
    }
    free(text);
}

bool attempt_poll(const char *data_dir, const struct attempt *a, const char *const *telling,
                  struct attempt_end *end)
{
    char output[PATH_MAX];
    if (a->pid > 0 && proc_alive(a->pid, a->start_ticks)) {
        return false;
    }
    /* the exit code of another process's child is unknown */
    *end = (struct attempt_end){.exit_code = -1};
    if (a->pid > 0) {
        proc_poll(a->pid, &end->exit_code);
    }
    attempt_output(output, data_dir, a->job, a->number);
    last_words(output, telling, end->why, sizeof end->why);
    return true;
}

/* ---- found by what they carry ---------------------------------------------------------------- */

struct marks {
    char job[64], number[64];
    const char *pairs[3];
};

static void marks_of(struct marks *m, const struct attempt *a)
{
    snprintf(m->job, sizeof m->job, "EVENSTEP_JOB=%s", a->job);
    snprintf(m->number, sizeof m->number, "EVENSTEP_ATTEMPT=%d", a->number);
    m->pairs[0] = m->job;
    m->pairs[1] = m->number;
    m->pairs[2] = NULL;
}

/* The oldest process of an attempt is the ancestor of all others. */
bool attempt_find(void *ctx, struct attempt *a)
{
    struct marks m;
    (void)ctx;
    marks_of(&m, a);
    a->pid = proc_find_marked(m.pairs, &a->start_ticks);
    return a->pid > 0;
}

/* Sends a signal to all processes of the attempt; returns how many there are. */
static int signal_stragglers(const struct attempt *a, int sig)
{
    struct marks m;
    marks_of(&m, a);
    return proc_signal_marked(m.pairs, sig);
}

void attempt_stop(const struct attempt *a, double grace)
{
    if (a->pid > 0 && proc_alive(a->pid, a->start_ticks)) {
        log_info("launcher", "stops an attempt that runs", "job=%s attempt=%d pid=%d", a->job,
                 a->number, (int)a->pid);
        proc_stop(a->pid, grace);
    }
    double until = clock_now() + 5;
    while (signal_stragglers(a, SIGKILL) > 0 && clock_now() < until) {
        clock_sleep(0.02);
    }
}
