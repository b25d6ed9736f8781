/* See profiles.h. */
#include "coordinator/planning/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/hash.h"

void profiles_key(const struct jobspec *spec, char out[PROFILES_KEY])
{
    bool usual = !spec->precision[0] || strcmp(spec->precision, "fp32") == 0;
    char hash[17];
    if (spec->program.given) { /* its network is not known before it runs */
        char *text =
            json_dumps(json_object_get(spec->json, "program"), JSON_COMPACT | JSON_SORT_KEYS);
        uint64_t hashed = text ? hash_bytes(HASH_START, text, strlen(text)) : HASH_START;
        snprintf(out, PROFILES_KEY, "program-%016llx", (unsigned long long)hashed);
        free(text);
        return;
    }
    network_hash(&spec->network, hash);
    snprintf(out, PROFILES_KEY, "%s%s%s", hash, usual ? "" : "-", usual ? "" : spec->precision);
}

bool profiles_find(struct store *store, const char *node, const char *device, const char *key,
                   struct measured *out)
{
    json_t *j = store_profile_get(store, node, key, NULL);
    memset(out, 0, sizeof *out);
    bool found = j && measured_read(out, j, NULL) >= 0 && strcmp(out->device, device) == 0;
    json_decref(j);
    return found;
}

/* A profile belongs to a device and a slowdown. It does not apply to another slowdown. */
struct profile *profiles_of(const struct measured *kept, double slowdown)
{
    bool says =
        kept->slowdown == slowdown && (kept->profile.count >= 1 || kept->profile.max_batch >= 1);
    struct profile *p = says ? malloc(sizeof *p) : NULL;
    if (p) {
        *p = kept->profile;
    }
    return p;
}

struct profile *profiles_get(struct store *store, const char *node, const char *device,
                             double slowdown, const char *key)
{
    struct measured kept;
    bool found = profiles_find(store, node, device, key, &kept);
    struct profile *p = found ? profiles_of(&kept, slowdown) : NULL;
    measured_release(&kept);
    return p;
}

struct profile **profiles_all(struct store *store, const struct jobspec *spec,
                              const struct placement *p)
{
    char key[PROFILES_KEY];
    struct profile **out = calloc((size_t)p->count + 1, sizeof *out);
    profiles_key(spec, key);
    for (int i = 0; out && i < p->count; i++) {
        const struct placed *n = &p->nodes[i];
        out[i] = profiles_get(store, n->name, n->device, n->slowdown, key);
    }
    return out;
}

bool profiles_exchange(struct store *store, const struct jobspec *spec, const struct placement *p,
                       struct exchanged *out)
{
    char key[PROFILES_KEY];
    bool alike = p->count > 0;
    profiles_key(spec, key);
    memset(out, 0, sizeof *out);
    for (int i = 0; alike && i < p->count; i++) {
        const struct placed *n = &p->nodes[i];
        struct measured kept;
        alike = profiles_find(store, n->name, n->device, key, &kept) &&
                kept.exchange.workers == p->count && kept.slowdown == n->slowdown &&
                (i == 0 || strcmp(kept.exchange.strategy, out->strategy) == 0);
        double sum = out->seconds + kept.exchange.seconds;
        *out = kept.exchange;
        out->seconds = sum;
        measured_release(&kept);
    }
    out->seconds /= p->count > 0 ? p->count : 1;
    return alike && out->seconds > 0 && catalog_find(CATALOG_STRATEGY, out->strategy);
}

void profiles_free(struct profile **profiles, int count)
{
    for (int i = 0; profiles && i < count; i++) {
        free(profiles[i]);
    }
    free(profiles);
}
