/* The one program of a bundle that needs nothing. It is linked statically and stands in bin/ under
 * every program's name. It tells the real programs (libexec/) where libraries and Open MPI's parts
 * are, wherever the folder has been moved to, and becomes the one whose name it was called by.
 *
 * Libraries are 68 MiB, 38 of them oneDNN, and pack to less than half: the larger ones travel
 * packed, and the first start of anything unpacks them. Two may start at once, and a start may be
 * killed; so each is written under a name of its own and renamed, and that all is there is written
 * down last.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { PATH_ROOM = PATH_MAX + 512 };

static _Noreturn void fail(const char *what, const char *subject)
{
    fprintf(stderr, "evenstep: cannot %s '%s': %s\n", what, subject, strerror(errno));
    exit(1);
}

/* packed: …/NAME.gz. The result has the same name without the end. */
static void unpack_one(const char *packed)
{
    char own[PATH_ROOM + 32];
    static char path[PATH_ROOM], buffer[1 << 18];
    snprintf(path, sizeof path, "%.*s", (int)strlen(packed) - 3, packed);
    snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
    gzFile from = gzopen(packed, "rb");
    FILE *to = fopen(own, "wb");
    int n = 0;
    if (!to) {
        fprintf(stderr,
                "evenstep: the first start of a bundle unpacks libraries into its folder, "
                "and must be its owner's\n");
        fail("write", own);
    }
    while (from && (n = gzread(from, buffer, sizeof buffer)) > 0) {
        if (fwrite(buffer, 1, (size_t)n, to) != (size_t)n) {
            unlink(own);
            fail("write", own);
        }
    }
    if (!from || n < 0 || gzclose(from) != Z_OK || fclose(to) != 0 || rename(own, path) != 0) {
        unlink(own);
        fail("unpack", packed);
    }
}

static void unpack(const char *home)
{
    char lib[PATH_MAX + 16], done[PATH_MAX + 32], packed[PATH_ROOM];
    snprintf(lib, sizeof lib, "%s/lib", home);
    snprintf(done, sizeof done, "%s/unpacked", lib);
    if (access(done, F_OK) == 0) {
        return;
    }
    DIR *d = opendir(lib);
    if (!d) {
        fail("read", lib);
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        size_t n = strlen(entry->d_name);
        if (n > 3 && strcmp(entry->d_name + n - 3, ".gz") == 0) {
            snprintf(packed, sizeof packed, "%s/%s", lib, entry->d_name);
            unpack_one(packed);
        }
    }
    closedir(d);
    FILE *f = fopen(done, "wb");
    if (!f || fclose(f) != 0) {
        fail("write", done);
    }
}

/* NAME=home/rest, with :what-it-was behind it if `keep`. */
static void put(const char *name, const char *home, const char *rest, int keep)
{
    const char *was = getenv(name);
    size_t bytes = strlen(home) + strlen(rest) + (was ? strlen(was) : 0) + 3;
    char *value = malloc(bytes);
    if (!value) {
        fail("set", name);
    }
    snprintf(value, bytes, "%s%s%s%s", home, rest, keep && was && *was ? ":" : "",
             keep && was ? was : "");
    setenv(name, value, 1);
}

int main(int argc, char **argv)
{
    char home[PATH_MAX], program[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", home, sizeof home - 1);
    if (n <= 0 || argc < 1) {
        fail("find", "/proc/self/exe");
    }
    home[n] = 0;
    for (int up = 0; up < 2; up++) { /* …/bin/NAME */
        char *slash = strrchr(home, '/');
        *(slash ? slash : home) = 0;
    }
    unpack(home);
    put("LD_LIBRARY_PATH", home, "/lib", 1);
    put("PATH", home, "/libexec", 1);
    put("OPAL_PREFIX", home, "", 0);
    put("PMIX_PKGLIBDIR", home, "/lib/pmix", 0);
    /* Open MPI looks for ssh even where it starts nothing elsewhere */
    setenv("OMPI_MCA_plm_rsh_agent", "evenstep-launch", 0);
    const char *name = strrchr(argv[0], '/');
    snprintf(program, sizeof program, "%s/libexec/%s", home, name ? name + 1 : argv[0]);
    execv(program, argv);
    fail("start", program);
}
