/* The socket to the program: packets of client/protocol.h, descriptors beside them. Whoever waits
 * for a message also watches the process, so that a program that ends is noticed at once, and its
 * use of the CPU, so that one that hangs is told from one that computes.
 *
 * Every failure is a sentence about the program: who (rank and node), what, its last lines.
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
    struct wire_message later[LINK_LATER]; /* that leave with the next one */
    int n_later;
    double early; /* clock_now() at which a wait that lasts so long calls `glance`, once; 0: none */
    void (*glance)(void *ctx);
    void *glance_ctx;
    double nap;       /* seconds that it may sleep before it waits; 0: none */
    double until;     /* clock_now() by when it has to say what is waited for; 0: no limit */
    const char *task; /* what it does until then, for the sentence; NULL with no limit */
    bool gone;        /* set where the program cannot go on: it ended, hangs, or gave up */
    /* of the wait under way */
    double silent_since, cpu_then;
};

#define LINK_NONE ((struct link){.listener = -1, .fd = -1, .folder = {.lock = -1}})

/* Makes the socket. l needs link_close either way. */
int link_open(struct link *l, struct child *child, int rank, const char *node, double patience,
              struct err *e);
/* Waits for the program to connect and takes its JOIN; *description: its text, n bytes, the
 * caller's. Another protocol's version is refused. */
int link_accept(struct link *l, struct wire_message *join, char **description, size_t *n,
                struct err *e);
/* Waits for the next message. *fd: the descriptor that came with it, the caller's, or -1. A second
 * program that wants to join is refused meanwhile. A program that neither reports nor computes is
 * found after `patience`, one that computes for ever at `until`. */
int link_receive(struct link *l, struct wire_message *m, int *fd, struct err *e);
/* fds: up to two descriptors that go along, ended by -1; NULL: none. */
int link_send(struct link *l, const struct wire_message *m, const int *fds, struct err *e);
/* The same at the latest when the next message is sent or waited for, so that a program that waits
 * for GO is woken once. */
int link_later(struct link *l, const struct wire_message *m, struct err *e);
/* Tells the program why it cannot go on. */
void link_refuse(struct link *l, const char *why);
/* Waits until the process has ended, at most `patience`; an exit code but 0 is an error. */
int link_await_end(struct link *l, struct err *e);
void link_close(struct link *l);

/* A program's own state, of a descriptor that came with a message; more than OWN_STATE_MOST is an
 * error. */
int link_read_state(const struct link *l, int fd, struct own_state *out, struct err *e);

#endif
