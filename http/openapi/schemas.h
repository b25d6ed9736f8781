/* The schemas that routes name, in a notation as short as the documents themselves:
 *
 *   "id:string error:JobError? workers:[Worker] ~hint:string batches:{integer}"
 *
 * `?` may be null, `[T]` an array, `{T}` an object with any keys, `~` a key that may be missing; a
 * capital begins the name of another schema. Strings, integers, numbers, booleans and objects are
 * JSON Schema's own; `time` is a string with a date and a time, `id` that of a job, `sha256` a
 * digest in hexadecimal digits, `priority` a job's; `integer(1,16)` and `number(0,1)` have bounds.
 * Fields that begin with "!" are all the keys that a document may have; those that begin with "="
 * are the values of a string: "=ready|busy|lost"; "Job?" are those of Job, of which all but the
 * first may be missing. */
#ifndef HTTP_OPENAPI_SCHEMAS_H
#define HTTP_OPENAPI_SCHEMAS_H

#include <jansson.h>
#include <stdbool.h>

struct schema {
    const char *name, *fields, *help;
};
/* Ends with name == NULL. */
extern const struct schema schemas[];

/* JSON Schema (2020-12, as OpenAPI 3.1 has it) of one; references go to #/components/schemas. New
 * reference. */
json_t *schema_json(const struct schema *s);
/* {"type": "string", "enum": [...]} of "ready|busy|lost". New reference. */
json_t *schema_choices(const char *choices);
/* The keys of an object, at most so many: how many there are, 0 for what is no object of ours. */
enum { SCHEMA_FIELDS = 48 };
struct schema_field {
    char name[64], type[64]; /* "metrics" "Metrics" */
};
int schema_fields(const char *name, struct schema_field *out, int most);

#define SCHEMA_JOB_STATES \
    "queued|launching|running|pausing|paused|cancelling|cancelled|succeeded|failed"

#endif
