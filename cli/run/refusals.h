/* Folders that are nobody's project, and files that are no program. */
#ifndef CLI_RUN_REFUSALS_H
#define CLI_RUN_REFUSALS_H

/* Why a folder (absolute, links resolved) is nobody's project: "it is the home folder"; NULL: it
 * may be one. Static. */
const char *refusal_of_folder(const char *folder);
/* Why the file cannot be executed, whatever its mode: "it is neither …"; NULL: it can, or cannot
 * be read. Static. */
const char *refusal_of_program(const char *file);

#endif
