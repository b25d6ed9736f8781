/* What this host is, and how busy it is. */
#ifndef COMMON_MACHINE_HOST_H
#define COMMON_MACHINE_HOST_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

int host_cores(void);    /* that this process may use: affinity and CPU quota */
double host_quota(void); /* CPUs that its control groups allow; 0: no limit */
/* Name of this host without domain, fit for Open MPI (no '_'). */
void host_name(char out[48]);
/* {"openmpi": "4.1.4", "evenstep": …}. ERR_NOT_FOUND where there is no mpirun. */
json_t *host_versions(struct err *e);
/* The part after redis:// or rediss:// of a store's address; NULL: it has neither. */
const char *host_of_redis(const char *url);
/* The address on `subnet` (CIDR, or an interface's name, or NULL: the one from which store_url is
 * reached), and its network in CIDR. */
int host_address(const char *subnet, const char *store_url, char address[64], char network[72],
                 struct err *e);

/* The same for the interface from which `host` is reached. */
int host_towards(const char *host, const char *port, char address[64], char network[72],
                 struct err *e);

/* The next "NAME=value" for the environment of Open MPI's programs, from *i = 0; NULL after the
 * last. Variables that our own environment has are left as they are. Without HWLOC_COMPONENTS,
 * mpirun and each rank read the PCI bus, load OpenCL and try ten displays of X, by which Open MPI
 * would tell a network device's distance. Without PMIX_MCA_gds, mpirun writes to a file of some
 * megabytes what its ranks have to know (docs/decisions/0083). */
const char *host_openmpi(size_t *i);

/* CPU seconds of all processors since the machine booted: used, and in total. */
void host_cpu_read(double *used, double *all);
/* Load since the last call: {"cpu", "load1", "cores", "quota", "memory_bytes",
 * "memory_free_bytes"}. */
struct host_load {
    long long busy, total; /* at the previous call */
};
json_t *host_load_read(struct host_load *l);

/* One or two free ports of "FIRST-LAST" ("20000,20001"), for Open MPI's daemons. A daemon occupies
 * every port of its range, so the whole range would leave none for ranks and other jobs. There are
 * two because another process may take one meanwhile. The search begins at a port derived from
 * `salt`. */
int host_free_ports(const char *range, const char *salt, char out[16], struct err *e);

#endif
