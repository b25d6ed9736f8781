/* JSON as text: finds values in a document and hands out the bytes that they stand in, without
 * building the document. A page of 500 jobs is copied from what the store holds in a tenth of the
 * time that parsing and printing it takes.
 *
 *     {"metrics": {"test_loss": 0.5}}      jsontext_find(…, "metrics.test_loss") is 0.5
 *
 * Everything handed out is borrowed from the document's text.
 */
#ifndef COMMON_JSON_JSONTEXT_H
#define COMMON_JSON_JSONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text/buf.h"

/* One value, well-formed, without the white space around it. at NULL: there is none. */
struct jsontext {
    const char *at;
    size_t len;
};

/* The value that these bytes are. One that is malformed, nested deeper than 64 levels or followed
 * by anything but white space has at NULL. Texts are not checked for valid UTF-8. */
struct jsontext jsontext_of(const char *bytes, size_t len);

/* Walks the members of an object: for (walk = jsontext_members(v); jsontext_next(&walk, …);). Of
 * anything else there are none. */
struct jsontext_walk {
    const char *at, *end;
};
struct jsontext_walk jsontext_members(struct jsontext object);
/* `key` is the bytes between the quotes, as they stand there. */
bool jsontext_next(struct jsontext_walk *walk, struct jsontext *key, struct jsontext *value);

/* The value at a path of keys with dots between; at NULL: there is none. */
struct jsontext jsontext_find(struct jsontext object, const char *path);
bool jsontext_is_object(struct jsontext v);
bool jsontext_is_array(struct jsontext v);
/* false: it is no number, or too large for one. */
bool jsontext_number(struct jsontext v, double *out);

/* Appends text as a JSON string; null where it is not UTF-8. */
void jsontext_quote(struct buf *out, const char *text, size_t len);

#endif
