/* A packet of client/protocol.h over a socket, with descriptors beside it, and the texts that such
 * descriptors have.
 */
#ifndef WORKER_PROGRAM_CHILD_PACKET_H
#define WORKER_PROGRAM_CHILD_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "client/protocol.h"

/* PACKET_ENDED: the other end is gone, or sent no packet of ours. */
enum packet_taken { PACKET_NONE, PACKET_TAKEN, PACKET_ENDED = -1 };

/* fds: up to two descriptors that go along, ended by -1; NULL: none. False: nobody gets it. */
bool packet_send(int socket, const struct wire_message *m, const int *fds);
/* Takes a packet if one is there. *fd: one descriptor of it, the caller's, or -1; others close. */
enum packet_taken packet_take(int socket, struct wire_message *m, int *fd);
/* Is there one to take? */
bool packet_waits(int socket);
/* Tells the program why it cannot go on. */
void packet_refuse(int socket, const char *why);

/* A memfd with these bytes, the caller's; -1: none can be had. */
int packet_memfd(const void *bytes, size_t n);
/* The first n bytes of a descriptor into out; false: it has fewer, or cannot be read. */
bool packet_read(int fd, char *out, size_t n);
/* The whole text of a descriptor, NUL-terminated, the caller's; NULL if it is longer than `most` or
 * cannot be read. */
char *packet_text(int fd, size_t most, size_t *n);

#endif
