/* Packets of client/protocol.h over a socket, with descriptors beside them, and the texts in those
 * descriptors.
 */
#ifndef WORKER_PROGRAM_CHILD_PACKET_H
#define WORKER_PROGRAM_CHILD_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "client/protocol.h"

/* PACKET_ENDED: the other end is gone, or sent no packet of ours. */
enum packet_taken { PACKET_NONE, PACKET_TAKEN, PACKET_ENDED = -1 };

/* fds: up to two descriptors that go along, and then -1; NULL: none. False: it was not sent. */
bool packet_send(int socket, const struct wire_message *m, const int *fds);
/* Takes a packet if one is there. *fd: its first descriptor, which the caller closes; -1: it has
 * none. Further ones are closed. */
enum packet_taken packet_take(int socket, struct wire_message *m, int *fd);
/* Is there one to take? */
bool packet_waits(int socket);
/* Tells the program why it cannot go on. */
void packet_refuse(int socket, const char *why);

/* Makes a memfd with these bytes, which the caller closes; -1: it failed. */
int packet_memfd(const void *bytes, size_t n);
/* Reads the first n bytes of a descriptor. False: it has fewer, or cannot be read. */
bool packet_read(int fd, char *out, size_t n);
/* Reads the whole text of a descriptor and ends it with NUL; the caller frees it. NULL: it is
 * longer than `most`, or cannot be read. */
char *packet_text(int fd, size_t most, size_t *n);

#endif
