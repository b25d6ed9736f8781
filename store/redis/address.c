/* The address of a store, taken apart: redis://[USER@]HOST[:PORT][/DB] or unix:PATH[?db=DB]. */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_db(const char *text, int *db)
{
    char *end = NULL;
    long v = strtol(text, &end, 10);
    if (end == text || *end || v < 0 || v > 100000) {
        return -1;
    }
    *db = (int)v;
    return 0;
}

static int parse_unix(struct store *s, const char *rest, struct err *e)
{
    const char *query = strchr(rest, '?');
    size_t n = query ? (size_t)(query - rest) : strlen(rest);
    if (n == 0 || n > 107) {
        return err_set(
            e, ERR_INVALID,
            "cannot use store '%s': the path of a socket has 1 to 107 bytes, this one %zu", s->url,
            n);
    }
    if (query && (strncmp(query, "?db=", 4) || parse_db(query + 4, &s->db) < 0)) {
        return err_set(e, ERR_INVALID,
                       "cannot use store '%s': after the path only ?db=NUMBER may follow", s->url);
    }
    s->is_unix = true;
    memcpy(s->address, rest, n);
    s->address[n] = 0;
    return 0;
}

static int parse_tcp(struct store *s, const char *rest, struct err *e)
{
    const char *slash = strchr(rest, '/');
    size_t n = slash ? (size_t)(slash - rest) : strlen(rest);
    char host[sizeof s->address];
    const char *sign = memchr(rest, '@', n);
    if (sign && memchr(rest, ':', (size_t)(sign - rest))) {
        err_set(e, ERR_INVALID, "cannot use this store address: it carries a password");
        err_hint(e, "give the password in a file, with --store-password-file");
        return -ERR_INVALID;
    }
    if (sign) { /* USER@: a role of Redis (docs/deployment.md) */
        if (sign == rest || (size_t)(sign - rest) >= sizeof s->user) {
            return err_set(e, ERR_INVALID,
                           "cannot use store '%s': the user's name is missing or too long", s->url);
        }
        memcpy(s->user, rest, (size_t)(sign - rest));
        n -= (size_t)(sign - rest) + 1;
        rest = sign + 1;
    }
    if (n == 0 || n >= sizeof host) {
        return err_set(e, ERR_INVALID, "cannot use store '%s': the host is missing or too long",
                       s->url);
    }
    memcpy(host, rest, n);
    host[n] = 0;
    s->port = 6379;
    char *name = host, *colon = strrchr(host, ':');
    if (host[0] == '[') { /* an IPv6 address */
        char *close = strchr(host, ']');
        if (!close || (close[1] && close[1] != ':')) {
            return err_set(e, ERR_INVALID, "cannot use store '%s': a bracket is not closed",
                           s->url);
        }
        *close = 0;
        name = host + 1;
        colon = close[1] ? close + 1 : NULL;
    }
    if (colon) {
        char *end = NULL;
        long port = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end || port < 1 || port > 65535) {
            return err_set(e, ERR_INVALID,
                           "cannot use store '%s': the port is a number from 1 to 65535", s->url);
        }
        s->port = (int)port;
        *colon = 0;
    }
    if (slash && slash[1] && parse_db(slash + 1, &s->db) < 0) {
        return err_set(e, ERR_INVALID,
                       "cannot use store '%s': after the slash comes the number of a database",
                       s->url);
    }
    snprintf(s->address, sizeof s->address, "%s", name);
    return 0;
}

int store_address(struct store *s, const char *url, struct err *e)
{
    if (!url || strlen(url) >= sizeof s->url) {
        return err_set(e, ERR_INVALID, "cannot open the store: the address is missing or too long");
    }
    snprintf(s->url, sizeof s->url, "%s", url);
    if (!strncmp(url, "unix:", 5)) {
        return parse_unix(s, url + 5, e);
    }
    if (!strncmp(url, "redis://", 8)) {
        return parse_tcp(s, url + 8, e);
    }
    return err_set(e, ERR_INVALID,
                   "cannot use store '%s': an address begins with redis:// or unix:", url);
}
