/* Child processes: see proc.h. */
#include "common/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/process/run_as.h"

/* Sets the signal for a parent's death after the user, because changing the user clears it. */
static int become(const struct proc_spec *spec)
{
    const struct rlimit memory = {(rlim_t)spec->memory_bytes, (rlim_t)spec->memory_bytes};
    if (spec->memory_bytes > 0 && setrlimit(RLIMIT_DATA, &memory) != 0) {
        return -1;
    }
    if (run_as_given(spec->as) && run_as_become(spec->as) != 0) {
        return -1;
    }
    if (spec->die_with_parent || spec->end_with_parent) {
        prctl(PR_SET_PDEATHSIG, spec->die_with_parent ? SIGKILL : SIGTERM);
    }
    return 0;
}

/* Runs in the child and never returns. Reports errno through the pipe if exec fails. */
_Noreturn static void run_child(const struct proc_spec *spec, int report)
{
    if (spec->new_session) {
        setsid();
    } else {
        setpgid(0, 0);
    }
    int in = open("/dev/null", O_RDONLY);
    const char *out_path = spec->stdout_path ? spec->stdout_path : "/dev/null";
    const char *err_path = spec->stderr_path ? spec->stderr_path : "/dev/null";
    int out = open(out_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int err = open(err_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    int code = 0;
    if (in < 0 || out < 0 || err < 0 || (spec->cwd && chdir(spec->cwd) != 0)) {
        code = errno;
    } else {
        dup2(in, 0);
        dup2(out, 1);
        dup2(err, 2);
        if (spec->only_env) {
            clearenv();
        }
        for (int i = 0; spec->env && spec->env[i]; i++) {
            putenv((char *)spec->env[i]);
        }
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        for (int fd = 3; fd < 1024; fd++) {
            if (fd != report) {
                close(fd);
            }
        }
        if (become(spec) == 0) {
            execvp(spec->argv[0], (char *const *)spec->argv);
        }
        code = errno;
    }
    ssize_t ignored = write(report, &code, sizeof code);
    (void)ignored;
    _exit(127);
}

pid_t proc_start(const struct proc_spec *spec, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_errno(e, ERR_IO, "cannot start '%s'", spec->argv[0]);
    }
    pid_t pid = fork();
    if (pid == 0) {
        run_child(spec, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return err_errno(e, ERR_IO, "cannot start '%s'", spec->argv[0]);
    }
    int code = 0;
    ssize_t n;
    do {
        n = read(ends[0], &code, sizeof code);
    } while (n < 0 && errno == EINTR);
    close(ends[0]);
    if (n == (ssize_t)sizeof code) {
        waitpid(pid, NULL, 0);
        errno = code;
        return err_errno(e, ERR_IO, "cannot start '%s'", spec->argv[0]);
    }
    return pid;
}

bool proc_poll(pid_t pid, int *exit_code)
{
    int status;
    pid_t r = waitpid(pid, &status, WNOHANG);
    if (r == 0) {
        return false;
    }
    int code = -1; /* not our child: its code is unknown */
    if (r == pid) {
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (kill(pid, 0) == 0 || errno == EPERM) {
        return false;
    }
    if (exit_code) {
        *exit_code = code;
    }
    return true;
}

int proc_await(pid_t pid, double seconds)
{
    double until = clock_now() + seconds, nap = 0.002;
    int code = 0;
    while (!proc_poll(pid, &code)) {
        if (clock_now() > until) {
            proc_stop(pid, 0);
            return -1;
        }
        clock_sleep(nap);
        nap = nap < 0.02 ? nap * 1.5 : nap;
    }
    return code;
}

/* State letter and start time from /proc/PID/stat. The name may contain anything, so fields are
 * counted from its last ')'. */
static int read_stat(pid_t pid, char *state, unsigned long long *start)
{
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) {
        return -1;
    }
    text[n] = 0;
    char *p = strrchr(text, ')');
    if (!p || p[1] != ' ') {
        return -1;
    }
    p += 2;
    *state = *p;
    for (int field = 3; field < 22; field++) {
        p = strchr(p, ' ');
        if (!p) {
            return -1;
        }
        p++;
    }
    *start = strtoull(p, NULL, 10);
    return 0;
}

bool proc_alive(pid_t pid, uint64_t start_ticks)
{
    char state;
    unsigned long long start;
    return pid > 0 && read_stat(pid, &state, &start) == 0 && state != 'Z' && state != 'X' &&
           start == start_ticks;
}

uint64_t proc_start_ticks(pid_t pid)
{
    char state;
    unsigned long long start;
    return read_stat(pid, &state, &start) == 0 ? start : 0;
}

void proc_stop(pid_t pid, double grace)
{
    uint64_t ticks = proc_start_ticks(pid);
    if (!ticks) {
        return;
    }
    if (kill(-pid, SIGTERM) != 0) {
        kill(pid, SIGTERM);
    }
    double deadline = clock_now() + grace;
    while (clock_now() < deadline) {
        if (waitpid(pid, NULL, WNOHANG) == pid || !proc_alive(pid, ticks)) {
            return;
        }
        clock_sleep(0.02);
    }
    if (kill(-pid, SIGKILL) != 0) {
        kill(pid, SIGKILL);
    }
    deadline = clock_now() + 5;
    while (clock_now() < deadline && waitpid(pid, NULL, WNOHANG) != pid && proc_alive(pid, ticks)) {
        clock_sleep(0.01);
    }
}

int proc_output(const char *const *argv, double seconds, char *out, size_t bytes, struct err *e)
{
    static const atomic_bool never;
    return proc_output_until(argv, seconds, &never, out, bytes, e);
}

int proc_output_until(const char *const *argv, double seconds, const atomic_bool *stop, char *out,
                      size_t bytes, struct err *e)
{
    char path[] = "/tmp/evenstep-output-XXXXXX";
    int fd = mkstemp(path), code = -1;
    out[0] = 0;
    if (fd < 0) {
        return err_errno(e, ERR_IO, "cannot keep the output of '%s'", argv[0]);
    }
    close(fd);
    struct proc_spec spec = {.argv = argv, .stdout_path = path, .stderr_path = path};
    pid_t pid = proc_start(&spec, e);
    double until = clock_now() + seconds;
    bool ended = false;
    while (pid > 0 && !(ended = proc_poll(pid, &code)) && clock_now() < until &&
           !atomic_load(stop)) {
        clock_sleep(0.01);
    }
    if (pid > 0 && !ended) {
        proc_stop(pid, 0);
        code = atomic_load(stop)
                   ? err_set(e, ERR_CANCELLED, "'%s' was ended", argv[0])
                   : err_set(e, ERR_TIMEOUT, "'%s' did not end within %g s", argv[0], seconds);
    }
    size_t n = 0;
    char *text = pid > 0 ? proc_read_file(path, 1 << 20, &n, NULL) : NULL;
    snprintf(out, bytes, "%s", text ? text : "");
    free(text);
    unlink(path);
    return pid < 0 ? pid : code;
}
