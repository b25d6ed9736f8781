/* The description of the API, made from the route table and the schemas: nothing in it is written
 * twice.
 *
 *   openapi.c    the document: paths, components
 *   operation.c  a route: parameters, body, answers, headers, links, examples
 *   markdown.c   docs/http-api.md
 */
#ifndef HTTP_OPENAPI_OPENAPI_H
#define HTTP_OPENAPI_OPENAPI_H

#include <jansson.h>

#include "common/text/buf.h"

struct route;

/* An Operation Object. New reference. */
json_t *openapi_operation(const struct route *r);
/* What operations refer to, as {"responses": {…}, "headers": {…}}. New reference. */
json_t *openapi_shared(void);
/* The table of routes and of documents for docs/http-api.md, as Markdown. */
void openapi_markdown(struct buf *out);

#endif
