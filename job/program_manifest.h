/* A program's manifest: `manifest.json` in a folder that an operator put there, `evenstep.json` in
 * one that was uploaded.
 *
 *   {"description": "digits", "command": ["python3", "train.py"],
 *    "arguments": {"--lr": "number", "--fast": "flag"}, "env": {"NAME": "text"},
 *    "device": "cpu", "needs": {"python3": "3.9", "torch": ""}}
 *
 * arguments: what a job may give, each with the type of its value: number, integer, text, or flag,
 * which has none. device: the kind of node that it runs on. needs: what a node must have
 * (common/packages.h), each with the least version ("" is any). Every key may be left out,
 * `command` by an uploaded one alone. */
#ifndef JOB_PROGRAM_MANIFEST_H
#define JOB_PROGRAM_MANIFEST_H

#include "common/jsonx.h"

/* The manifest with only what was understood: a new reference; every mistake is a problem beneath
 * `pointer`. */
json_t *program_manifest_read(const json_t *given, const char *pointer,
                              struct jsonx_problems *problems);
/* The arguments "--lr", "0.1", "--fast" against the manifest's (which may be NULL): each option is
 * one of them, and has a value of its type. `program`: its name, for messages. */
void program_manifest_arguments(const json_t *manifest, const json_t *args, const char *program,
                                struct jsonx_problems *problems);

#endif
