/* Child processes and the files a daemon lives with: see proc.h. */
#include "common/process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
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

/* The signal of a parent's death is forgotten where the user changes. */
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

/* In the child: never returns. Reports errno through the pipe when exec fails. */
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
    int code = -1; /* not our child: nobody can tell its code */
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

/* State letter and start time of /proc/PID/stat; the name may hold anything, so the fields are
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

void proc_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static void sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder ? 1 : 0] = 0;
    } else {
        memcpy(folder, ".", 2);
    }
    proc_sync_folder(folder);
}

int proc_mkdirs(const char *path, mode_t mode, struct err *e)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) {
        return err_set(e, ERR_IO, "cannot make folder '%s': its name is too long", path);
    }
    for (char *p = part + 1;; p++) {
        if (*p == '/' || *p == 0) {
            char end = *p;
            *p = 0;
            if (mkdir(part, mode) == 0) {
                sync_folder_of(part); /* what is written into it is there after a power cut, too */
            } else if (errno != EEXIST) {
                return err_errno(e, ERR_IO, "cannot make folder '%s'", part);
            }
            *p = end;
            if (!end) {
                return 0;
            }
        }
    }
}

static int write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, bytes, n);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            return -1;
        }
        bytes += w;
        n -= (size_t)w;
    }
    return 0;
}

int proc_write_file(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e)
{
    char temporary[PATH_MAX];
    snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) {
        return err_errno(e, ERR_IO, "cannot write '%s'", path);
    }
    int saved = 0;
    if (write_all(fd, bytes, n) != 0 || fsync(fd) != 0) {
        saved = errno;
    }
    if (close(fd) != 0 && !saved) {
        saved = errno;
    }
    if (!saved && rename(temporary, path) != 0) {
        saved = errno;
    }
    if (saved) {
        unlink(temporary);
        errno = saved;
        return err_errno(e, ERR_IO, "cannot write '%s'", path);
    }
    sync_folder_of(path);
    return 0;
}

char *proc_read_file(const char *path, size_t max, size_t *n, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "cannot read '%s'", path);
        return NULL;
    }
    struct stat st;
    char *data = NULL;
    size_t size = 4096, len = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && /* 0: as in /proc */
        (size_t)st.st_size < max) {
        size = (size_t)st.st_size + 1;
    }
    for (;;) {
        char *grown = realloc(data, size + 1);
        if (!grown) {
            err_set(e, ERR_MEMORY, "cannot read '%s': memory ran out", path);
            goto fail;
        }
        data = grown;
        ssize_t r = read(fd, data + len, size - len);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            err_errno(e, ERR_IO, "cannot read '%s'", path);
            goto fail;
        }
        if (r == 0) {
            break;
        }
        len += (size_t)r;
        if (len > max) {
            err_set(e, ERR_TOO_LARGE, "cannot read '%s': it has more than %zu bytes", path, max);
            goto fail;
        }
        if (len == size) {
            size *= 2;
        }
    }
    close(fd);
    data[len] = 0;
    if (n) {
        *n = len;
    }
    return data;
fail:
    free(data);
    close(fd);
    return NULL;
}

static double number_in(const char *text, const char *word)
{
    size_t n = strlen(word);
    double v = NAN;
    for (const char *at = text; at && isnan(v);) {
        if (strncmp(at, word, n) == 0) {
            char *end;
            double found = strtod(at + n, &end);
            v = end > at + n ? found : NAN;
        }
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return v;
}

void proc_numbers(const char *path, const char *const *words, int n, double *out)
{
    char *text = proc_read_file(path, 1 << 16, NULL, NULL);
    for (int i = 0; i < n; i++) {
        out[i] = number_in(text, words[i]);
    }
    free(text);
}

double proc_number(const char *path, const char *word)
{
    double v;
    proc_numbers(path, &word, 1, &v);
    return v;
}

static int remove_at(int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if ((errno != EISDIR && errno != EPERM) || depth > 64) {
        return -1;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    int rc = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc |= remove_at(dirfd(d), entry->d_name, depth + 1);
        }
    }
    closedir(d);
    return rc ? rc : unlinkat(parent, name, AT_REMOVEDIR);
}

int proc_remove_tree(const char *path, struct err *e)
{
    return remove_at(AT_FDCWD, path, 0) == 0 ? 0 : err_errno(e, ERR_IO, "cannot remove '%s'", path);
}

static int64_t bytes_at(int parent, const char *name, int depth)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0;
    }
    int64_t bytes = (int64_t)st.st_blocks * 512;
    int fd = S_ISDIR(st.st_mode) && depth <= 64
                 ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) {
            close(fd);
        }
        return bytes;
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            bytes += bytes_at(dirfd(d), entry->d_name, depth + 1);
        }
    }
    closedir(d);
    return bytes;
}

int64_t proc_tree_bytes(const char *path)
{
    return bytes_at(AT_FDCWD, path, 0);
}
