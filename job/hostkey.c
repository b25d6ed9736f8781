/* Keys of the joining: see hostkey.h. */
#include "job/hostkey.h"

#include <stdio.h>
#include <string.h>

void hostkey_join(const struct sign_key *secret, struct sign_key *out)
{
    sign_derive(secret, "join", "", out);
}

void hostkey_welcome(const struct sign_key *secret, const char *nonce, struct sign_key *out)
{
    sign_derive(secret, "welcome", nonce, out);
}

void hostkey_wrap(const struct sign_key *secret, const char *nonce, const char *salt,
                  struct sign_key *key)
{
    struct sign_key pad;
    char both[2 * SIGN_HEX];
    snprintf(both, sizeof both, "%.64s%.64s", nonce, salt);
    sign_derive(secret, "pad", both, &pad);
    for (int i = 0; i < SIGN_KEY; i++) {
        key->bytes[i] ^= pad.bytes[i];
    }
}

static void describe(const json_t *versions, char out[120])
{
    const char *evenstep = json_string_value(json_object_get(versions, "evenstep")),
               *mpi = json_string_value(json_object_get(versions, "openmpi"));
    snprintf(out, 120, "Evenstep %.24s (protocol %d) with Open MPI %.24s",
             evenstep ? evenstep : "?",
             (int)json_integer_value(json_object_get(versions, "protocol")), mpi ? mpi : "?");
}

char *hostkey_mismatch(const char *host, const json_t *its, const json_t *ours, char out[300])
{
    static const char *const names[] = {"evenstep", "openmpi", "protocol"};
    char a[120], b[120];
    bool same = true;
    out[0] = 0;
    for (int i = 0; i < 3; i++) {
        same = same && json_equal(json_object_get(its, names[i]), json_object_get(ours, names[i]));
    }
    if (!same) {
        describe(its, a);
        describe(ours, b);
        snprintf(out, 300, "the host '%.48s' has %s, the coordinator has %s: both must be the same",
                 host, a, b);
    }
    return out;
}
