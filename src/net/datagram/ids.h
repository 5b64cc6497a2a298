/* What QUIC and DTLS say in the clear of whose a datagram is: ids that a backend gives its client.
 * Pure functions over one datagram. */
#ifndef NET_DATAGRAM_IDS_H
#define NET_DATAGRAM_IDS_H

#include <stdbool.h>

#include "base/str.h"

enum datagram_ids {
    DATAGRAM_IDS_NONE,
    DATAGRAM_IDS_QUIC, /* connection ids (RFC 8999; RFC 9000, 5.1) */
    DATAGRAM_IDS_DTLS, /* connection ids of DTLS 1.2 (RFC 9146) and 1.3 (RFC 9147, 4 and 9) */
};

#define DATAGRAM_ID_LEAST 4u /* bytes; who guesses would meet shorter ones too soon */
#define DATAGRAM_ID_MOST 31u

/*
 * Of a datagram of the backend: the id that its client puts before what it says from here on; empty
 * if it gives none, or one that is shorter or longer than these. It lies in the datagram.
 */
struct str datagram_id_given(enum datagram_ids kind, struct str datagram);

/*
 * Of a datagram of a client: the id that it bears; empty if none, or too short. is_open: its length
 * is not given, and only the first so many bytes of this are the id.
 */
struct str datagram_id_borne(enum datagram_ids kind, struct str datagram, bool *is_open);

#endif
