/* The release of this build. Agents and coordinators with different releases or protocols refuse
 * one another. */
#ifndef COMMON_VERSION_H
#define COMMON_VERSION_H

#define EVENSTEP_VERSION "0.1.0"
#define EVENSTEP_PROTOCOL 2 /* of the messages between coordinator and agents (agent/README.md) */

#endif
