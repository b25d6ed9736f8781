/* The program's process is a child of the rank, in a process group of its own. It inherits only
 * what any program needs of the rank's environment. A thread copies its output to the rank's log,
 * line by line, and keeps the last lines for the message that says how the program ended.
 *
 * The main thread starts it. PR_SET_PDEATHSIG fires when the thread that forked ends, and only the
 * main thread lives as long as the rank.
 */
#ifndef WORKER_PROGRAM_CHILD_CHILD_H
#define WORKER_PROGRAM_CHILD_CHILD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "job/documents/ranks/program_end.h"
#include "worker/program/child/exception.h"
#include "worker/program/child/peers.h"

enum { CHILD_LINE = 400, CHILD_LINES = 8, CHILD_LINES_MOST = 1000 };

struct child_ask {
    const struct program_spec *program; /* borrowed, as all: command, args, env */
    const char *folder;                 /* to run in; NULL: ours */
    const char *socket, *job, *output, *library;
    const char *library_folder; /* has the library alone, by its soname; NULL: there is none */
    const char *data;           /* this host's folders of data sets, with colons between */
    const char *python_path;    /* NULL: none */
    const char *device;         /* of the node, as "cuda:1": the only GPU that it sees; NULL: any */
    const char *python;         /* runs a program whose command is `python3`; NULL: the PATH's */
    const struct peers *peers;  /* told to it, and rank 0's inherits the listener; NULL: none */
    int rank, workers, threads;
    int incarnation; /* how many of this rank were started before it */
};

struct child {
    pid_t pid;       /* 0: not started */
    int pidfd;       /* readable when it has ended */
    int output;      /* the read end of stdout and stderr */
    clockid_t clock; /* of its CPU time, if `timed` */
    bool timed, reaped;
    int status; /* as of waitpid, once reaped */
    bool reading;
    atomic_bool stop;     /* the reader's, once nothing more is read */
    atomic_bool read_all; /* by the reader: it has read what there was, to the end */
    pthread_t reader;
    pthread_mutex_t lock; /* guards the lines and the exception */
    struct exception exception;
    struct program_end end; /* how it ended; filled by child_epitaph and child_gave_up */
    char lines[CHILD_LINES][CHILD_LINE];
    int n_lines; /* that were printed in all */
    /* the reader's: */
    double span_end;  /* clock_now() when the log has room again */
    int told;         /* lines in this span; CHILD_LINES_MOST at most */
    int64_t left_out; /* that were not told yet */
};

/* The caller calls child_stop also after a failure. */
int child_start(struct child *c, const struct child_ask *ask, struct err *e);
/* Has the process ended? If so, it is reaped. */
bool child_ended(struct child *c);
/* Did the program cause its own end, by an exit or by a fault in its code (SIGSEGV, SIGABRT)? A
 * signal such as KILL comes from outside, also where a shell reports it of its child (exit code
 * 137). True if the process has not ended yet. */
bool child_ended_itself(struct child *c);
/* Did it exit, as after an exception, and was not ended by a signal? True if it has not ended
 * yet. */
bool child_exited(struct child *c);
/* CPU seconds of the process and its threads, without its children; negative: it has ended. */
double child_cpu(const struct child *c);
/* Does any process of its group, a data loader among them, compute, or wait for a core or a disk?
 * It reads all of /proc, so do not call it in every step. */
bool child_works(const struct child *c);
/* "was ended by signal 9 …; its last lines: …" into out, or, if the last that it printed is an
 * exception of Python, "ended with exit code 1: KeyError: 'x' (train.py, line 12)"; after
 * child_ended. c->end has the same as data. */
const char *child_epitaph(struct child *c, char *out, size_t bytes);
/* Fills c->end where the program cannot go on, or is not started again, for this reason. */
void child_gave_up(struct child *c, const char *reason);
/* Only the last lines: "its last lines: …", or "" if the program printed nothing. */
const char *child_last_lines(struct child *c, char *out, size_t bytes);
/* The thread that reads its output; arg: the child. */
void *child_read_output(void *arg);
/* Ends the process and its group by TERM, and by KILL after `grace` seconds. */
void child_stop(struct child *c, double grace);

#endif
