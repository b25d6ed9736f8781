/* A program's manifest: `manifest.json` in a folder that an operator put there, `evenstep.json` in
 * one that was uploaded.
 *
 *   {"description": "digits", "command": ["python3", "train.py"],
 *    "arguments": {"--lr": "number", "--fast": "flag"}, "env": {"NAME": "text"},
 *    "device": "cpu", "needs": {"python3": "3.9", "torch": ""}}
 *
 * arguments: what a job may give, each with the type of its value: number, integer, text, or flag,
 * which has none. device: the kind of node that it runs on. needs: what a node must have
 * (common/machine/packages.h), each with the least version ("" is any). Every key may be left out,
 * `command` by an uploaded one alone. */
#ifndef JOB_NODE_PROGRAM_MANIFEST_H
#define JOB_NODE_PROGRAM_MANIFEST_H

#include "common/json/jsonx.h"

/* The manifest with its valid keys, a new reference. Every mistake is a problem beneath
 * `pointer`. */
json_t *program_manifest_read(const json_t *given, const char *pointer,
                              struct jsonx_problems *problems);
/* Does it list the arguments that a job may give? */
bool program_manifest_lists_arguments(const json_t *manifest);
/* Checks the arguments "--lr", "0.1", "--fast" against the manifest (which may be NULL): each
 * option must be listed, and its value must have the type. `program`: its name, for messages. */
void program_manifest_arguments(const json_t *manifest, const json_t *args, const char *program,
                                struct jsonx_problems *problems);
/* Values of a manifest that was read; NULL if it does not have them, or is NULL itself.
 * Borrowed. */
const json_t *program_manifest_command(const json_t *manifest);
const json_t *program_manifest_needs(const json_t *manifest); /* least versions by name */
const char *program_manifest_device(const json_t *manifest);
/* Beyond the file: the interpreter that program_manifest_command_needs() adds. */
const char *program_manifest_interpreter(const json_t *manifest);
/* Adds what the program of this command needs: python3, or another Python by its path. */
void program_manifest_command_needs(json_t *manifest, const json_t *command);
/* Fills in command and environment if the job's `program` does not give its own. */
void program_manifest_fill_in(json_t *program, const json_t *manifest);
/* Adds the public part: all but its environment. */
void program_manifest_tell(json_t *program, const json_t *manifest);

#endif
