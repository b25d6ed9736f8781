/* Names and paths that cannot leave their folder, whatever is in it; see files.h. */
#include <string.h>

#include "http/content/files.h"

bool files_safe_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 200 || name[0] == '.' || strpbrk(name, "/\\\"")) {
        return false;
    }
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c == 0x7f) {
            return false;
        }
    }
    return true;
}

bool files_safe_path(const char *path)
{
    char part[256];
    if (*path != '/') {
        return false;
    }
    while (*path) {
        size_t n = strcspn(++path, "/");
        if (n >= sizeof(part)) {
            return false;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        if (!files_safe_name(part)) {
            return false;
        }
        path += n;
    }
    return true;
}
