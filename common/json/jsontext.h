/* JSON as text: finds values in a document and returns the bytes that hold them, without building
 * the document. Copying a page of 500 jobs from the store this way takes a tenth of the time that
 * parsing and printing takes.
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

/* One well-formed value, without surrounding white space. at NULL: there is no value. */
struct jsontext {
    const char *at;
    size_t len;
};

/* The value in these bytes. Its at is NULL if it is malformed, nested deeper than 64 levels, or
 * followed by anything but white space. Does not check that strings are valid UTF-8. */
struct jsontext jsontext_of(const char *bytes, size_t len);

/* Walks the members of an object: for (walk = jsontext_members(v); jsontext_next(&walk, …);). Any
 * other value has no members. */
struct jsontext_walk {
    const char *at, *end;
};
struct jsontext_walk jsontext_members(struct jsontext object);
/* `key` is the raw bytes between the quotes. */
bool jsontext_next(struct jsontext_walk *walk, struct jsontext *key, struct jsontext *value);

/* The value at a path of keys, which dots separate; at NULL: there is no value. */
struct jsontext jsontext_find(struct jsontext object, const char *path);
bool jsontext_is_object(struct jsontext v);
bool jsontext_is_array(struct jsontext v);
/* False if it is not a number, or too large for a double. */
bool jsontext_number(struct jsontext v, double *out);

/* Appends text as a JSON string, or null if the text is not UTF-8. */
void jsontext_quote(struct buf *out, const char *text, size_t len);

#endif
