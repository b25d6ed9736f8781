/* The socket to the program carries packets of client/protocol.h, with descriptors beside them. A
 * wait for a message also watches the process: a program that ends is noticed at once. And it
 * watches the CPU time of the process, which tells a program that computes from one that hangs.
 *
 * The message of every failure names rank and node, says what happened, and ends with the last
 * lines that the program printed.
 */
#ifndef WORKER_PROGRAM_CHILD_LINK_H
#define WORKER_PROGRAM_CHILD_LINK_H

#include "client/protocol.h"
#include "worker/exchange/own_state.h"
#include "worker/program/child/child.h"
#include "worker/program/files/own_folder.h"

#define LINK_LATER 4

struct link {
    struct own_folder folder; /* of the socket */
    char path[96];            /* the socket's */
    int listener, fd;         /* -1: none */
    struct child *child;      /* borrowed */
    char who[128];            /* "the program of rank 1 on 'fast-1'" */
    double patience;          /* seconds */
    int stack_signal;         /* makes the program print its stacks; 0: SIGABRT does */
    void (*watch)(void *ctx); /* every second of a wait; NULL: nothing */
    void *watch_ctx;
    struct wire_message later[LINK_LATER]; /* they leave with the next message */
    int n_later;
    double
        early; /* a wait that lasts until then (clock_now()) calls `glance`, once; 0: none does */
    void (*glance)(void *ctx);
    void *glance_ctx;
    double nap;       /* seconds that link_receive may sleep before it waits; 0: none */
    double until;     /* clock_now() at which the program is overdue; 0: there is no limit */
    const char *task; /* what it is to finish until then, for the message; NULL: no limit */
    bool gone;        /* the program cannot go on: it has ended, hangs, or has given up */
    /* of the wait under way: */
    double silent_since, cpu_then;
};

#define LINK_NONE ((struct link){.listener = -1, .fd = -1, .folder = {.lock = -1}})

/* Makes the socket. The caller calls link_close also after a failure. */
int link_open(struct link *l, struct child *child, int rank, const char *node, double patience,
              struct err *e);
/* Waits until the program connects, and takes its JOIN. *description: the text that came with it,
 * of n bytes; the caller frees it. Refuses a program that speaks another version. */
int link_accept(struct link *l, struct wire_message *join, char **description, size_t *n,
                struct err *e);
/* Waits for the next message. *fd: the descriptor that came with it, which the caller closes; -1:
 * none came. Meanwhile it refuses any other process that wants to join. It fails if the program
 * neither reports nor computes for `patience`, or still computes at `until`. */
int link_receive(struct link *l, struct wire_message *m, int *fd, struct err *e);
/* Sends a message. fds: up to two descriptors that go along, and then -1; NULL: none. It is an
 * error that the program has ended only when all that it sent has been received. */
int link_send(struct link *l, const struct wire_message *m, const int *fds, struct err *e);
/* Sends it with the next message, or before the next wait, so that a program that waits for GO is
 * woken once. */
int link_later(struct link *l, const struct wire_message *m, struct err *e);
/* Tells the program why it cannot go on. */
void link_refuse(struct link *l, const char *why);
/* Waits until the process has ended, for `patience` at most. Fails if its exit code is not 0. */
int link_await_end(struct link *l, struct err *e);
void link_close(struct link *l);

/* Reads a program's own state from the descriptor that came with a message. Fails if it has more
 * than OWN_STATE_MOST bytes. */
int link_read_state(const struct link *l, int fd, struct own_state *out, struct err *e);

#endif
