/* What a line of the table of routes says: see routes.h. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "http/routes.h"

bool route_uploads(const struct route *r)
{
    return r->way == ROUTE_UPLOADS || r->way == ROUTE_UPLOADS_DATA;
}

const char *route_type(const struct route *r)
{
    if (!r->response || strcmp(r->response, "*/*") == 0) {
        return NULL;
    }
    return isupper((unsigned char)r->response[0]) ? "application/json" : r->response;
}

bool route_gives_csv(const struct route *r)
{
    return r->response && strstr(r->response, "|text/csv");
}

void route_schema(const char *of, char out[ROUTE_SCHEMA])
{
    size_t n = of && isupper((unsigned char)of[0]) ? strcspn(of, "|") : 0;
    snprintf(out, ROUTE_SCHEMA, "%.*s", (int)n, of ? of : "");
}
