/* A node: as it is written on a command line (NAME=DEVICE[,slowdown=F], the same for `evenstep
 * serve` and `evenstep-agent`), and as a document in the store, which an agent or `serve` writes
 * with every heartbeat. The keys of that document are known here and in store/nodes.c, which adds
 * what the store knows of a node: its state, the job that uses it, the age of its heartbeat. */
#ifndef JOB_NODE_NODE_H
#define JOB_NODE_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/machine/probe.h"

/* What the host has, for `auto` and for the node's document. */
struct node_host {
    const char *name;
    int cores;            /* cores that this process may use */
    int64_t memory_bytes; /* memory that it may use */
};

/* "NAME=cpu:THREADS|cuda:INDEX|auto[,slowdown=F]":
 * {"name","host","device","memory_bytes","threads","slowdown","labels":{},"versions":{…},
 * "quantum"}. `option` ("--local-node") begins the sentence of an error. New reference or NULL. */
json_t *node_parse(const char *option, const char *text, const struct node_host *host,
                   struct err *e);
/* Is the device `auto`, so that the worker's program decides (--probe)? */
bool node_asks_auto(const char *text);
/* Takes the answer of --probe into the node's document: device, memory, threads, precisions,
 * quantum. */
void node_take_probe(json_t *node, const struct probe *probed);
/* Is one of these nodes (an array of documents) a CPU? */
bool node_any_cpu(const json_t *nodes);
/* Gives the CPU nodes the precisions of this host's CPU, which do not depend on the threads; NULL:
 * they stay as they are. */
void node_take_precisions(json_t *nodes, json_t *precisions);
/* Can a node's device (its document, or its place in the plan) compute in this precision? */
bool node_offers(const json_t *node, const char *precision);
/* Adds "K=V" to the labels of every node of the array. */
int node_label(json_t *nodes, const char *text, struct err *e);
bool node_same_name(const json_t *nodes, const json_t *node); /* is there one of this name? */
/* Readers of a node's document. Texts are borrowed from it; a missing text is "". */
const char *node_name(const json_t *node);
const char *node_host(const json_t *node);
const char *node_device(const json_t *node);
const char *node_address(const json_t *node); /* of its host's agent */
double node_slowdown(const json_t *node);     /* >= 1 */
int node_threads(const json_t *node);         /* 1 … 4095 */
int64_t node_memory_bytes(const json_t *node);
const json_t *node_labels(const json_t *node); /* object of texts, or NULL */
/* What a program finds on the node with this interpreter (a path, or "python3"). */
struct node_python {
    /* Versions by name (common/machine/packages.h): of its python3 if the node names no other
     * interpreter; NULL: not known. */
    const json_t *packages;
    const json_t *broken; /* packages that cannot be imported, with the reason; NULL: none */
    bool missing;         /* the node names its interpreters, and this one is not among them */
    bool asked;           /* it is still being asked */
};
struct node_python node_python(const json_t *node, const char *interpreter);
/* The path of its interpreter number i, for a sentence; NULL: there are no more. */
const char *node_interpreter(const json_t *node, size_t i);
/* Gives a node the answer of interpreters_tell() about its host; NULL: it is still being asked. */
void node_set_interpreters(json_t *node, const json_t *all);
bool node_has_agent(const json_t *node);
bool node_is_leaving(const json_t *node); /* its host is about to stop */
void node_set_leaving(json_t *node);
void node_set_auto(json_t *node); /* --probe has not said yet which device it is */
void node_set_memory_bytes(json_t *node, int64_t bytes);
/* The node belongs to a host's agent with these versions of its programs. node_set_address(): the
 * host's address. */
void node_set_agent(json_t *node, json_t *versions);
void node_set_address(json_t *node, const char *address);
/* Keys that the store adds. */
const char *node_state(const json_t *node); /* "ready", "busy", "lost", … */
void node_set_state(json_t *node, const char *state);
const char *node_user(const json_t *node); /* id of the job that has claimed it */
double node_beat_age(const json_t *node);  /* seconds */
int node_failures(const json_t *node);     /* attempts in a row that failed through it */

/* Is it a valid name of a host or node: letters, digits and '-', for a node also '.', at most
 * `most` bytes? (Open MPI fails on '_'.) */
bool node_valid_name(const char *name, size_t n, size_t most, bool dots);

#endif
