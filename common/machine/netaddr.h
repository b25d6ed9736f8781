/* Addresses at which a request that somebody else asked for must not arrive: those of this host and
 * of its link, among them the metadata services of clouds, which answer whoever reaches them.
 *
 * Loopback (127/8, ::1), unspecified (0/8, ::), link-local (169.254/16, fe80::/10), multicast and
 * broadcast, the metadata addresses outside of those (100.100.100.200, 192.0.0.192, 168.63.129.16,
 * fd00:ec2::254, fd20:ce::254), and each that is IPv4 also within an IPv6 address (mapped, NAT64,
 * 6to4).
 */
#ifndef COMMON_MACHINE_NETADDR_H
#define COMMON_MACHINE_NETADDR_H

#include <stdbool.h>
#include <sys/socket.h>

/* Also true of what is neither IPv4 nor IPv6. */
bool netaddr_is_local(const struct sockaddr *at);
/* Is it written as such an address ("127.1", "[::1]", "2130706433"), or "localhost" or a name
 * beneath it? Other names are not looked up: false. */
bool netaddr_names_local(const char *host);

#endif
