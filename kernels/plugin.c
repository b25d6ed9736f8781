/* Finding and loading the CUDA plug-in (see plugin.h). The driver is tried first: without it the
 * plug-in could do nothing, and its libraries are half a gigabyte that need not be read to learn
 * that.
 *
 * Each way to fail has its own sentence, because `auto` logs it and a user must see which it was.
 */
#include "kernels/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/path.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct plugin *loaded; /* under the lock */

static int check_driver(struct err *e)
{
    const char *named = getenv("EVENSTEP_CUDA_DRIVER"),
               *file = named && *named ? named : "libcuda.so.1";
    void *driver = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        return err_set(e, ERR_UNSUPPORTED,
                       "no GPU can be used here: there is no NVIDIA driver (%.200s)", dlerror());
    }
    return 0; /* stays open: the plug-in needs it */
}

static bool find_file(char *out, size_t out_bytes)
{
    static const char *const folders[] = {"%s/" PLUGIN_FILE, "%s/../lib/evenstep/" PLUGIN_FILE};
    const char *named = getenv("EVENSTEP_CUDA_PLUGIN");
    char folder[PATH_MAX];
    if (named && *named) {
        snprintf(out, out_bytes, "%s", named);
        return true;
    }
    path_program_dir(folder);
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        snprintf(out, out_bytes, folders[i], folder);
        if (access(out, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static const struct plugin *refuse(void *plugin, const char *file, const char *why, struct err *e)
{
    err_set(e, ERR_UNSUPPORTED,
            "no GPU can be used here: the plug-in '%.200s' is of another version than this program "
            "(%s)",
            file, why);
    dlclose(plugin);
    return NULL;
}

static const struct plugin *load(struct err *e)
{
    char file[600];
    if (check_driver(e) < 0) {
        return NULL;
    }
    if (!find_file(file, sizeof(file))) {
        err_set(e, ERR_UNSUPPORTED,
                "no GPU can be used here: the plug-in " PLUGIN_FILE " is not beside the program");
        return NULL;
    }
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        err_set(e, ERR_UNSUPPORTED,
                "no GPU can be used here: the plug-in cannot be loaded (%.300s)", dlerror());
        return NULL;
    }
    const struct plugin *plugin = dlsym(library, PLUGIN_SYMBOL);
    if (!plugin) {
        return refuse(library, file, "it has no " PLUGIN_SYMBOL, e);
    }
    if (strcmp(plugin->identity, PLUGIN_IDENTITY) != 0) {
        return refuse(library, file, "the headers that both share differ", e);
    }
    return plugin;
}

struct device *cuda_open(const char *args, struct err *e)
{
    pthread_mutex_lock(&lock);
    if (!loaded) {
        loaded = load(e);
    }
    const struct plugin *plugin = loaded;
    pthread_mutex_unlock(&lock);
    struct device *dev = plugin ? plugin->open(args, e) : NULL;
    if (!dev && e && e->code == ERR_UNSUPPORTED) {
        err_hint(e, "the device cpu:1 is everywhere");
    }
    return dev;
}
