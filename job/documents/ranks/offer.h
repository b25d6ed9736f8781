/* Offer: what the keeper tells all ranks about its data set if one of them lacks it: its files, or
 * why it cannot send them. It is broadcast within the attempt, so it names none.
 *
 *   {"format": 1, "digest": "…", "key": "…", "bytes": 812, "files": [{"name", "bytes"}]}
 *   {"format": 1, "error": "cannot read …"}
 *   {"format": 1}                                  no rank lacks it
 */
#ifndef JOB_DOCUMENTS_RANKS_OFFER_H
#define JOB_DOCUMENTS_RANKS_OFFER_H

#include "job/documents/document.h"

enum { OFFER_FORMAT = 1, OFFER_HEX = 65, OFFER_NAME = 600, OFFER_FILES = 1000000 };

struct offer_file {
    char *name; /* path beneath the data set's folder; owned */
    int64_t bytes;
};

struct offer {
    char error[DOCUMENT_MESSAGE]; /* why it cannot be sent; empty: it can, or no rank asks */
    char digest[OFFER_HEX];       /* digest of its values, in hex; empty: no rank lacks it */
    char key[OFFER_HEX];          /* digest of its files, in hex, under which a host keeps them */
    int64_t bytes;                /* of all files */
    struct offer_file *files;     /* [n_files]; owned */
    int n_files, room;
};

json_t *offer_json(const struct offer *o); /* new reference */
/* Release it in any case. */
int offer_read(struct offer *out, const json_t *j, struct err *e);
void offer_release(struct offer *o);
/* Adds a file. Fails if its name is longer than OFFER_NAME - 1, or if there are OFFER_FILES
 * already. */
int offer_add(struct offer *o, const char *name, int64_t bytes, struct err *e);

#endif
