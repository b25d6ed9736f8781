/* How a format hands over its samples: they stay in their files, which are mapped
 * (files/stored.h). */
#include "worker/data/dataset.h"
#include "worker/data/files/stored.h"
#include "worker/data/files/unpacked.h"

void dataset_take(const struct dataset *d, struct dataset_part *part, struct stored *s)
{
    part->stored = s;
    part->x = (void *)(uintptr_t)stored_plain(s, &d->input);
}

int dataset_take_file(const struct dataset *d, struct dataset_part *part, struct unpack *u,
                      size_t head, const struct form *form, struct err *e)
{
    struct err why = {0};
    struct mapped *m = unpacked_open(u, &why);
    struct stored *s = m ? stored_new(form) : NULL;
    int rc = 0;
    if (!m) {
        rc = err_set(e, why.code, "%s", why.message);
    } else if (!s) {
        rc = err_set(e, ERR_MEMORY, "cannot map '%s': memory ran out", u->name);
    } else if ((int64_t)m->bytes != u->want) {
        rc = err_set(e, ERR_DATA, "'%s' has changed: it has %zu bytes instead of %lld", u->name,
                     m->bytes, (long long)u->want);
        stored_free(s);
    } else {
        stored_add(s, m, head, part->samples);
        dataset_take(d, part, s);
    }
    mapped_close(m);
    return rc;
}
