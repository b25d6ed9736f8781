/* The one table of routes. A line says method, pattern, least role, handler, one sentence, query
 * parameters, and the names of the schemas of request and answer (http/openapi/schemas.c); the
 * server dispatches by it, /openapi.json and docs/http-api.md are made from it. To add a route: a
 * handler in a file of api/, its prototype in api/api.h, a line in routes.c, and `make docs`.
 */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H

#include <stdbool.h>

#include "common/err.h"
#include "common/json/jsonx.h"
#include "http/access/auth.h"

struct request;
struct reply;

enum { ROUTE_ARGS = 2, ROUTE_ARG_BYTES = 256, ROUTE_PARAMS = 16 };

enum route_type { ROUTE_STRING, ROUTE_INT, ROUTE_REAL, ROUTE_BOOL, ROUTE_WORDS /* a,b,c */ };

struct route_param {
    const char *name; /* NULL ends the list */
    enum route_type type;
    double min, max;     /* of numbers */
    const char *choices; /* "step|samples|time"; of words, a pattern "^[a-z]*$"; or NULL */
    const char *help;
    /* Reports what is wrong with a value beyond that; or NULL. */
    void (*check)(const char *value, struct jsonx_problems *problems);
};

enum route_way {
    ROUTE_WAITS,   /* its handler runs on a thread that may wait (work.h) */
    ROUTE_QUICK,   /* it neither asks the store nor waits: it runs on the event thread itself */
    ROUTE_UPLOADS, /* waits; its body is a file (upload.h); the service may be set to refuse it */
    ROUTE_UPLOADS_DATA, /* the same of a data set, which may be larger */
    ROUTE_SHARED, /* waits; its answer is the same for all who may ask, and may be some milliseconds
                     old (recent.h) */
    ROUTE_FILES,  /* waits; the last name in its pattern stands for the rest of the path, slashes
                     included */
};

struct route {
    const char *method, *pattern; /* "/api/v1/jobs/{id}" */
    enum auth_role role;
    int (*handle)(struct request *q, struct reply *out, struct err *e);
    const char *summary;
    const struct route_param *params; /* or NULL */
    const char *request;              /* schema of the body; "application/octet-stream" … ;
                                         NULL: none */
    int status;                       /* of success */
    const char *response; /* a schema's name; "text/plain", "text/event-stream", … for others;
                             "Series|text/csv": either; NULL: no body */
    enum route_way way;
};

/* Ends with method == NULL. */
extern const struct route routes[];
int routes_count(void);

/* ---- route.c: what a line says --------------------------------------------------------------- */

/* Is its body a file? */
bool route_uploads(const struct route *r);
/* The media type of its answer; NULL: it has no body, or is a file of any type ("*"). */
const char *route_type(const struct route *r);
/* Can it answer with a table (text/csv) too? */
bool route_gives_csv(const struct route *r);
enum { ROUTE_SCHEMA = 64 };
/* The schema of a request or answer, "Series"; "" for one that is not JSON, and for NULL. */
void route_schema(const char *of, char out[ROUTE_SCHEMA]);

/* ---- routes.c: which line is a request's ----------------------------------------------------- */

#define ROUTE_METHODS "GET, HEAD, POST, PATCH, DELETE, OPTIONS" /* all that there are */

struct route_match {
    const struct route *route; /* NULL: no such path (known_path false), or no such method there */
    bool known_path;
    char args[ROUTE_ARGS][ROUTE_ARG_BYTES]; /* what stood for {id} and {name} */
    char allow[64];                         /* "GET, HEAD, POST, OPTIONS", for 405 and OPTIONS */
};
/* `path` is decoded. HEAD finds GET. */
void routes_find(const char *method, const char *path, struct route_match *out);
/* May an encoded slash follow this beginning of a path (n bytes, as they came)? Only within the
 * name of a file, where "plots%2Floss.png" and "plots/loss.png" are the same. */
bool routes_take_slash(const char *path, size_t n);

#endif
