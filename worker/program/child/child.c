/* The program's process: see child.h. */
#include "worker/program/child/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

/* ---- environment ----------------------------------------------------------------------------- */

enum { VARIABLES = 512 };

struct variables {
    char *list[VARIABLES + 1]; /* NAME=VALUE; owned; ends with NULL */
    int n;
};

__attribute__((format(printf, 2, 3))) static void add(struct variables *v, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (v->n < VARIABLES && vasprintf(&text, format, args) >= 0) {
        size_t name = strcspn(text, "=") + 1;
        for (int i = 0; i < v->n; i++) {
            if (strncmp(v->list[i], text, name) == 0) { /* the later one holds */
                free(v->list[i]);
                v->list[i] = v->list[--v->n];
                break;
            }
        }
        v->list[v->n++] = text;
        v->list[v->n] = NULL;
    }
    va_end(args);
}

/* The variables that any program needs. Others are left out: the store's password is a secret, and
 * with MPI's variables a program that links MPI would join our ranks. */
static void inherit(struct variables *v)
{
    static const char *const names[] = {"PATH",
                                        "HOME",
                                        "USER",
                                        "LOGNAME",
                                        "SHELL",
                                        "LANG",
                                        "LANGUAGE",
                                        "TZ",
                                        "TMPDIR",
                                        "LD_LIBRARY_PATH",
                                        "VIRTUAL_ENV",
                                        "CONDA_PREFIX",
                                        "PYTHONHOME",
                                        "PYTHONPATH",
                                        "TERM",
                                        "SSL_CERT_FILE",
                                        "CUDA_VISIBLE_DEVICES",
                                        "CUDA_HOME",
                                        "NVIDIA_VISIBLE_DEVICES",
                                        "XDG_CACHE_HOME"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value) {
            add(v, "%s=%s", names[i], value);
        }
    }
    for (char **e = environ; *e; e++) {
        if (strncmp(*e, "LC_", 3) == 0) {
            add(v, "%s", *e);
        }
    }
}

/* Sets the number of threads to that of the node, and malloc's limits so that large blocks are
 * kept: mapping them anew in each step costs a ResNet's step 14 to 31 ms in page faults. */
static void tune(struct variables *v, int threads)
{
    static const char *const counts[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                         "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                                         "TF_NUM_INTRAOP_THREADS"};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        add(v, "%s=%d", counts[i], threads);
    }
    add(v, "TF_NUM_INTEROP_THREADS=1");
    add(v, "MALLOC_MMAP_THRESHOLD_=1073741824");
    add(v, "MALLOC_TRIM_THRESHOLD_=4294967296");
    add(v, "PYTHONUNBUFFERED=1");
    add(v, "PYTHONFAULTHANDLER=1");
}

/* Puts a folder of ours before those of a list of folders, which the job or the agent gave. */
static void lead(struct variables *v, const char *name, const char *folder)
{
    size_t n = strlen(name);
    const char *more = "";
    for (int i = 0; i < v->n; i++) {
        if (strncmp(v->list[i], name, n) == 0 && v->list[i][n] == '=') {
            more = v->list[i] + n + 1;
        }
    }
    if (folder) {
        add(v, "%s=%s%s%s", name, folder, *more ? ":" : "", more);
    }
}

