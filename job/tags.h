/* Tags and notes: what people write on a job to find it again. They do not change how it runs. The
 * spec may have both, and a PATCH of the job sets them again.
 */
#ifndef JOB_TAGS_H
#define JOB_TAGS_H

#include <stdbool.h>

#include "common/json/jsonx.h"

enum { TAGS_MOST = 16, TAG_CHARACTERS = 40, NOTE_CHARACTERS = 2000 };
/* The pattern in JSON Schema and its readers. */
#define TAG_PATTERN "^[A-Za-z0-9][A-Za-z0-9._:/=@-]{0,39}$"
#define NOTE_PATTERN \
    "^[^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069]*$"

bool tag_valid(const char *tag);
/* Reports what is wrong with an array of tags, or a note (text or null), that stands at `pointer`.
 * true: nothing is. */
bool tags_check(const json_t *tags, const char *pointer, struct jsonx_problems *problems);
bool note_check(const json_t *note, const char *pointer, struct jsonx_problems *problems);

#endif
