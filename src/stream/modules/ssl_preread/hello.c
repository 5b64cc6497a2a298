/* Parses a ClientHello: records, the message in them, its extensions. */
#include "stream/modules/ssl_preread/hello.h"

#include <stdbool.h>

#include "base/wire.h"

enum {
    RECORD_HEAD = 5, /* type, version, length */
    RECORD_HANDSHAKE = 22,
    MESSAGE_HEAD = 4, /* type, length */
    MESSAGE_CLIENT_HELLO = 1,
    RANDOM_SIZE = 32,
    EXTENSION_SERVER_NAME = 0,
    EXTENSION_ALPN = 16,
    EXTENSION_SUPPORTED_VERSIONS = 43,
    NAME_HOST = 0,
};

/* ---- slices of the wire */

static unsigned byte_at(struct str s, size_t at)
{
    return (unsigned char) s.data[at];
}

/* ---- extensions */

/* Reads the first host name. */
static bool read_server_name(struct str body, struct hello *hello)
{
    struct str list, name;
    size_t type;

    if (!wire_piece(&body, 2, &list)) {
        return false;
    }
    while (list.len != 0) {
        if (!wire_number(&list, 1, &type) || !wire_piece(&list, 2, &name)) {
            return false;
        }
        if (type == NAME_HOST) {
            hello->name = name;
            return true;
        }
    }
    return true;
}

static bool read_alpn(struct str body, struct hello *hello, struct arena *arena)
{
    struct str list, rest, name = STR_NONE;

    if (!wire_piece(&body, 2, &list)) {
        return false;
    }
    for (rest = list; rest.len != 0;) {
        if (!wire_piece(&rest, 1, &name) || name.len == 0) {
            return false;
        }
    }
    if (list.len == 0) {
        return true;
    }
    /* Replaces the length bytes by commas, except the first. */
    char *text = arena_text(arena, list.len);
    size_t used = 0;
    for (rest = list; rest.len != 0;) {
        wire_piece(&rest, 1, &name);
        if (used != 0) {
            text[used++] = ',';
        }
        memcpy(text + used, name.data, name.len);
        used += name.len;
    }
    hello->protocols = (struct str){text, used};
    return true;
}

/*
 * A client that sends this extension is reported as TLS 1.3 (RFC 8446, 4.2.1), whatever versions it
 * contains, as by the reference. A list that is empty, or not the whole extension, is malformed.
 */
static bool read_versions(struct str body, struct hello *hello)
{
    struct str list;

    if (!wire_piece(&body, 1, &list) || list.len < 2 || body.len != 0) {
        return false;
    }
    hello->version = 0x0304;
    return true;
}

static bool read_extensions(struct str list, struct hello *hello, struct arena *arena)
{
    struct str body;
    size_t type;
    bool is_good = true;

    while (list.len != 0 && is_good) {
        if (!wire_number(&list, 2, &type) || !wire_piece(&list, 2, &body)) {
            return false;
        }
        switch (type) {
        case EXTENSION_SERVER_NAME:
            is_good = read_server_name(body, hello);
            break;
        case EXTENSION_ALPN:
            is_good = read_alpn(body, hello, arena);
            break;
        case EXTENSION_SUPPORTED_VERSIONS:
            is_good = read_versions(body, hello);
            break;
        default:
            break;
        }
    }
    return is_good;
}

/* ---- the message */

static bool read_message(struct str body, struct hello *hello, struct arena *arena)
{
    struct str session, ciphers, compressions, extensions;
    size_t version;

    if (!wire_number(&body, 2, &version) || body.len < RANDOM_SIZE) {
        return false;
    }
    hello->version = (unsigned) version;
    body = str_skip(body, RANDOM_SIZE);
    if (!wire_piece(&body, 1, &session) || !wire_piece(&body, 2, &ciphers) ||
        !wire_piece(&body, 1, &compressions)) {
        return false;
    }
    return body.len == 0 || /* older clients have no extensions */
           (wire_piece(&body, 2, &extensions) && read_extensions(extensions, hello, arena));
}

/* Copies the first bytes of the message out of its records; they must have arrived. */
static void stream_ssl_preread_hello_gather(struct str input, char *to, size_t size)
{
    while (size != 0) {
        size_t length = byte_at(input, 3) << 8 | byte_at(input, 4);
        size_t part = length < size ? length : size;

        memcpy(to, input.data + RECORD_HEAD, part);
        to += part;
        size -= part;
        input = str_skip(input, RECORD_HEAD + length);
    }
}

/* Walks over further complete records. False: no more can come, since what follows is not a
 * handshake record. */
static bool walk_records(struct hello *hello, struct str input)
{
    for (;;) {
        struct str rest = str_skip(input, hello->walked);
        size_t length;

        if ((rest.len > 0 && byte_at(rest, 0) != RECORD_HANDSHAKE) ||
            (rest.len > 1 && byte_at(rest, 1) != 3)) {
            return false;
        }
        if (rest.len < RECORD_HEAD) {
            return true;
        }
        length = byte_at(rest, 3) << 8 | byte_at(rest, 4);
        if (length == 0) {
            return false; /* an empty record is invalid */
        }
        if (rest.len - RECORD_HEAD < length) {
            return true;
        }
        hello->walked += RECORD_HEAD + length;
        hello->gathered += length;
    }
}

/* A ClientHello in SSL 2 format, which some clients used to offer newer versions (RFC 5246,
 * E.2). */
static bool is_version_2(struct str input)
{
    return (byte_at(input, 0) & 0x80) != 0 && byte_at(input, 2) == 1 &&
           (byte_at(input, 3) == 0 || byte_at(input, 3) == 3);
}

enum hello_result hello_read(struct hello *hello, struct str input, struct arena *arena)
{
    size_t size;

    if (input.len < RECORD_HEAD) {
        return HELLO_MORE;
    }
    if (is_version_2(input)) {
        hello->version = byte_at(input, 3) << 8 | byte_at(input, 4);
        return HELLO_DONE;
    }
    enum hello_result unless_whole = walk_records(hello, input) ? HELLO_MORE : HELLO_NONE;
    char head[MESSAGE_HEAD];
    struct str rest = {head, MESSAGE_HEAD};

    if (input.len > RECORD_HEAD && byte_at(input, RECORD_HEAD) != MESSAGE_CLIENT_HELLO) {
        return HELLO_NONE;
    }
    if (hello->gathered < MESSAGE_HEAD) {
        return unless_whole;
    }
    stream_ssl_preread_hello_gather(input, head, MESSAGE_HEAD);
    rest = str_skip(rest, 1);
    wire_number(&rest, 3, &size);
    if (hello->gathered - MESSAGE_HEAD < size) {
        return unless_whole;
    }
    struct str message = {arena_text(arena, MESSAGE_HEAD + size), MESSAGE_HEAD + size};
    stream_ssl_preread_hello_gather(input, (char *) (uintptr_t) message.data, message.len);
    if (!read_message(str_skip(message, MESSAGE_HEAD), hello, arena)) {
        hello->version = 0;
        hello->name = hello->protocols = STR_NONE;
        return HELLO_NONE;
    }
    return HELLO_DONE;
}

struct str hello_version_name(unsigned version)
{
    switch (version) {
    case 0x0002:
        return STR("SSLv2");
    case 0x0300:
        return STR("SSLv3");
    case 0x0301:
        return STR("TLSv1");
    case 0x0302:
        return STR("TLSv1.1");
    case 0x0303:
        return STR("TLSv1.2");
    case 0x0304:
        return STR("TLSv1.3");
    default:
        return STR("");
    }
}
