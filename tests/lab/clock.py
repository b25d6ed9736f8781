"""A wall clock for tests that is set while programs run: a library before them adds what a file
says. What they wait for, durations and the monotonic clock stay as they are."""
import struct
import subprocess

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *off; /* seconds */

__attribute__((constructor)) static void find(void)
{
    const char *path = getenv("CLOCK_IS_OFF_BY");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    off = at == MAP_FAILED ? NULL : at;
    if (fd >= 0) {
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (rc == 0 && off && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        t->tv_sec += *off;
    }
    return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    int rc = (int)syscall(SYS_gettimeofday, t, zone);
    t->tv_sec += rc == 0 && off ? *off : 0;
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) {
        *out = t.tv_sec;
    }
    return t.tv_sec;
}
"""


class WallClock:
    """The clock of the programs that are started with its `env`, and of those that they start."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        source, library, self.file = folder / "clock.c", folder / "clock.so", folder / "off"
        source.write_text(SOURCE)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        self.file.write_bytes(struct.pack("q", 0))
        self.env = {"LD_PRELOAD": str(library), "CLOCK_IS_OFF_BY": str(self.file),
                    "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}

    def turn(self, seconds):
        """From now on it is so far ahead, or behind."""
        with open(self.file, "r+b", buffering=0) as f:
            f.write(struct.pack("q", seconds))
