/* The Host and Origin of a request (docs/security.md#http). Pure.
 *
 * The Host header is compared with the listen address, its loopback names and the allowed hosts, so
 * that a name that was rebound to our address is refused. An address written in digits cannot be
 * rebound, so a server on the wildcard address takes any of those. Origin must be our own: scheme
 * http or https, and the very Host of the request.
 */
#ifndef HTTP_ACCESS_HOSTS_H
#define HTTP_ACCESS_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { HOSTS_NAME = 256, HOSTS_MAX = 32 };

struct hosts {
    char listen[HOSTS_NAME]; /* without brackets */
    int port;
    char allowed[HOSTS_MAX][HOSTS_NAME]; /* name, or name:port; an allowed name without port takes
                                            every port */
    int n_allowed;
    bool tls; /* a Host without a port means 443; set after hosts_init() */
};

/* "127.0.0.1:8080", "[::1]:8080", "localhost:0" into host (no brackets) and port. */
int hosts_split(const char *listen, char host[HOSTS_NAME], int *port, struct err *e);
/* allow: NULL-terminated, or NULL. `port` is the one that was really bound. */
int hosts_init(struct hosts *h, const char *listen, int port, const char *const *allow,
               struct err *e);
bool hosts_allowed(const struct hosts *h, const char *host_header);
bool hosts_own_origin(const char *origin, const char *host_header);
/* "127.0.0.1:8080": the address that a browser on this machine, or of the first allowed host,
 * opens. */
void hosts_address(const struct hosts *h, char *out, size_t bytes);
enum { HOSTS_LINK = 512 };
/* The same as a link that opens the page, with the code of a session to come. */
void hosts_link(const struct hosts *h, const char *code, char out[HOSTS_LINK]);

#endif
