/* Joining: an agent's request to the coordinator, and the answer. Both are sealed (common/sign.h;
 * job/hostkey.h has the keys) and belong to no attempt. Instead of a format number they carry the
 * versions of both programs, which must be the same (hostkey_mismatch()).
 *
 *   ask     {"host", "instance", "address", "network", "versions": {…}, "nodes": [names],
 *            "fault": {"message", "hint"}}               "fault" only if its device cannot be used
 *   answer  {"accepted": true, "coordinator", "salt", "key", "own_user"}
 *           {"accepted": false, "message", "hint"}
 *
 * What was read is borrowed from the document. A request may come from anybody: a missing text is
 * "", and the coordinator says what is missing (coordinator/hosts/hosts.c).
 */
#ifndef JOB_DOCUMENTS_HOSTS_JOINING_H
#define JOB_DOCUMENTS_HOSTS_JOINING_H

#include <jansson.h>
#include <stdbool.h>

struct joining_ask {
    const char *host, *instance, *address, *network;
    const char *nonce; /* only read: sign_stamp() adds it */
    json_t *versions;  /* versions of its programs; NULL: not given */
    json_t *nodes;     /* array of names; NULL: not given */
    bool faulty;       /* it cannot start, and says why: */
    const char *message, *hint;
};
json_t *joining_ask_json(const struct joining_ask *a); /* new reference */
void joining_ask_read(struct joining_ask *out, const json_t *j);

struct joining_answer {
    bool accepted;
    const char *coordinator, *salt, *key; /* in hex; if accepted */
    bool own_user; /* this host has a user of Redis of its own (store/users.h); if accepted */
    const char *message, *hint; /* if not */
};
json_t *joining_answer_json(const struct joining_answer *a); /* new reference */
void joining_answer_read(struct joining_answer *out, const json_t *j);

#endif
