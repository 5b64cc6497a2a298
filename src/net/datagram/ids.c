/* Reads the ids of connections of QUIC and DTLS. */
#include "net/datagram/ids.h"

#include <stddef.h>

#include "base/wire.h"

enum {
    QUIC_LONG = 0x80, /* a long header, which tells the lengths of its ids */
    QUIC_VERSION_SIZE = 4,

    DTLS_HANDSHAKE = 22,
    DTLS_CID = 25,            /* DTLS 1.2: a record that bears an id */
    DTLS_UNIFIED_MASK = 0xe0, /* DTLS 1.3: the header of an encrypted record … */
    DTLS_UNIFIED = 0x20,
    DTLS_UNIFIED_CID = 0x10, /* in a header of DTLS 1.3 that has a connection id */
    DTLS_MAJOR = 0xfe,
    DTLS_CID_AT = 11, /* type, version, epoch, number */
    DTLS_SERVER_HELLO = 2,
    DTLS_RANDOM_SIZE = 32,
    DTLS_EXTENSION_ID = 54,
};

static unsigned first_byte(struct str datagram)
{
    return datagram.len == 0 ? 0 : (unsigned char) datagram.data[0];
}

/* ---- QUIC */

/* The ids of a long header: whom it is for, and whom it is from. */
static bool read_long(struct str datagram, size_t *version, struct str *to, struct str *from)
{
    struct str rest = str_skip(datagram, 1);

    return wire_number(&rest, QUIC_VERSION_SIZE, version) && wire_piece(&rest, 1, to) &&
           wire_piece(&rest, 1, from);
}

static struct str quic_given(struct str datagram)
{
    struct str to, from;
    size_t version;

    /* Version 0 only says which versions there are. */
    return (first_byte(datagram) & QUIC_LONG) != 0 && read_long(datagram, &version, &to, &from) &&
                   version != 0
               ? from
               : STR_NONE;
}

static struct str quic_borne(struct str datagram, bool *is_open)
{
    struct str to, from;
    size_t version;

    if ((first_byte(datagram) & QUIC_LONG) == 0) {
        *is_open = true;
        return str_skip(datagram, 1);
    }
    return read_long(datagram, &version, &to, &from) ? to : STR_NONE;
}

/* ---- DTLS */

/* The id that a ServerHello gives. */
static struct str hello_id(struct str hello)
{
    struct str unused, extensions, body, id;
    size_t type;

    if (!wire_bytes(&hello, 2 + DTLS_RANDOM_SIZE, &unused) || !wire_piece(&hello, 1, &unused) ||
        !wire_bytes(&hello, 2 + 1, &unused) || !wire_piece(&hello, 2, &extensions)) {
        return STR_NONE;
    }
    while (wire_number(&extensions, 2, &type) && wire_piece(&extensions, 2, &body)) {
        if (type == DTLS_EXTENSION_ID) {
            return wire_piece(&body, 1, &id) ? id : STR_NONE;
        }
    }
    return STR_NONE;
}

/* Of the messages in a record, the ServerHello's; one that comes in parts is left alone. */
static struct str messages_id(struct str record)
{
    size_t type, length, number, offset;
    struct str part;

    while (wire_number(&record, 1, &type) && wire_number(&record, 3, &length) &&
           wire_number(&record, 2, &number) && wire_number(&record, 3, &offset) &&
           wire_piece(&record, 3, &part)) {
        if (type == DTLS_SERVER_HELLO && offset == 0 && part.len == length) {
            return hello_id(part);
        }
    }
    return STR_NONE;
}

static struct str dtls_given(struct str datagram)
{
    size_t type, version, epoch, number;
    struct str record;

    if (first_byte(datagram) != DTLS_HANDSHAKE) {
        return STR_NONE;
    }
    while (wire_number(&datagram, 1, &type) && wire_number(&datagram, 2, &version) &&
           version >> 8 == DTLS_MAJOR && wire_number(&datagram, 2, &epoch) &&
           wire_number(&datagram, 6, &number) && wire_piece(&datagram, 2, &record)) {
        struct str id = type == DTLS_HANDSHAKE && epoch == 0 ? messages_id(record) : STR_NONE;

        if (id.len != 0) {
            return id;
        }
    }
    return STR_NONE;
}

static struct str dtls_borne(struct str datagram, bool *is_open)
{
    unsigned type = first_byte(datagram);

    *is_open = true;
    if (type == DTLS_CID) {
        return str_skip(datagram, datagram.len < DTLS_CID_AT ? datagram.len : DTLS_CID_AT);
    }
    return (type & DTLS_UNIFIED_MASK) == DTLS_UNIFIED && (type & DTLS_UNIFIED_CID) != 0
               ? str_skip(datagram, 1)
               : STR_NONE;
}

/* ---- the face */

struct str datagram_id_given(enum datagram_ids kind, struct str datagram)
{
    struct str id = kind == DATAGRAM_IDS_QUIC   ? quic_given(datagram)
                    : kind == DATAGRAM_IDS_DTLS ? dtls_given(datagram)
                                                : STR_NONE;

    return id.len < DATAGRAM_ID_LEAST || id.len > DATAGRAM_ID_MOST ? STR_NONE : id;
}

struct str datagram_id_borne(enum datagram_ids kind, struct str datagram, bool *is_open)
{
    *is_open = false;
    struct str id = datagram.len == 0           ? STR_NONE
                    : kind == DATAGRAM_IDS_QUIC ? quic_borne(datagram, is_open)
                    : kind == DATAGRAM_IDS_DTLS ? dtls_borne(datagram, is_open)
                                                : STR_NONE;

    return id.len < DATAGRAM_ID_LEAST || (!*is_open && id.len > DATAGRAM_ID_MOST) ? STR_NONE : id;
}
