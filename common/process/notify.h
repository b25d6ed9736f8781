/* Tells the service manager that a program is ready or stops (systemd's Type=notify).
 *
 * The protocol is one datagram on the socket that $NOTIFY_SOCKET names. sd_notify(3) describes it
 * for programs that do not link libsystemd. This file does without that library, because a bundle
 * (deploy/bundle) must run on hosts that lack it.
 */
#ifndef COMMON_PROCESS_NOTIFY_H
#define COMMON_PROCESS_NOTIFY_H

/* Sends `state` ("READY=1", "STOPPING=1"). Does nothing if no manager asked for it. A failed send
 * is ignored: the service runs without its manager knowing. */
void notify_manager(const char *state);

#endif
