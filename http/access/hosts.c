/* Host and Origin, checked as docs/security.md#http asks; see hosts.h. Names compare without regard
 * to case. "localhost" is ours only when we listen on loopback or on every address.
 */
#include "http/access/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Splits "host", "host:port", "[v6]" or "[v6]:port"; port -1 if there is none. false: it is none of
 * these. */
static bool cut(const char *text, char host[HOSTS_NAME], int *port)
{
    const char *end, *start = text;
    if (*text == '[') {
        start = text + 1;
        end = strchr(start, ']');
        if (!end) {
            return false;
        }
    } else {
        end = text + strcspn(text, ":");
    }
    size_t n = (size_t)(end - start);
    if (n == 0 || n >= HOSTS_NAME) {
        return false;
    }
    memcpy(host, start, n);
    host[n] = '\0';
    if (*end == ']') {
        end++;
    }
    *port = -1;
    if (*end == '\0') {
        return true;
    }
    if (*end != ':') {
        return false;
    }
    size_t digits = strspn(end + 1, "0123456789");
    if (digits == 0 || digits > 5 || end[1 + digits] != '\0') {
        return false;
    }
    *port = (int)strtol(end + 1, NULL, 10);
    return *port <= 65535;
}

int hosts_split(const char *listen, char host[HOSTS_NAME], int *port, struct err *e)
{
    if (!cut(listen, host, port) || *port < 0) {
        err_set(e, ERR_INVALID, "cannot listen on '%s': it is not ADDRESS:PORT", listen);
        return err_hint(e, "for example 127.0.0.1:8080, or [::1]:8080");
    }
    return 0;
}

int hosts_init(struct hosts *h, const char *listen, int port, const char *const *allow,
               struct err *e)
{
    int asked;
    memset(h, 0, sizeof(*h));
    if (hosts_split(listen, h->listen, &asked, e) < 0) {
        return -(int)ERR_INVALID;
    }
    h->port = port;
    for (; allow && *allow; allow++) {
        char name[HOSTS_NAME];
        int name_port;
        if (h->n_allowed == HOSTS_MAX || !cut(*allow, name, &name_port)) {
            return err_set(e, ERR_INVALID, "cannot allow host '%s': %s", *allow,
                           h->n_allowed == HOSTS_MAX ? "there are too many"
                                                     : "it is not NAME or NAME:PORT");
        }
        snprintf(h->allowed[h->n_allowed++], HOSTS_NAME, "%s", *allow);
    }
    return 0;
}

static bool is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* Is it an address, not a name? 127.evil.example is a name. */
static bool is_digits(const char *host)
{
    unsigned char address[16];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (strncmp(host, "127.", 4) == 0 && is_digits(host));
}

/* The port of a Host header, which leaves out that of its scheme. */
static int port_or_usual(const struct hosts *h, int port)
{
    return port >= 0 ? port : h->tls ? 443 : 80;
}

bool hosts_allowed(const struct hosts *h, const char *host_header)
{
    char host[HOSTS_NAME];
    int port;
    if (!host_header || !cut(host_header, host, &port)) {
        return false;
    }
    for (int i = 0; i < h->n_allowed; i++) {
        char name[HOSTS_NAME];
        int name_port;
        if (cut(h->allowed[i], name, &name_port) && strcasecmp(name, host) == 0 &&
            (name_port < 0 || name_port == port_or_usual(h, port))) {
            return true;
        }
    }
    if (port_or_usual(h, port) != h->port) {
        return false;
    }
    if (strcasecmp(host, h->listen) == 0) {
        return true;
    }
    if (is_wildcard(h->listen)) {
        return is_digits(host) || is_loopback(host);
    }
    return is_loopback(h->listen) && (strcasecmp(host, "localhost") == 0 ||
                                      strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0);
}

bool hosts_own_origin(const char *origin, const char *host_header)
{
    if (!origin || !host_header) {
        return false;
    }
    if (strncmp(origin, "http://", 7) == 0) {
        return strcasecmp(origin + 7, host_header) == 0;
    }
    return strncmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host_header) == 0;
}

void hosts_address(const struct hosts *h, char *out, size_t bytes)
{
    char host[HOSTS_NAME];
    int port;
    if (is_wildcard(h->listen) && h->n_allowed > 0 && cut(h->allowed[0], host, &port)) {
        snprintf(out, bytes, "%s:%d", host, port < 0 ? h->port : port);
    } else if (is_wildcard(h->listen)) {
        snprintf(out, bytes, "127.0.0.1:%d", h->port);
    } else {
        snprintf(out, bytes, strchr(h->listen, ':') ? "[%s]:%d" : "%s:%d", h->listen, h->port);
    }
}

void hosts_link(const struct hosts *h, const char *code, char out[HOSTS_LINK])
{
    char address[HOSTS_NAME + 16];
    hosts_address(h, address, sizeof(address));
    snprintf(out, HOSTS_LINK, "%s://%s/#token=%s", h->tls ? "https" : "http", address, code);
}
