/* Load: how busy a node was, on average over some seconds (common/machine/load.h). The process that
 * sends the node's heartbeats writes it, the store puts the time of its own clock in front, and the
 * API returns many of them as lists.
 *
 *   1764028800000[2,0.42,1.2e9,4e9,15000,8000,null,null,null]
 *     ms since 1970, then seconds, cpu, memory used, memory, received, sent, GPU, its memory used,
 *     its memory
 */
#ifndef JOB_DOCUMENTS_HOSTS_LOAD_H
#define JOB_DOCUMENTS_HOSTS_LOAD_H

#include "common/machine/load.h"
#include "job/documents/document.h"

enum { LOAD_TEXT = 256 };
/* Prints everything but the time. */
void load_print(const struct load *l, char out[LOAD_TEXT]);
/* False: the text does not have this form. *ms: the end of the time that the load covers. */
bool load_parse(struct load *out, double *ms, const char *text);

/* Many loads in the API's form: lists of the same length, oldest first. */
json_t *load_lists(void); /* new reference */
void load_lists_add(json_t *lists, double ms, const struct load *l);

#endif
