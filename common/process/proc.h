/* Child processes, and the files of a daemon. */
#ifndef COMMON_PROCESS_PROC_H
#define COMMON_PROCESS_PROC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct run_as;

struct proc_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
    const char *const *env;  /* NULL-terminated NAME=VALUE, added to ours; or NULL */
    bool only_env; /* `env` is the whole environment, nothing of ours; argv[0] is looked up in its
                      PATH */
    const char *stdout_path; /* appended to; NULL: /dev/null */
    const char *stderr_path; /* may equal stdout_path */
    const char *cwd;         /* NULL: ours */
    int64_t memory_bytes;    /* the most that it may allocate, without mapped files; 0: our limit */
    const struct run_as *as; /* as this user (run_as.h); output files are opened before */
    bool new_session;        /* setsid: it survives our terminal and our death */
    bool die_with_parent;    /* PR_SET_PDEATHSIG (fires when the *thread* that forked ends) */
    bool end_with_parent;    /* the same, with SIGTERM instead of SIGKILL */
};
/* Starts a child. A failed exec is reported here too, through a pipe. Returns its pid or a negative
 * code. */
pid_t proc_start(const struct proc_spec *spec, struct err *e);
/* Has it ended? Then *exit_code (may be NULL) is its code, or 128 + the signal that ended it, or -1
 * if it is not our child. */
bool proc_poll(pid_t pid, int *exit_code);
/* Waits until a child has ended, and ends it after `seconds` (INFINITY: never). Returns its code as
 * above; negative: it was too slow. */
int proc_await(pid_t pid, double seconds);
/* Is exactly this process alive (same start time, not a zombie)? Works for any process, not only
 * for children. */
bool proc_alive(pid_t pid, uint64_t start_ticks);
uint64_t proc_start_ticks(pid_t pid); /* 0 if there is no such process */
/* Identifies one boot of a kernel; "" if the system does not tell. */
enum { PROC_BOOT = 37, PROC_SPACE = 64 };
void proc_boot(char out[PROC_BOOT]);
/* Identifies where a pid means the same process as here: the boot and the pid namespace. */
void proc_space(char out[PROC_SPACE]);
/* Sends SIGTERM to the process group, and SIGKILL after `grace` seconds. Reaps the process if it is
 * our child. */
void proc_stop(pid_t pid, double grace);

/* Sends a signal to every other process whose environment has all of these NAME=VALUE
 * (NULL-terminated). Returns how many there are. */
int proc_signal_marked(const char *const *pairs, int sig);
/* The oldest process that leads its session and whose environment has all of these; its start time
 * goes into *start_ticks. 0: there is none. */
pid_t proc_find_marked(const char *const *pairs, uint64_t *start_ticks);
/* Runs a program to its end, for at most `seconds`, and puts the beginning of its output into `out`
 * (NUL-terminated). Returns its exit code, or negative. */
int proc_output(const char *const *argv, double seconds, char *out, size_t bytes, struct err *e);
/* As proc_output(), but another thread may end it by setting *stop (ERR_CANCELLED). */
int proc_output_until(const char *const *argv, double seconds, const atomic_bool *stop, char *out,
                      size_t bytes, struct err *e);

/* Makes the missing folders of the path, and syncs the entry of each to disk. */
int proc_mkdirs(const char *path, mode_t mode, struct err *e);
/* Syncs the entries of a folder. A failure is ignored, since no caller can act on it. */
void proc_sync_folder(const char *folder);
/* Writes a whole file: under a temporary name, synced, then renamed; syncs the folder too. */
int proc_write_file(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e);
/* Reads a whole file of at most max bytes; the caller frees; NUL-terminated. */
char *proc_read_file(const char *path, size_t max, size_t *n, struct err *e);
/* The number after `word` on the line of a small file that starts with it; NaN if there is no such
 * line or file. proc_numbers() reads the file once for n words; out[n]. */
double proc_number(const char *path, const char *word);
void proc_numbers(const char *path, const char *const *words, int n, double *out);
/* Removes a folder and its contents. Does not follow links. */
int proc_remove_tree(const char *path, struct err *e);
/* Bytes on disk of a folder and its contents, without following links; 0 if it does not exist. A
 * file that changes meanwhile may or may not count. */
int64_t proc_tree_bytes(const char *path);

#endif
