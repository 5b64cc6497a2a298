/* Transport parameters. */
#include "net/quic/parameters.h"

#include "base/wire.h"

#define STREAMS_MOST (UINT64_C(1) << 60)
#define ADDRESS_LEAST                                                                              \
    (4u + 2 + 16 + 2 + 1 + QUIC_RESET_TOKEN_SIZE) /* of a preferred address, without its id */

enum parameter {
    ORIGINAL_DCID = 0x00,
    MAX_IDLE_TIMEOUT = 0x01,
    RESET_TOKEN = 0x02,
    MAX_UDP_PAYLOAD = 0x03,
    MAX_DATA = 0x04,
    MAX_STREAM_DATA_LOCAL = 0x05,
    MAX_STREAM_DATA_REMOTE = 0x06,
    MAX_STREAM_DATA_UNI = 0x07,
    MAX_STREAMS_BIDI = 0x08,
    MAX_STREAMS_UNI = 0x09,
    ACK_DELAY_EXPONENT = 0x0a,
    MAX_ACK_DELAY = 0x0b,
    DISABLES_MIGRATION = 0x0c,
    PREFERRED_ADDRESS = 0x0d,
    ACTIVE_CONNECTION_ID_LIMIT = 0x0e,
    INITIAL_SCID = 0x0f,
    RETRY_SCID = 0x10,
    VERSIONS = 0x11,
    MAX_DATAGRAM_FRAME = 0x20,
    GREASES_BIT = 0x2ab2,
    MIN_ACK_DELAY = 0xff04de1b, /* draft-ietf-quic-ack-frequency, 3 */
};

/* The parameters that are numbers: where they go, what they are when absent, and what they may be.
 */
static const struct number_row {
    uint32_t id;
    uint16_t at; /* offset in struct quic_parameters */
    uint64_t initial, least, most;
} number_rows[] = {
#define NUMBER(id, member, initial, least, most)                                                   \
    {                                                                                              \
        id, offsetof(struct quic_parameters, member), initial, least, most                         \
    }
    NUMBER(MAX_IDLE_TIMEOUT, max_idle_timeout_ms, 0, 0, QUIC_VARINT_MOST),
    NUMBER(MAX_UDP_PAYLOAD, max_udp_payload, 65527, 1200, QUIC_VARINT_MOST),
    NUMBER(MAX_DATA, max_data, 0, 0, QUIC_VARINT_MOST),
    NUMBER(MAX_STREAM_DATA_LOCAL, max_stream_data_local, 0, 0, QUIC_VARINT_MOST),
    NUMBER(MAX_STREAM_DATA_REMOTE, max_stream_data_remote, 0, 0, QUIC_VARINT_MOST),
    NUMBER(MAX_STREAM_DATA_UNI, max_stream_data_uni, 0, 0, QUIC_VARINT_MOST),
    NUMBER(MAX_STREAMS_BIDI, max_streams_bidi, 0, 0, STREAMS_MOST),
    NUMBER(MAX_STREAMS_UNI, max_streams_uni, 0, 0, STREAMS_MOST),
    NUMBER(ACK_DELAY_EXPONENT, ack_delay_exponent, 3, 0, 20),
    NUMBER(MAX_ACK_DELAY, max_ack_delay_ms, 25, 0, (1u << 14) - 1),
    NUMBER(ACTIVE_CONNECTION_ID_LIMIT, active_connection_id_limit, 2, 2, QUIC_VARINT_MOST),
    NUMBER(MAX_DATAGRAM_FRAME, max_datagram_frame, 0, 0, QUIC_VARINT_MOST),
    NUMBER(MIN_ACK_DELAY, min_ack_delay_us, 0, 0, QUIC_VARINT_MOST),
};
#define NUMBER_ROWS (sizeof(number_rows) / sizeof(number_rows[0]))

/* The member that a row describes. */
static uint64_t *number_of(struct quic_parameters *parameters, const struct number_row *row)
{
    return (uint64_t *) (void *) ((char *) parameters + row->at);
}

static const struct number_row *find_number(uint64_t id)
{
    for (size_t i = 0; i < NUMBER_ROWS; i++) {
        if (number_rows[i].id == id) {
            return &number_rows[i];
        }
    }
    return NULL;
}

static bool read_cid(struct str value, bool *has, struct quic_cid *out)
{
    if (value.len > QUIC_CID_MOST) {
        return false;
    }
    *has = true;
    *out = quic_cid_of(value);
    return true;
}

/* preferred_address (RFC 9000, 18.2): IPv4 and IPv6 address and port, connection id, token. */
static bool check_address(struct str value)
{
    struct str id;
    struct str rest = value;

    return value.len > ADDRESS_LEAST && wire_bytes(&rest, 4 + 2 + 16 + 2, &id) &&
           wire_piece(&rest, 1, &id) && id.len >= 1 && id.len <= QUIC_CID_MOST &&
           rest.len == QUIC_RESET_TOKEN_SIZE;
}

/* RFC 9368, 4: the chosen version, which is not zero, and then none or more of those available. */
static bool check_versions(struct str value)
{
    size_t version;

    if (value.len < 4 || value.len % 4 != 0) {
        return false;
    }
    while (wire_number(&value, 4, &version)) {
        if (version == 0) {
            return false;
        }
    }
    return true;
}

