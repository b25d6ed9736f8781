/* Child processes and the files a daemon lives with. */
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
    const char *const *env;  /* NULL-terminated NAME=VALUE that are added to ours, or NULL */
    bool only_env; /* `env` is the whole environment, nothing of ours; argv[0] is looked up in its
                      PATH */
    const char *stdout_path; /* appended to; NULL: /dev/null */
    const char *stderr_path; /* may equal stdout_path */
    const char *cwd;         /* NULL: ours */
    int64_t memory_bytes;    /* the most that it may allocate (files that it maps are not counted);
                                0: our own limit */
    const struct run_as *as; /* as this user (run_as.h); files of its output are opened before */
    bool new_session;        /* setsid: it survives our terminal and our death */
    bool die_with_parent;    /* PR_SET_PDEATHSIG (fires when the *thread* that forked ends) */
    bool end_with_parent;    /* the same, with SIGTERM in place of SIGKILL */
};
/* Starts a child; exec failures are reported here, through a pipe. Returns its pid or a negative
 * code. */
pid_t proc_start(const struct proc_spec *spec, struct err *e);
/* Has it ended? Then *exit_code, unless it is NULL, is its code, or 128 + the signal that ended it,
 * or -1 for a process that is not our child. */
bool proc_poll(pid_t pid, int *exit_code);
/* Waits until a child has ended, and ends it itself after `seconds` (INFINITY: never). Its code as
 * above; negative: it was too slow. */
int proc_await(pid_t pid, double seconds);
/* Is this very process alive (same start time, no zombie)? Works for processes that are not ours.
 */
bool proc_alive(pid_t pid, uint64_t start_ticks);
uint64_t proc_start_ticks(pid_t pid); /* 0 if there is none */
/* Which boot of a kernel this is; "" where nothing tells. */
enum { PROC_BOOT = 37, PROC_SPACE = 64 };
void proc_boot(char out[PROC_BOOT]);
/* Where a pid means the same process as here: the boot and the namespace of processes. */
void proc_space(char out[PROC_SPACE]);
/* TERM to the process group, KILL after `grace` seconds; reaps if it is our child. */
void proc_stop(pid_t pid, double grace);

/* Sends a signal to every process but this one whose environment has all of these NAME=VALUE
 * (NULL-terminated). Returns how many there are. */
int proc_signal_marked(const char *const *pairs, int sig);
/* The oldest process that leads its session and whose environment has all of these, with its start
 * time in *start_ticks; 0: there is none. */
pid_t proc_find_marked(const char *const *pairs, uint64_t *start_ticks);
/* Runs a program to its end, at most `seconds`, and puts the beginning of its output into `out`
 * (NUL-terminated). Returns its exit code, or negative. */
int proc_output(const char *const *argv, double seconds, char *out, size_t bytes, struct err *e);
/* The same until another thread sets *stop, which is ERR_CANCELLED. */
int proc_output_until(const char *const *argv, double seconds, const atomic_bool *stop, char *out,
                      size_t bytes, struct err *e);

/* Makes the folders of the path that are not there, each with its entry on the disk. */
int proc_mkdirs(const char *path, mode_t mode, struct err *e);
/* The entries of a folder; where that fails there is nothing to be done. */
void proc_sync_folder(const char *folder);
/* Writes a whole file under a temporary name, syncs file and folder, renames. */
int proc_write_file(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e);
/* Reads a whole file of at most max bytes; the caller frees; NUL-terminated. */
char *proc_read_file(const char *path, size_t max, size_t *n, struct err *e);
/* The number that follows `word` in the line of a small file that begins with it; NaN: there is no
 * such line, or no file. proc_numbers() reads the file once for n words; out[n]. */
double proc_number(const char *path, const char *word);
void proc_numbers(const char *path, const char *const *words, int n, double *out);
/* Removes a folder and what is in it (does not follow links). */
int proc_remove_tree(const char *path, struct err *e);
/* Bytes on disk of a folder and all in it, links not followed; 0 where there is nothing. A file
 * that changes meanwhile may count or not. */
int64_t proc_tree_bytes(const char *path);

#endif
