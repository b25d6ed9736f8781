/* Addresses of this host and its link; see netaddr.h. */
#include "common/machine/netaddr.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 256 };

struct range {
    uint32_t address;
    int bits;
};

static bool is_local_v4(uint32_t a)
{
    static const struct range ranges[] = {
        {0x00000000, 8},  /* 0/8: this network */
        {0x7f000000, 8},  /* loopback */
        {0xa9fe0000, 16}, /* link-local, metadata of most clouds */
        {0xe0000000, 3},  /* multicast, reserved, broadcast */
        {0x646464c8, 32}, /* 100.100.100.200: metadata */
        {0xc00000c0, 32}, /* 192.0.0.192: metadata */
        {0xa83f8110, 32}, /* 168.63.129.16: metadata */
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if ((a ^ ranges[i].address) >> (32 - ranges[i].bits) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t v4_at(const unsigned char *a)
{
    return (uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | (uint32_t)a[3];
}

static bool is_local_v6(const unsigned char a[16])
{
    static const unsigned char zeros[12] = {0}, mapped[12] = {[10] = 0xff, [11] = 0xff},
                               translated[12] = {0x00, 0x64, 0xff, 0x9b},
                               metadata[][16] = {
                                   {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54},
                                   {0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54}};
    bool holds_v4 =
        memcmp(a, zeros, 12) == 0 || memcmp(a, mapped, 12) == 0 || memcmp(a, translated, 12) == 0;
    bool six_to_four = a[0] == 0x20 && a[1] == 0x02; /* a router's IPv4 address follows */
    return a[0] == 0xff || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) ||
           memcmp(a, metadata[0], 16) == 0 || memcmp(a, metadata[1], 16) == 0 ||
           (holds_v4 && is_local_v4(v4_at(a + 12))) || (six_to_four && is_local_v4(v4_at(a + 2)));
}

bool netaddr_is_local(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, at, sizeof v4);
        return is_local_v4(ntohl(v4.sin_addr.s_addr));
    }
    if (at->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, at, sizeof v6);
        return is_local_v6(v6.sin6_addr.s6_addr);
    }
    return true;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

bool netaddr_names_local(const char *host)
{
    char name[NAME_BYTES];
    struct addrinfo ask = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found = NULL;
    size_t n = strlen(host);
    bool bracketed = n > 1 && host[0] == '[' && host[n - 1] == ']';
    snprintf(name, sizeof name, "%.*s", (int)(bracketed ? n - 2 : n), host + bracketed);
    if (n > 0 && name[strlen(name) - 1] == '.') {
        name[strlen(name) - 1] = '\0';
    }
    if (strcasecmp(name, "localhost") == 0 || ends_in(name, ".localhost")) {
        return true;
    }
    bool local = getaddrinfo(name, NULL, &ask, &found) == 0 && netaddr_is_local(found->ai_addr);
    if (found) {
        freeaddrinfo(found);
    }
    return local;
}
