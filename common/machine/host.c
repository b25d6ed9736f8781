/* What this host is: see host.h. In a container, the machine's figures are not those of the
 * process. Affinity and the control group's CPU quota (both versions of cgroup) take precedence, or
 * `auto` would start 64 threads on half a core. For memory, see memory.h.
 */
#include "common/machine/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <math.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/machine/groups.h"
#include "common/machine/memory.h"
#include "common/process/proc.h"
#include "common/version.h"

/* ---- what Open MPI need not do --------------------------------------------------------------- */

/* 0x38: removes PCI, I/O and miscellaneous from what hwloc reads of Linux; processors and memory
 * stay */
static const char *const openmpi[] = {
    "HWLOC_COMPONENTS=-linux:0x38,-pci,-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero",
    "PMIX_MCA_gds=hash"};

const char *host_openmpi(size_t *i)
{
    while (*i < sizeof openmpi / sizeof *openmpi) {
        const char *pair = openmpi[(*i)++];
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(pair, "="), pair);
        if (!getenv(name)) {
            return pair;
        }
    }
    return NULL;
}

/* ---- processor and memory -------------------------------------------------------------------- */

double host_quota(void)
{
    return group_cpu_quota("/proc", "/sys/fs/cgroup", NULL);
}

int host_cores(void)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);
    double quota = host_quota();
    if (quota > 0 && ceil(quota) < (double)n) {
        n = (long)ceil(quota);
    }
    return n > 0 ? (int)n : 1;
}

/* Busy jiffies and all jiffies of the machine. */
static void read_cpu(long long *busy, long long *total)
{
    char *text = proc_read_file("/proc/stat", 1 << 20, NULL, NULL),
         *at = text && strncmp(text, "cpu ", 4) == 0 ? text + 4 : NULL, *end;
    *busy = *total = 0;
    for (int field = 0; at && field < 8; field++) {
        long long v = strtoll(at, &end, 10);
        if (end == at) {
            break;
        }
        *total += v;
        *busy += field == 3 || field == 4 ? 0 : v; /* idle, iowait */
        at = end;
    }
    free(text);
}

void host_cpu_read(double *used, double *all)
{
    long long busy, total;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    read_cpu(&busy, &total);
    *used = (double)busy / ticks;
    *all = (double)total / ticks;
}

json_t *host_load_read(struct host_load *l)
{
    long long busy, total;
    double load[1] = {0};
    struct memory memory = memory_read();
    read_cpu(&busy, &total);
    double share =
        l->total && total > l->total ? (double)(busy - l->busy) / (double)(total - l->total) : 0;
    l->busy = busy;
    l->total = total;
    if (getloadavg(load, 1) != 1) {
        load[0] = 0;
    }
    return json_pack("{s:f, s:f, s:i, s:f, s:I, s:I}", "cpu", floor(share * 1000 + 0.5) / 1000,
                     "load1", load[0], "cores", host_cores(), "quota", host_quota(), "memory_bytes",
                     (json_int_t)memory.limit, "memory_free_bytes", (json_int_t)memory.room);
}

/* ---- names and versions ---------------------------------------------------------------------- */

void host_name(char out[48])
{
    char full[256] = "";
    size_t n = 0;
    if (gethostname(full, sizeof full - 1) != 0 || !full[0]) {
        snprintf(full, sizeof full, "localhost");
    }
    for (const char *h = full; *h && *h != '.' && n < 39; h++) {
        bool plain =
            (*h >= 'a' && *h <= 'z') || (*h >= 'A' && *h <= 'Z') || (*h >= '0' && *h <= '9');
        if (plain || n > 0) {
            out[n++] = plain ? *h : '-';
        }
    }
    out[n] = 0;
    if (n == 0) {
        snprintf(out, 48, "host");
    }
}

