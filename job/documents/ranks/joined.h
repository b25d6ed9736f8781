/* Joined: what a user's program brought when it joined its ranks (worker/program/start/join.c).
 * Before, only what the spec says is known. The fact "joined", the monitor's bookmark and the live
 * document have it under the key `program`:
 *
 *   {"framework": "torch 2.15.0", "optimizer": "SGD", "parameters": 1199882, "tensors": 8,
 *    "samples": 60000, "global_batch": 64, "epochs": 14}
 */
#ifndef JOB_DOCUMENTS_RANKS_JOINED_H
#define JOB_DOCUMENTS_RANKS_JOINED_H

#include "job/documents/document.h"

enum { JOINED_TEXT = 64 };

struct joined {
    char framework[JOINED_TEXT], optimizer[JOINED_TEXT]; /* for people; may be empty */
    int64_t parameters;                                  /* floats; and the number of tensors */
    int tensors;
    int64_t samples;  /* of an epoch */
    int global_batch; /* 0: no program has joined, and nothing else here means anything */
    double epochs;    /* 0: the program's loop decides */
};

json_t *joined_json(const struct joined *j); /* new reference */
void joined_parse(const struct document *d, struct joined *out);

#endif