static bool read_reset_token(struct str value, struct quic_parameters *out)
{
    if (value.len != QUIC_RESET_TOKEN_SIZE) {
        return false;
    }
    out->has_reset_token = true;
    memcpy(out->reset_token, value.data, value.len);
    return true;
}

static bool parameters_read_number(const struct number_row *row, struct str value,
                                   struct quic_parameters *out)
{
    uint64_t *number = number_of(out, row);

    return quic_varint_read(&value, number) && value.len == 0 && *number >= row->least &&
           *number <= row->most;
}

static bool read_one(uint64_t id, struct str value, bool of_server, struct quic_parameters *out)
{
    const struct number_row *row = find_number(id);

    if (row != NULL) {
        return parameters_read_number(row, value, out);
    }
    switch (id) {
    case ORIGINAL_DCID:
        return of_server && read_cid(value, &out->has_original_dcid, &out->original_dcid);
    case RESET_TOKEN:
        return of_server && read_reset_token(value, out);
    case DISABLES_MIGRATION:
        out->disables_migration = true;
        return value.len == 0;
    case PREFERRED_ADDRESS:
        out->preferred_address = value;
        return of_server && check_address(value);
    case INITIAL_SCID:
        return read_cid(value, &out->has_initial_scid, &out->initial_scid);
    case RETRY_SCID:
        return of_server && read_cid(value, &out->has_retry_scid, &out->retry_scid);
    case VERSIONS:
        out->versions = value;
        return check_versions(value);
    case GREASES_BIT:
        out->greases_bit = true;
        return value.len == 0;
    default:
        return true;
    }
}

/* None may be there twice (RFC 9000, 7.4): of those that we know. */
static bool is_new(uint64_t id, uint64_t *seen)
{
    uint64_t bit = id < 62               ? UINT64_C(1) << id
                   : id == GREASES_BIT   ? UINT64_C(1) << 63
                   : id == MIN_ACK_DELAY ? UINT64_C(1) << 62
                                         : 0;
    bool is_first = (*seen & bit) == 0;

    *seen |= bit;
    return is_first;
}

bool quic_parameters_read(struct str bytes, bool of_server, struct quic_parameters *out)
{
    uint64_t seen = 0, id, size;
    struct str value;

    *out = (struct quic_parameters){0};
    for (size_t i = 0; i < NUMBER_ROWS; i++) {
        *number_of(out, &number_rows[i]) = number_rows[i].initial;
    }
    while (bytes.len != 0) {
        if (!quic_varint_read(&bytes, &id) || !quic_varint_read(&bytes, &size) ||
            !wire_bytes(&bytes, size, &value) || !is_new(id, &seen) ||
            !read_one(id, value, of_server, out)) {
            return false;
        }
    }
    return out->min_ack_delay_us <= 1000 * out->max_ack_delay_ms;
}

static void put_piece(struct quic_out *out, uint64_t id, struct str value)
{
    quic_put_varint(out, id);
    quic_put_varint(out, value.len);
    quic_put_bytes(out, value.data, value.len);
}

static void put_number(struct quic_out *out, uint64_t id, uint64_t value)
{
    quic_put_varint(out, id);
    quic_put_varint(out, quic_varint_size(value));
    quic_put_varint(out, value);
}

static void put_ids(struct quic_out *out, const struct quic_parameters *parameters)
{
    if (parameters->has_original_dcid) {
        put_piece(out, ORIGINAL_DCID, quic_cid_str(&parameters->original_dcid));
    }
    if (parameters->has_initial_scid) {
        put_piece(out, INITIAL_SCID, quic_cid_str(&parameters->initial_scid));
    }
    if (parameters->has_retry_scid) {
        put_piece(out, RETRY_SCID, quic_cid_str(&parameters->retry_scid));
    }
    if (parameters->has_reset_token) {
        put_piece(out, RESET_TOKEN,
                  (struct str){(const char *) parameters->reset_token, QUIC_RESET_TOKEN_SIZE});
    }
}

void quic_parameters_put(struct quic_out *out, const struct quic_parameters *parameters,
                         uint32_t random)
{
    for (size_t i = 0; i < NUMBER_ROWS; i++) {
        uint64_t value =
            *number_of((struct quic_parameters *) (uintptr_t) parameters, &number_rows[i]);
        if (value != number_rows[i].initial) {
            put_number(out, number_rows[i].id, value);
        }
    }
    put_ids(out, parameters);
    if (parameters->disables_migration) {
        put_piece(out, DISABLES_MIGRATION, STR_NONE);
    }
    if (parameters->greases_bit) {
        put_piece(out, GREASES_BIT, STR_NONE);
    }
    if (parameters->preferred_address.len != 0) {
        put_piece(out, PREFERRED_ADDRESS, parameters->preferred_address);
    }
    if (parameters->versions.len != 0) {
        put_piece(out, VERSIONS, parameters->versions);
    }
    /* A reserved one (RFC 9000, 18.1), so that peers keep ignoring what they do not know. */
    put_piece(out, 31 * (uint64_t) (random & 0xff) + 27 + 31 * 300,
              (struct str){(const char *) &random, random >> 30});
}
