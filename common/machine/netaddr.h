/* Addresses that a request on somebody else's behalf must not reach: those of this host and of its
 * link. Metadata services of clouds are among them; they answer every caller on the host.
 *
 * Local are loopback (127/8, ::1), unspecified (0/8, ::), link-local (169.254/16, fe80::/10),
 * multicast and broadcast. So are the metadata addresses outside of those ranges (100.100.100.200,
 * 192.0.0.192, 168.63.129.16, fd00:ec2::254, fd20:ce::254), and IPv6 addresses that embed such an
 * IPv4 address (mapped, NAT64, 6to4).
 */
#ifndef COMMON_MACHINE_NETADDR_H
#define COMMON_MACHINE_NETADDR_H

#include <stdbool.h>
#include <sys/socket.h>

/* True also for addresses that are neither IPv4 nor IPv6. */
bool netaddr_is_local(const struct sockaddr *at);
/* Does `host` spell such an address ("127.1", "[::1]", "2130706433"), or is it "localhost" or a
 * name beneath it? Does not look up other names, and returns false for them. */
bool netaddr_names_local(const char *host);

#endif
