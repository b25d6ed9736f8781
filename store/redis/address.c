/* Parses the address of a store: redis://[USER@]HOST[:PORT][/DB], the same with rediss:// for TLS,
 * which may end in ?ca=FILE&cert=FILE&key=FILE, or unix:PATH[?db=DB]. */
#include "store/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine/host.h"

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

/* Parses USER@ before a host: a role of Redis (docs/deployment.md). *rest moves past it. */
static int parse_user(struct store *s, const char **rest, size_t *n, struct err *e)
{
    const char *sign = memchr(*rest, '@', *n);
    if (sign && memchr(*rest, ':', (size_t)(sign - *rest))) {
        err_set(e, ERR_INVALID, "cannot use this store address: it carries a password");
        err_hint(e, "give the password in a file, with --store-password-file");
        return -ERR_INVALID;
    }
    if (sign && (sign == *rest || (size_t)(sign - *rest) >= sizeof s->user)) {
        return err_set(e, ERR_INVALID,
                       "cannot use store '%s': the user's name is missing or too long", s->url);
    }
    if (sign) {
        memcpy(s->user, *rest, (size_t)(sign - *rest));
        *n -= (size_t)(sign - *rest) + 1;
        *rest = sign + 1;
    }
    return 0;
}

/* Parses HOST[:PORT]; `host` is a copy of it. */
static int parse_host(struct store *s, char *host, struct err *e)
{
    char *name = host, *colon = strrchr(host, ':');
    s->port = 6379;
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
    snprintf(s->address, sizeof s->address, "%s", name);
    return 0;
}

/* Parses NAME=FILE, n bytes, of the files for TLS. */
static int parse_file(struct store *s, const char *text, size_t n, struct err *e)
{
    static const char *const names[] = {"ca=", "cert=", "key="};
    char *files[] = {s->tls.ca, s->tls.cert, s->tls.key};
    for (int i = 0; i < 3; i++) {
        size_t skip = strlen(names[i]);
        if (n <= skip || strncmp(text, names[i], skip) != 0) {
            continue;
        }
        if (n - skip >= sizeof s->tls.ca) {
            return err_set(e, ERR_INVALID, "cannot use store '%s': the path of a file is too long",
                           s->url);
        }
        memcpy(files[i], text + skip, n - skip);
        files[i][n - skip] = 0;
        return 0;
    }
    return err_set(e, ERR_INVALID,
                   "cannot use store '%s': only ca=FILE, cert=FILE and key=FILE may follow '?'",
                   s->url);
}

/* Behind '?'. */
static int parse_files(struct store *s, const char *query, struct err *e)
{
    if (!s->tls.on) {
        err_set(e, ERR_INVALID, "cannot use store '%s': it has no TLS, and so no files for it",
                s->url);
        return err_hint(e, "rediss:// is Redis with TLS");
    }
    while (*query) {
        size_t n = strcspn(query, "&");
        if (parse_file(s, query, n, e) < 0) {
            return -ERR_INVALID;
        }
        query += n + (query[n] ? 1 : 0);
    }
    return !s->tls.cert[0] == !s->tls.key[0]
               ? 0
               : err_set(e, ERR_INVALID,
                         "cannot use store '%s': a certificate and its key come together", s->url);
}

static int parse_tcp(struct store *s, const char *rest, struct err *e)
{
    char host[sizeof s->address], db[16] = "";
    size_t n = strcspn(rest, "/?"), behind = strcspn(rest + n, "?");
    const char *query = rest[n + behind] ? rest + n + behind + 1 : "";
    snprintf(db, sizeof db, "%.*s", behind > 0 ? (int)behind - 1 : 0, rest + n + 1);
    if (parse_user(s, &rest, &n, e) < 0) {
        return -ERR_INVALID;
    }
    if (n == 0 || n >= sizeof host) {
        return err_set(e, ERR_INVALID, "cannot use store '%s': the host is missing or too long",
                       s->url);
    }
    memcpy(host, rest, n);
    host[n] = 0;
    if (parse_host(s, host, e) < 0) {
        return -ERR_INVALID;
    }
    if (db[0] && parse_db(db, &s->db) < 0) {
        return err_set(e, ERR_INVALID,
                       "cannot use store '%s': after the slash comes the number of a database",
                       s->url);
    }
    return *query ? parse_files(s, query, e) : 0;
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
    const char *rest = host_of_redis(url);
    if (rest) {
        s->tls.on = url[5] == 's';
        return parse_tcp(s, rest, e);
    }
    return err_set(
        e, ERR_INVALID,
        "cannot use store '%s': an address begins with redis://, rediss:// or unix:", url);
}
