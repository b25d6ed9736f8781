/* See names.h. A JSON object maps a name to its index in the list. A removal, which is rare,
 * rebuilds it. */
#include "common/text/names.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 8 };

void names_release(struct names *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->all[i].name);
    }
    free(s->all);
    json_decref(s->index);
    *s = (struct names){0};
}

static bool grow(struct names *s)
{
    size_t room = s->room > 0 ? 2 * s->room : FIRST_ROOM;
    struct named *all = realloc(s->all, room * sizeof *all);
    s->all = all ? all : s->all;
    s->room = all ? room : s->room;
    return all != NULL;
}

static bool note_index(struct names *s, size_t i)
{
    s->index = s->index ? s->index : json_object();
    return json_object_set_new_nocheck(s->index, s->all[i].name, json_integer((json_int_t)i)) == 0;
}

void names_add(struct names *s, const char *name, double number)
{
    const json_t *known = json_object_get(s->index, name);
    if (known) {
        s->all[json_integer_value(known)].number = number;
        return;
    }
    char *copy = s->count < s->room || grow(s) ? strdup(name) : NULL;
    if (copy) {
        s->all[s->count] = (struct named){copy, number};
    }
    if (copy && note_index(s, s->count)) {
        s->count++;
    } else {
        free(copy);
        s->failed = true;
    }
}

void names_add_all(struct names *s, const struct names *from)
{
    for (size_t i = 0; i < from->count; i++) {
        names_add(s, from->all[i].name, from->all[i].number);
    }
}

void names_remove(struct names *s, const char *name)
{
    const struct named *found = names_find(s, name);
    if (!found) {
        return;
    }
    size_t at = (size_t)(found - s->all);
    free(s->all[at].name);
    memmove(s->all + at, s->all + at + 1, (--s->count - at) * sizeof *s->all);
    json_object_clear(s->index);
    for (size_t i = 0; i < s->count; i++) {
        s->failed |= !note_index(s, i);
    }
}

const struct named *names_find(const struct names *s, const char *name)
{
    const json_t *index = s ? json_object_get(s->index, name) : NULL;
    return index ? &s->all[json_integer_value(index)] : NULL;
}

bool names_has(const struct names *s, const char *name)
{
    return names_find(s, name) != NULL;
}
