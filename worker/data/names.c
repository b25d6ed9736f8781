/* Names of classes: of pictures the names of their folders, else the lines of a file in the data
 * set's folder (classes.txt, or CIFAR's own). */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "common/process/proc.h"
#include "worker/data/dataset.h"
#include "worker/data/images/folders.h"

/* NULL: there are fewer than `classes`. */
static json_t *folder_names(const char *dir, int classes)
{
    struct folders f;
    if (folders_read(&f, dir, NULL) < 0) {
        return NULL;
    }
    json_t *names = f.n_classes >= classes ? json_array() : NULL;
    for (int i = 0; names && i < f.n_classes; i++) {
        json_array_append_new(names, jsonx_text(f.classes[i]));
    }
    folders_release(&f);
    return names;
}

json_t *dataset_names(const struct data_spec *spec, const char *roots, int classes)
{
    static const char *const files[] = {"classes.txt", "batches.meta.txt", "fine_label_names.txt",
                                        "coarse_label_names.txt"};
    char dir[PATH_MAX], path[PATH_MAX];
    if (!spec->path[0] || dataset_find(roots, spec->path, dir, NULL) < 0) {
        return NULL;
    }
    if (spec->format == CAT_FORMAT_IMAGES) {
        return folder_names(dir, classes);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        bool of_other_labels = (i == 2 && spec->coarse) || (i == 3 && !spec->coarse);
        char *text = !of_other_labels && dataset_file(roots, dir, files[i], path, NULL) == 0
                         ? proc_read_file(path, 1 << 20, NULL, NULL)
                         : NULL;
        json_t *names = json_array();
        for (char *p = text; p && *p; p += strspn(p, "\r\n")) {
            size_t n = strcspn(p, "\r\n");
            json_array_append_new(names, json_stringn(p, n));
            p += n;
        }
        free(text);
        if ((int)json_array_size(names) >= classes) {
            return names;
        }
        json_decref(names);
    }
    return NULL;
}
