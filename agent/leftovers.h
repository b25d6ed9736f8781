/* Folders for Open MPI (/tmp/es-…, /dev/shm/es-…) whose agent was killed before it could remove
 * them. Each has a file that names the agent; the next agent on the host removes those whose agent
 * has ended. A process of another boot or of another process namespace is not judged: its number
 * means nothing here.
 */
#ifndef AGENT_LEFTOVERS_H
#define AGENT_LEFTOVERS_H

/* Writes a note into `dir` that this process owns it. A folder without a note is never removed as a
 * leftover. A note that cannot be written is no error. */
void leftovers_own(const char *dir);
/* Removes the folders directly beneath `parent` whose names begin with `prefix` and whose owner has
 * ended; returns how many. */
int leftovers_sweep(const char *parent, const char *prefix);

#endif
