/* Tells the service manager that a program is ready or ends (systemd's Type=notify).
 *
 * The protocol is one datagram on the socket that $NOTIFY_SOCKET names. sd_notify(3) describes it
 * for programs that do not link libsystemd; this file is one, since a bundle (deploy/bundle) shall
 * run where that library is not.
 */
#ifndef COMMON_PROCESS_NOTIFY_H
#define COMMON_PROCESS_NOTIFY_H

/* Sends `state` ("READY=1", "STOPPING=1"). Nothing happens where no manager asked for it, or where
 * it does not answer: a service runs without its manager's knowing. */
void notify_manager(const char *state);

#endif
