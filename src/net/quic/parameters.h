/* Transport parameters (RFC 9000, 18; RFC 9221, 9287, 9368; draft-ietf-quic-ack-frequency). */
#ifndef NET_QUIC_PARAMETERS_H
#define NET_QUIC_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "net/quic/packet.h"

/* Values that a peer did not send are their defaults. Slices point into what was read. */
struct quic_parameters {
    uint64_t max_idle_timeout_ms; /* 0 = none */
    uint64_t max_udp_payload;     /* 65527 */
    uint64_t max_data;
    uint64_t max_stream_data_local;  /* of bidirectional streams that the sender opens */
    uint64_t max_stream_data_remote; /* of bidirectional streams that the receiver opens */
    uint64_t max_stream_data_uni;
    uint64_t max_streams_bidi, max_streams_uni;
    uint64_t ack_delay_exponent;         /* 3 */
    uint64_t max_ack_delay_ms;           /* 25 */
    uint64_t active_connection_id_limit; /* 2 */
    uint64_t max_datagram_frame;         /* 0 = DATAGRAM is not understood */
    uint64_t min_ack_delay_us;           /* 0 = ACK_FREQUENCY is not understood */
    bool disables_migration;
    bool greases_bit; /* RFC 9287 */
    bool has_original_dcid, has_initial_scid, has_retry_scid, has_reset_token;
    struct quic_cid original_dcid; /* of a server */
    struct quic_cid initial_scid;
    struct quic_cid retry_scid; /* of a server */
    uint8_t reset_token[QUIC_RESET_TOKEN_SIZE];
    struct str preferred_address; /* as on the wire, its form was checked; of a server */
    struct str versions;          /* RFC 9368: chosen, then available, four bytes each */
};

/* False: TRANSPORT_PARAMETER_ERROR. of_server: the sender is one. */
bool quic_parameters_read(struct str bytes, bool of_server, struct quic_parameters *out);
/* Writes what differs from the defaults. `random` greases. */
void quic_parameters_put(struct quic_out *out, const struct quic_parameters *parameters,
                         uint32_t random);

#endif