json_t *host_versions(struct err *e)
{
    const char *argv[] = {"mpirun", "--version", NULL};
    char text[512];
    int code = proc_output(argv, 20, text, sizeof text, e);
    const char *at = strstr(text, "(Open MPI) ");
    if (code < 0 || !at) {
        err_set(e, ERR_NOT_FOUND,
                "cannot find Open MPI: 'mpirun --version' does not tell its version");
        err_hint(e, "install Open MPI (package openmpi-bin), the same version on every host");
        return NULL;
    }
    at += strlen("(Open MPI) ");
    return json_pack("{s:s, s:s%, s:i}", "evenstep", EVENSTEP_VERSION, "openmpi", at,
                     (int)strcspn(at, " \n"), "protocol", EVENSTEP_PROTOCOL);
}

/* ---- address --------------------------------------------------------------------------------- */

/* The source address of datagrams to host:port. Sends nothing. */
static int address_towards(const char *host, const char *port, struct sockaddr_storage *out,
                           struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    int rc = getaddrinfo(host, port, &hints, &list), found = -1;
    if (rc != 0) {
        return err_set(e, ERR_UNAVAILABLE, "cannot find the address of '%s': %s", host,
                       gai_strerror(rc));
    }
    for (struct addrinfo *a = list; a && found < 0; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        socklen_t n = sizeof *out;
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
            getsockname(fd, (struct sockaddr *)out, &n) == 0) {
            found = 0;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    freeaddrinfo(list);
    return found == 0 ? 0 : err_set(e, ERR_UNAVAILABLE, "this host has no route to '%s'", host);
}

const char *host_of_redis(const char *url)
{
    static const char *const schemes[] = {"redis://", "rediss://"};
    for (int i = 0; i < 2; i++) {
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0) {
            return url + strlen(schemes[i]);
        }
    }
    return NULL;
}

/* Splits "redis://HOST:PORT/0" into host and port; false: it is a socket of this machine. */
static bool split_store(const char *url, char host[256], char port[8])
{
    const char *at = host_of_redis(url);
    if (!at) {
        return false;
    }
    const char *user = memchr(at, '@', strcspn(at, "/?"));
    at = user ? user + 1 : at;
    size_t n = strcspn(at, "/?");
    snprintf(host, 256, "%.*s", (int)n, at);
    snprintf(port, 8, "6379");
    char *colon = strrchr(host, ':'), *close = strrchr(host, ']');
    if (colon && (!close || colon > close)) {
        snprintf(port, 8, "%.7s", colon + 1);
        *colon = 0;
    }
    if (host[0] == '[' && close) {
        *close = 0;
        memmove(host, host + 1, strlen(host));
    }
    return true;
}

static const unsigned char *bytes_of(const struct sockaddr *a, int *n)
{
    if (a->sa_family == AF_INET) {
        *n = 4;
        return (const unsigned char *)&((const struct sockaddr_in *)(const void *)a)->sin_addr;
    }
    *n = 16;
    return (const unsigned char *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
}

static bool same_bits(const unsigned char *a, const unsigned char *b, int bits)
{
    for (int i = 0; i < bits; i++) {
        if (((a[i / 8] ^ b[i / 8]) >> (7 - i % 8)) & 1) {
            return false;
        }
    }
    return true;
}

static int prefix_of(const struct sockaddr *mask)
{
    int n = 0, bits = 0;
    const unsigned char *b = mask ? bytes_of(mask, &n) : NULL;
    for (int i = 0; b && i < 8 * n && (b[i / 8] >> (7 - i % 8) & 1); i++) {
        bits++;
    }
    return bits;
}

struct wanted {
    const char *interface; /* or NULL: compare the first `bits` bits of the address */
    int family, bits;
    unsigned char bytes[16];
};

static int read_wanted(const char *subnet, struct wanted *w, struct err *e)
{
    char copy[80];
    snprintf(copy, sizeof copy, "%s", subnet);
    char *slash = strchr(copy, '/');
    if (!slash && if_nametoindex(copy)) {
        w->interface = subnet;
        return 0;
    }
    if (slash) {
        *slash = 0;
    }
    w->family = strchr(copy, ':') ? AF_INET6 : AF_INET;
    int most = w->family == AF_INET ? 32 : 128;
    w->bits = slash ? (int)strtol(slash + 1, NULL, 10) : most;
    if (inet_pton(w->family, copy, w->bytes) != 1 || w->bits < 1 || w->bits > most) {
        return err_set(
            e, ERR_INVALID,
            "--interface '%s': expected a subnet such as 10.0.0.0/24 or the name of an interface",
            subnet);
    }
    return 0;
}

static bool fits(const struct ifaddrs *i, const struct wanted *w)
{
    int n;
    if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) {
        return false;
    }
    if (w->interface) {
        return strcmp(i->ifa_name, w->interface) == 0 && i->ifa_addr->sa_family == AF_INET;
    }
    return i->ifa_addr->sa_family == w->family &&
           same_bits(bytes_of(i->ifa_addr, &n), w->bytes, w->bits);
}

