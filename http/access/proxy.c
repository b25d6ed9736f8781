/* See proxy.h. */
#include "http/access/proxy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/text/text.h"

/* Is this a valid header name (RFC 9110, 5.6.2), and none that already has another meaning? */
static bool is_header(const char *name)
{
    static const char *const others[] = {"Host",   "Origin",         "Authorization",
                                         "Cookie", "Content-Length", "Transfer-Encoding"};
    size_t n = strspn(name,
                      "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    bool free = n > 0 && name[n] == '\0' && n < PROXY_HEADER;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        free = free && strcasecmp(name, others[i]) != 0;
    }
    return free;
}

/* Reads an address. An IPv4 address becomes the IPv6 address that maps it. */
static bool read_address(const char *text, struct in6_addr *out)
{
    char mapped[INET6_ADDRSTRLEN + 8];
    snprintf(mapped, sizeof mapped, "::ffff:%.40s", text);
    return inet_pton(AF_INET6, text, out) == 1 ||
           (!strchr(text, ':') && inet_pton(AF_INET6, mapped, out) == 1);
}

int proxy_init(struct proxy *p, const char *header, const char *role, const char *const *addresses,
               struct err *e)
{
    *p = (struct proxy){.role = auth_role_find(role ? role : "viewer")};
    if (!header) {
        return 0;
    }
    if (!is_header(header)) {
        return err_set(e, ERR_INVALID, "'%.80s' cannot be the header that has the user's name",
                       header);
    }
    if (p->role == ROLE_NONE) {
        return err_set(e, ERR_INVALID,
                       "'%.40s' is not a role, expected viewer, operator, programs or admin", role);
    }
    for (int i = 0; addresses && addresses[i]; i++) {
        if (p->n_addresses == PROXY_ADDRESSES) {
            return err_set(e, ERR_INVALID, "at most %d addresses of proxies can be named",
                           PROXY_ADDRESSES);
        }
        if (!read_address(addresses[i], &p->addresses[p->n_addresses++])) {
            return err_set(e, ERR_INVALID,
                           "'%.80s' is not the address of a proxy, such as 127.0.0.1",
                           addresses[i]);
        }
    }
    if (p->n_addresses == 0) {
        return err_set(
            e, ERR_INVALID,
            "--proxy-user-header needs --proxy-address: only requests from there are believed");
    }
    snprintf(p->header, sizeof p->header, "%s", header);
    return 0;
}

bool proxy_trusts(const struct proxy *p, const struct sockaddr *from)
{
    struct in6_addr at = IN6ADDR_ANY_INIT;
    bool found = false;
    if (from && from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
        at.s6_addr[10] = at.s6_addr[11] = 0xff;
        memcpy(&at.s6_addr[12], &v4->sin_addr, sizeof v4->sin_addr);
    } else if (from && from->sa_family == AF_INET6) {
        at = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    } else {
        return false;
    }
    for (int i = 0; i < p->n_addresses; i++) {
        found = found || memcmp(&p->addresses[i], &at, sizeof at) == 0;
    }
    return found;
}

int proxy_identify(const struct proxy *p, const char *name, struct identity *who, struct err *e)
{
    size_t n = strlen(name);
    char wrong[TEXT_WRONG];
    memset(who, 0, sizeof *who);
    if (n >= AUTH_NAME || strcspn(name, " \t") < n || text_name_wrong(wrong, name, n)) {
        return err_set(
            e, ERR_UNAUTHORIZED,
            "the proxy's %s is not a name, expected 1 to %d bytes of text without blanks",
            p->header, AUTH_NAME - 1);
    }
    who->role = p->role;
    who->by_proxy = true;
    snprintf(who->name, sizeof who->name, "%s", name);
    snprintf(who->owner, sizeof who->owner, "%s", name);
    return 0;
}
