/* A set of names, or a map from names to numbers, such as the nodes reserved for a job and since
 * when each has been free. Names keep the order in which they were added.
 *
 *   struct names taken = {0};                     an empty one needs no memory
 *   names_add(&taken, "n3", 0);
 *   for (size_t i = 0; i < taken.count; i++) { … taken.all[i].name … }
 *   names_release(&taken);
 *
 * A call that adds needs memory. Where there is none the name is left out, and `failed` says so.
 */
#ifndef COMMON_TEXT_NAMES_H
#define COMMON_TEXT_NAMES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct named {
    char *name; /* owned by the set */
    double number;
};

struct names {
    struct named *all; /* [count], owned */
    size_t count, room;
    json_t *index; /* name → index into `all`; owned */
    bool failed;
};

/* Leaves an empty set without memory. */
void names_release(struct names *s);
/* Adds a name with this number, or sets the number of an existing one. `name` is copied. */
void names_add(struct names *s, const char *name, double number);
/* Adds all names of `from`, with their numbers. */
void names_add_all(struct names *s, const struct names *from);
void names_remove(struct names *s, const char *name);
/* Borrowed until the set changes; NULL if the name is not in it. A NULL set is empty. */
const struct named *names_find(const struct names *s, const char *name);
bool names_has(const struct names *s, const char *name);

#endif