/* Address and network of the first matching interface. */
static int find_interface(const struct wanted *w, char address[64], char network[72],
                          const char *named, struct err *e)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) {
        return err_errno(e, ERR_IO, "cannot list the interfaces");
    }
    int rc = err_set(e, ERR_NOT_FOUND, "no interface of this host is in '%s'", named);
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (fits(i, w)) {
            int n, bits = prefix_of(i->ifa_netmask);
            unsigned char net[16] = {0};
            char text[64];
            const unsigned char *b = bytes_of(i->ifa_addr, &n);
            for (int k = 0; k < bits; k++) {
                net[k / 8] |= (unsigned char)(b[k / 8] & (0x80 >> k % 8));
            }
            /* as pods have it; Open MPI 4 shifts by 32 then, and takes every interface for its own,
             * the loopback too */
            if (n == 4 && bits == 32) {
                bits = 31;
                net[3] &= 0xfe;
            }
            inet_ntop(i->ifa_addr->sa_family, b, address, 64);
            inet_ntop(i->ifa_addr->sa_family, net, text, sizeof text);
            snprintf(network, 72, "%s/%d", text, bits);
            err_clear(e);
            rc = 0;
            break;
        }
    }
    freeifaddrs(list);
    return rc;
}

int host_towards(const char *host, const char *port, char address[64], char network[72],
                 struct err *e)
{
    struct sockaddr_storage from = {.ss_family = AF_INET};
    struct wanted w = {0};
    int n, rc = address_towards(host, port, &from, e);
    if (rc < 0) {
        return rc;
    }
    const unsigned char *b = bytes_of((struct sockaddr *)&from, &n);
    w.family = from.ss_family;
    w.bits = 8 * n;
    memcpy(w.bytes, b, (size_t)n);
    return find_interface(&w, address, network, host, e);
}

int host_address(const char *subnet, const char *store_url, char address[64], char network[72],
                 struct err *e)
{
    struct wanted w = {0};
    char host[256], port[8];
    if (!subnet) {
        bool remote = split_store(store_url, host, port);
        return host_towards(remote ? host : "127.0.0.1", remote ? port : "6379", address, network,
                            e);
    }
    int rc = read_wanted(subnet, &w, e);
    if (rc < 0) {
        return rc;
    }
    return find_interface(&w, address, network, subnet, e);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static bool port_is_free(int port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_ANY)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0) {
        return false;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool is = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return is;
}

int host_free_ports(const char *range, const char *salt, char out[16], struct err *e)
{
    char *end = NULL;
    unsigned hash = 5381;
    long first = strtol(range, &end, 10),
         n = (*end == '-' ? strtol(end + 1, NULL, 10) : first) - first + 1;
    int found = 0;
    for (; *salt; salt++) {
        hash = hash * 33 + (unsigned char)*salt;
    }
    out[0] = 0;
    for (long i = 0; i < n && found < 2; i++) {
        int port = (int)(first + (long)((hash + (unsigned long)i) % (unsigned long)n));
        if (port_is_free(port)) {
            size_t at = strlen(out);
            snprintf(out + at, 16 - at, "%s%d", found++ ? "," : "", port);
        }
    }
    return found ? 0
                 : err_set(e, ERR_UNAVAILABLE, "no port of --mpi-ports %s is free on this host",
                           range);
}
