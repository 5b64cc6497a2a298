/* What is derived from the key of the service (quic_host_key): ids, tokens of addresses, tokens of
 * stateless resets. All workers of the service have the same, so that each understands what another
 * one gave. Pure. */
#ifndef NET_QUIC_TOKEN_H
#define NET_QUIC_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr/addr.h"
#include "net/quic/packet.h"

#define QUIC_TOKEN_MOST 128u /* bytes */
#define QUIC_RETRY_SECONDS 30u
#define QUIC_NEW_TOKEN_SECONDS (7u * 86400)

#define QUIC_SERVER_ID_MOST 7u

/* What ids of ours say to balancers in front: which server of several has the connection
 * (draft-ietf-quic-load-balancers). */
struct quic_server_id {
    uint8_t size; /* bytes; 0: ids name no server */
    uint8_t bytes[QUIC_SERVER_ID_MOST];
    uint8_t config;                   /* of the balancer: 0 to 6 */
    struct evp_cipher_ctx_st *cipher; /* it is encrypted; NULL: everybody can read it */
};

#define QUIC_SERVER_KEY_SIZE 16u /* bytes */
/* Encrypts it from now on; the arena owns what that takes. False: OpenSSL failed. */
bool quic_server_id_set_key(struct quic_server_id *server, struct arena *arena, const uint8_t *key);

struct quic_secrets {
    struct quic_server_id server;
    uint8_t cid_size; /* bytes of ids */
    uint32_t cid[4];
    uint8_t token[32];
    uint8_t reset[32];
};

/* `server`: of ids that have one, or NULL. False: OpenSSL failed. */
bool quic_secrets_make(struct quic_secrets *secrets, struct str host_key,
                       const struct quic_server_id *server);

/* An id of ours, of cid_size bytes: names the worker and its slot, but says so to nobody else; and
 * the server, where it has a name, to balancers. */
struct quic_cid_names {
    uint16_t worker; /* datagram_worker */
    uint16_t slot;
};
void quic_cid_encode(const struct quic_secrets *secrets, struct quic_cid_names names,
                     const uint8_t *random, struct quic_cid *out);
/* bytes: cid_size at least. Of an id that is not ours it names anything. */
struct quic_cid_names quic_cid_decode(const struct quic_secrets *secrets, struct str bytes);

void quic_reset_token(const struct quic_secrets *secrets, struct str cid, uint8_t *token);

/* A token for the address: of a Retry it has the id that the client chose first, and the port
 * counts. */
struct quic_token {
    bool is_retry;
    uint64_t made_s; /* seconds since the epoch */
    struct quic_cid original_dcid;
    struct quic_cid retry_scid;
};
/* Gives its size; 0: OpenSSL failed. `out` has QUIC_TOKEN_MOST bytes. */
size_t quic_token_put(const struct quic_secrets *secrets, const struct quic_token *token,
                      const struct addr *peer, unsigned char *out);
/* False: it is not ours, of another address, or too old. */
bool quic_token_read(const struct quic_secrets *secrets, struct str bytes, const struct addr *peer,
                     uint64_t now_s, struct quic_token *out);

#endif
