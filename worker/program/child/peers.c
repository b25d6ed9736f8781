/* Where programs meet: see peers.h. Rank 0 listens on the network that Open MPI uses, within the
 * ports that it may use; where all ranks are on one host, on the loopback interface. */
#include "worker/program/child/peers.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/machine/host.h"
#include "common/sign.h"

static int number_of(const char *variable)
{
    const char *value = getenv(variable);
    return value ? (int)strtol(value, NULL, 10) : 0;
}

/* Any port, or the first free one of Open MPI's, from the last one down: it begins with the first.
 */
static int bind_port(int fd, const char *address, struct err *e)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    int first = number_of("OMPI_MCA_btl_tcp_port_min_v4"),
        count = number_of("OMPI_MCA_btl_tcp_port_range_v4");
    for (int port = first ? first + count - 1 : 0; port >= first; port--) {
        struct addrinfo *at = NULL;
        char text[12];
        snprintf(text, sizeof(text), "%d", port);
        int rc = getaddrinfo(address, text, &hints, &at);
        rc = rc == 0 ? bind(fd, at->ai_addr, at->ai_addrlen) : -1;
        freeaddrinfo(at);
        if (rc == 0) {
            return 0;
        }
    }
    return err_errno(e, ERR_IO, "cannot listen on %s for the programs of other ranks", address);
}

static int port_of(int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof(at);
    char port[12] = "0";
    if (getsockname(fd, (struct sockaddr *)&at, &n) == 0) {
        getnameinfo((struct sockaddr *)&at, n, NULL, 0, port, sizeof(port), NI_NUMERICSERV);
    }
    return (int)strtol(port, NULL, 10);
}

static int listen_here(struct peers *p, struct comm *c, struct err *e)
{
    const char *subnet = getenv("OMPI_MCA_btl_tcp_if_include");
    char network[72];
    struct sign_key random;
    int rc = sign_random(&random, e);
    sign_hex(&random, p->key);
    snprintf(p->address, sizeof(p->address), "127.0.0.1");
    if (rc == 0 && c->remote[COMM_ALL] && subnet) {
        rc = host_address(subnet, "", p->address, network, e);
    }
    if (rc < 0) {
        return rc;
    }
    int family = strchr(p->address, ':') ? AF_INET6 : AF_INET;
    p->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->listener < 0 || (rc = bind_port(p->listener, p->address, e)) < 0 ||
        listen(p->listener, c->workers) != 0) {
        return rc < 0 ? rc : err_errno(e, ERR_IO, "cannot listen for other ranks' programs");
    }
    p->port = port_of(p->listener);
    return 0;
}

int peers_open(struct peers *p, struct comm *c, struct err *e)
{
    *p = (struct peers){.listener = -1};
    int rc = c->rank == 0 ? listen_here(p, c, e) : 0, listener = p->listener;
    if (rc < 0) {
        return rc;
    }
    rc = comm_broadcast(c, 0, p, sizeof(*p), e);
    p->listener = listener;
    return rc < 0 ? rc : 0;
}

void peers_close(struct peers *p)
{
    if (p->listener >= 0) {
        close(p->listener);
    }
    *p = (struct peers){.listener = -1};
}
