/* Folders that are nobody's project: see refusals.h. */
#include "cli/run/refusals.h"

#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* With what is beneath them, but for what people keep there. */
static const char *const systems[] = {"/bin",    "/boot", "/etc",  "/lib", "/lib32", "/lib64",
                                      "/libx32", "/proc", "/sbin", "/sys", "/usr"};
static const char *const peoples[] = {"/usr/local", "/usr/src"};
/* Themselves, and not what is beneath them. */
static const char *const tops[] = {"/",    "/dev",       "/home",    "/media",     "/mnt",
                                   "/opt", "/run",       "/srv",     "/usr/local", "/usr/src",
                                   "/var", "/var/cache", "/var/lib", "/var/log",   "/var/spool"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_one_of(const char *folder, const char *const *list, size_t n, bool beneath)
{
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(list[i]);
        if (strncmp(folder, list[i], length) == 0 &&
            (!folder[length] || (beneath && folder[length] == '/'))) {
            return true;
        }
    }
    return false;
}

static bool is_real(const char *folder, const char *named)
{
    char real[PATH_MAX];
    return named && realpath(named, real) && strcmp(real, folder) == 0;
}

/* HOME may name another user's, under sudo. */
static bool is_home(const char *folder)
{
    const struct passwd *who = getpwuid(getuid());
    return is_real(folder, getenv("HOME")) || (who && is_real(folder, who->pw_dir));
}

/* Is it one of PATH? */
static bool has_commands(const char *folder)
{
    char one[PATH_MAX];
    bool found = false;
    for (const char *at = getenv("PATH"); at && !found;) {
        size_t n = strcspn(at, ":");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        found = n > 0 && is_real(folder, one);
        at = at[n] ? at + n + 1 : NULL;
    }
    return found;
}

const char *refusal_of_folder(const char *folder)
{
    struct stat st;
    bool system = is_one_of(folder, systems, COUNT(systems), true) &&
                  !is_one_of(folder, peoples, COUNT(peoples), true);
    if (is_home(folder)) {
        return "it is the home folder";
    }
    if (system || is_one_of(folder, tops, COUNT(tops), false)) {
        return "it is the system's";
    }
    if (stat(folder, &st) == 0 && (st.st_mode & S_ISVTX)) {
        return "everybody may write there";
    }
    return has_commands(folder) ? "it is one of PATH" : NULL;
}

const char *refusal_of_program(const char *file)
{
    static const char elf[] = "\177ELF";
    char first[4] = {0};
    FILE *f = fopen(file, "re");
    size_t n = f ? fread(first, 1, sizeof first, f) : 0;
    if (!f) {
        return NULL;
    }
    fclose(f);
    return (n >= 2 && memcmp(first, "#!", 2) == 0) || (n == 4 && memcmp(first, elf, 4) == 0)
               ? NULL
               : "it is neither a script, whose first line names its interpreter (#!/bin/sh), nor "
                 "an executable of Linux";
}