/* The entry `index` of a list with commas, up to its end; NULL: the list has fewer. */
static const char *entry_of(const char *list, long index, int *length)
{
    for (; index > 0 && list; index--) {
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    *length = list ? (int)strcspn(list, ",") : 0;
    return *length > 0 ? list : NULL;
}

/* Lets the program see the GPU of its node alone, so that cuda:0 is this GPU on every node. The
 * index counts the GPUs that this process may see. On a node without a GPU nothing is set. */
static void show_gpu(struct variables *v, const char *device)
{
    const char *seen = getenv("CUDA_VISIBLE_DEVICES"), *mine = NULL;
    int length = 0;
    if (!device || strncmp(device, "cuda:", 5) != 0) {
        return;
    }
    long index = strtol(device + 5, NULL, 10);
    mine = seen ? entry_of(seen, index, &length) : NULL;
    add(v, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    if (mine) {
        add(v, "CUDA_VISIBLE_DEVICES=%.*s", length, mine);
    } else {
        add(v, "CUDA_VISIBLE_DEVICES=%ld", index);
    }
}

static void make_environment(struct variables *v, const struct child_ask *ask)
{
    const char *name;
    json_t *value;
    inherit(v);
    tune(v, ask->threads);
    show_gpu(v, ask->device);
    json_object_foreach((json_t *)ask->program->env, name, value) {
        add(v, "%s=%s", name, json_string_value(value));
    }
    lead(v, "PYTHONPATH", ask->python_path);
    lead(v, "LD_LIBRARY_PATH", ask->library_folder);
    add(v, "EVENSTEP_SOCKET=%s", ask->socket);
    add(v, "EVENSTEP_RANK=%d", ask->rank);
    add(v, "EVENSTEP_WORLD_SIZE=%d", ask->workers);
    add(v, "EVENSTEP_INCARNATION=%d", ask->incarnation);
    add(v, "EVENSTEP_JOB=%s", ask->job);
    add(v, "EVENSTEP_OUTPUT=%s", ask->output);
    if (ask->library) {
        add(v, "EVENSTEP_LIBRARY=%s", ask->library);
    }
    if (ask->data) {
        add(v, "EVENSTEP_DATA=%s", ask->data);
    }
    if (ask->peers && ask->peers->address[0]) {
        add(v, "EVENSTEP_PEERS=%s %d", ask->peers->address, ask->peers->port);
        add(v, "EVENSTEP_PEERS_KEY=%s", ask->peers->key);
    }
    if (ask->peers && ask->peers->listener >= 0) {
        add(v, "EVENSTEP_PEERS_FD=%d", ask->peers->listener);
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Command, then arguments; borrowed texts. `python` stands for python3, unless it is NULL. The
 * caller frees the list. */
static const char **make_arguments(const struct program_spec *p, const char *python)
{
    size_t n = json_array_size(p->command), m = json_array_size(p->args), i;
    const char **list = calloc(n + m + 1, sizeof(*list));
    for (i = 0; list && i < n; i++) {
        list[i] = json_string_value(json_array_get(p->command, i));
    }
    if (list && n > 0 && python && strcmp(list[0], "python3") == 0) {
        list[0] = python;
    }
    for (i = 0; list && i < m; i++) {
        list[n + i] = json_string_value(json_array_get(p->args, i));
    }
    return list;
}

/* Runs between fork and exec, so it makes only calls that are safe while other threads hold locks.
 * A successful exec closes `failed`; else errno is written to it. */
_Noreturn static void become(const char *const *argv, char *const *env, const struct child_ask *ask,
                             int output, int failed)
{
    const char *folder = ask->folder;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ask->peers && ask->peers->listener >= 0) {
        fcntl(ask->peers->listener, F_SETFD, 0);
    }
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup2(in, 0) >= 0 && dup2(output, 1) >= 0 && dup2(output, 2) >= 0 &&
        (!folder || chdir(folder) == 0)) {
        execvpe(argv[0], (char *const *)argv, env);
    }
    int why = errno;
    ssize_t wrote = write(failed, &why, sizeof(why));
    (void)wrote;
    _exit(127);
}

static int await_exec(struct child *c, int failed, const char *command, struct err *e)
{
    int why = 0;
    ssize_t got;
    do {
        got = read(failed, &why, sizeof(why));
    } while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof(why)) {
        waitpid(c->pid, &c->status, 0);
        c->reaped = true;
        errno = why;
        return err_errno(e, ERR_INVALID, "cannot start the program '%s'", command);
    }
    return 0;
}

static int spawn(struct child *c, const char *const *argv, char *const *env,
                 const struct child_ask *ask, struct err *e)
{
    int output[2], failed[2];
    if (pipe2(output, O_CLOEXEC) < 0 || pipe2(failed, O_CLOEXEC) < 0) {
        return err_errno(e, ERR_IO, "cannot start the program '%s'", argv[0]);
    }
    c->output = output[0];
    c->pid = fork();
    if (c->pid == 0) {
        become(argv, env, ask, output[1], failed[1]);
    }
    close(output[1]);
    close(failed[1]);
    int rc = c->pid < 0 ? err_errno(e, ERR_MEMORY, "cannot start the program '%s'", argv[0])
                        : await_exec(c, failed[0], argv[0], e);
    close(failed[0]);
    return rc;
}

int child_start(struct child *c, const struct child_ask *ask, struct err *e)
{
    struct variables *v = calloc(1, sizeof(*v));
    const char **argv = make_arguments(ask->program, ask->python);
    memset(c, 0, sizeof(*c));
    c->pidfd = c->output = -1;
    pthread_mutex_init(&c->lock, NULL);
    int rc = v && argv ? 0 : err_set(e, ERR_MEMORY, "cannot start the program: memory ran out");
    if (rc == 0) {
        make_environment(v, ask);
        rc = spawn(c, argv, v->list, ask, e);
    }
    if (rc == 0) {
        c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
        c->timed = clock_getcpuclockid(c->pid, &c->clock) == 0;
        c->reading = pthread_create(&c->reader, NULL, child_read_output, c) == 0;
        rc = c->pidfd < 0 || !c->reading ? err_errno(e, ERR_IO, "cannot watch the program") : 0;
    }
    for (int i = 0; v && i < v->n; i++) {
        free(v->list[i]);
    }
    free(v);
    free(argv);
    return rc;
}

/* ---- life and death -------------------------------------------------------------------------- */

bool child_ended(struct child *c)
{
    if (!c->reaped && c->pid > 0 && waitpid(c->pid, &c->status, WNOHANG) == c->pid) {
        c->reaped = true;
    }
    return c->reaped;
}

double child_cpu(const struct child *c)
{
    struct timespec t;
    if (c->reaped || !c->timed || clock_gettime(c->clock, &t) != 0) {
        return -1;
    }
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads state and process group from /proc/NAME/stat, behind the last parenthesis of the name. */
static bool works_in_group(const char *name, pid_t group)
{
    char path[64], line[600];
    int of = 0;
    snprintf(path, sizeof(path), "/proc/%.20s/stat", name);
    FILE *f = fopen(path, "re");
    const char *rest = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
    if (f) {
        fclose(f);
    }
    return rest && sscanf(rest + 3, "%*d %d", &of) == 1 && of == group &&
           (rest[2] == 'R' || rest[2] == 'D');
}

bool child_works(const struct child *c)
{
    DIR *all = opendir("/proc");
    bool works = false;
    const struct dirent *one;
    while (all && !works && (one = readdir(all))) {
        works =
            one->d_name[0] >= '1' && one->d_name[0] <= '9' && works_in_group(one->d_name, c->pid);
    }
    if (all) {
        closedir(all);
    }
    return works;
}

/* The signal that ended the process, or that a shell reports of its child; 0 or less: it exited. */
static int ended_by(const struct child *c)
{
    enum { SHELL_SIGNALS = 128 };
    return WIFEXITED(c->status) ? WEXITSTATUS(c->status) - SHELL_SIGNALS : WTERMSIG(c->status);
}

bool child_exited(struct child *c)
{
    return !child_ended(c) || ended_by(c) <= 0;
}

bool child_ended_itself(struct child *c)
{
    static const int own[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGSYS, SIGTRAP};
    bool itself = child_exited(c);
    int sig = itself ? 0 : ended_by(c);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        itself = itself || sig == own[i];
    }
    return itself;
}

static void note_end(struct child *c)
{
    bool exited = WIFEXITED(c->status);
    c->end = (struct program_end){.there = true, .exit_code = exited ? WEXITSTATUS(c->status) : -1};
    if (exited || c->exception.fatal) {
        exception_note(&c->exception, &c->end);
    }
    if (!exited) {
        const char *name = sigabbrev_np(WTERMSIG(c->status));
        snprintf(c->end.signal, sizeof(c->end.signal), "SIG%s", name ? name : "RT");
    }
    pthread_mutex_lock(&c->lock);
    if (c->n_lines > 0) {
        snprintf(c->end.last_line, sizeof(c->end.last_line), "%s",
                 c->lines[(c->n_lines - 1) % CHILD_LINES]);
    }
    pthread_mutex_unlock(&c->lock);
}

void child_gave_up(struct child *c, const char *reason)
{
    c->end = (struct program_end){.there = true, .exit_code = -1};
    snprintf(c->end.reason, sizeof(c->end.reason), "%s", reason);
}

/* A program in Python leaves the run as its interpreter ends; os._exit() skips that. */
#define NOT_LEFT ", and had not left the run (C calls es_leave; Python's os._exit() leaves none)"

const char *child_epitaph(struct child *c, char *out, size_t bytes)
{
    char lines[300], exception[sizeof(c->exception.said) + sizeof(c->exception.file) + 20];
    child_last_lines(c, lines, sizeof(lines)); /* waits until all is read */
    note_end(c);
    bool told = c->end.exception[0] != '\0';
    const char *sep = told       ? ": "
                      : lines[0] ? "; "
                                 : "",
               *said = told ? program_end_said(&c->end, exception, sizeof(exception)) : lines;
    if (WIFSIGNALED(c->status)) {
        int sig = WTERMSIG(c->status);
        snprintf(out, bytes, "was ended by signal %d (%s)%s%s%s", sig, strsignal(sig),
                 sig == SIGKILL ? ", as the kernel does where memory runs out" : "", sep, said);
    } else {
        int code = WEXITSTATUS(c->status);
        snprintf(out, bytes, "ended with exit code %d%s%s%s", code, code ? "" : NOT_LEFT, sep,
                 said);
    }
    return out;
}

void child_stop(struct child *c, double grace)
{
    if (c->pid > 0 && !child_ended(c)) {
        kill(-c->pid, SIGTERM);
        for (double until = clock_now() + grace; !child_ended(c) && clock_now() < until;) {
            clock_sleep(0.01);
        }
        if (!child_ended(c)) {
            kill(-c->pid, SIGKILL);
            waitpid(c->pid, &c->status, 0);
            c->reaped = true;
        }
    }
    if (c->pid > 0) {
        kill(-c->pid, SIGKILL); /* what it left behind in its group */
    }
    atomic_store(&c->stop, true);
    if (c->reading) {
        pthread_join(c->reader, NULL);
    }
    if (c->pidfd >= 0) {
        close(c->pidfd);
    }
    if (c->output >= 0) {
        close(c->output);
    }
    pthread_mutex_destroy(&c->lock);
    c->pid = 0;
    c->pidfd = c->output = -1;
    c->reading = false;
}
