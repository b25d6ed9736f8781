/* Inside agent/ only: what daemon.c and daemon_line.c share. */
#ifndef AGENT_DAEMON_PARTS_H
#define AGENT_DAEMON_PARTS_H

#include <stdbool.h>

#include "agent/daemon.h"

/* PARENT/es-UID-JOB-ATTEMPT-DAEMON: short, because paths of sockets have 107 bytes. */
char *daemon_tmp(char out[64], const char *parent, const struct request *r);

#endif
