/* Warning: what a dry run says of a valid job that may not be what the user wants: {"code",
 * "pointer", "message"}. It is the API's own form, without a format number.
 */
#ifndef JOB_DOCUMENTS_PEOPLE_WARNING_H
#define JOB_DOCUMENTS_PEOPLE_WARNING_H

#include <jansson.h>

/* Codes, for programs. A new one also goes into WARNING_CODES. */
#define WARNING_BATCH_UNKNOWN "batch_unknown"     /* a program reports its global batch later */
#define WARNING_BATCH_TOO_LARGE "batch_too_large" /* the training set has fewer samples */
#define WARNING_MEMORY_SHORT "memory_short"       /* a node can hardly hold its minibatch */
#define WARNING_NODES_SHORT "nodes_short"         /* the job waits for nodes */

/* All codes in the form "a|b|c". */
#define WARNING_CODES                                                          \
    WARNING_BATCH_UNKNOWN "|" WARNING_BATCH_TOO_LARGE "|" WARNING_MEMORY_SHORT \
                          "|" WARNING_NODES_SHORT

/* pointer: where in the spec (RFC 6901) it can be changed. The message is a sentence without
 * capital or full stop. New reference. */
json_t *warning_json(const char *code, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
