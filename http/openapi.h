/* The description of the API, made from the route table and the schemas: nothing in it is written
 * twice. */
#ifndef HTTP_OPENAPI_H
#define HTTP_OPENAPI_H

#include <jansson.h>

#include "common/buf.h"

/* OpenAPI 3.1. New reference. Files of the page (patterns with a star) are not part of it. */
json_t *openapi_json(void);
/* The table of routes and of documents for docs/http-api.md, as Markdown. */
void openapi_markdown(struct buf *out);

#endif
