/* HTTP/2 frames (RFC 9113): headers, sizes, padding; the Priority field (RFC 9218). */
#include "http/message/frame.h"

struct frame_head frame_read(const char *at)
{
    const unsigned char *b = (const unsigned char *) at;

    return (struct frame_head){
        .length = (uint32_t) b[0] << 16 | (uint32_t) b[1] << 8 | b[2],
        .type = b[3],
        .flags = b[4],
        .stream = get_u32(at + 5) & 0x7fffffff,
    };
}

char *put_u32(char *at, uint32_t value)
{
    at[0] = (char) (value >> 24);
    at[1] = (char) (value >> 16);
    at[2] = (char) (value >> 8);
    at[3] = (char) value;
    return at + 4;
}

char *put_u16(char *at, uint16_t value)
{
    at[0] = (char) (value >> 8);
    at[1] = (char) value;
    return at + 2;
}

char *frame_put(char *at, uint32_t length, uint8_t type, uint8_t flags, uint32_t stream)
{
    at[0] = (char) (length >> 16);
    at[1] = (char) (length >> 8);
    at[2] = (char) length;
    at[3] = (char) type;
    at[4] = (char) flags;
    return put_u32(at + 5, stream);
}

/* The rules of section 6 for each type. */
static const struct {
    enum { ON_STREAM, ON_CONNECTION, ON_EITHER } level;
    uint32_t least;         /* least payload in bytes */
    uint32_t most;          /* most payload in bytes; UINT32_MAX: the limit of all frames */
    bool is_size_of_stream; /* a wrong size is a stream error only */
} rules[] = {
    [FRAME_DATA] = {ON_STREAM, 0, UINT32_MAX, true},
    [FRAME_HEADERS] = {ON_STREAM, 0, UINT32_MAX, false},
    [FRAME_PRIORITY] = {ON_STREAM, 5, 5, true},
    [FRAME_RST_STREAM] = {ON_STREAM, 4, 4, false},
    [FRAME_SETTINGS] = {ON_CONNECTION, 0, UINT32_MAX, false},
    [FRAME_PUSH_PROMISE] = {ON_STREAM, 4, UINT32_MAX, false},
    [FRAME_PING] = {ON_CONNECTION, 8, 8, false},
    [FRAME_GOAWAY] = {ON_CONNECTION, 8, UINT32_MAX, false},
    [FRAME_WINDOW_UPDATE] = {ON_EITHER, 4, 4, false},
    [FRAME_CONTINUATION] = {ON_STREAM, 0, UINT32_MAX, false},
    [FRAME_PRIORITY_UPDATE] = {ON_CONNECTION, 4, UINT32_MAX, false},
};

const char *frame_name(uint8_t type)
{
    static const char *const names[] = {"DATA",          "HEADERS",      "PRIORITY", "RST_STREAM",
                                        "SETTINGS",      "PUSH_PROMISE", "PING",     "GOAWAY",
                                        "WINDOW_UPDATE", "CONTINUATION"};

    return type < sizeof(names) / sizeof(names[0]) ? names[type]
           : type == FRAME_PRIORITY_UPDATE         ? "PRIORITY_UPDATE"
                                                   : "unknown";
}

enum v2_error frame_check(const struct frame_head *head, uint32_t max_size, bool *is_stream_error)
{
    *is_stream_error = false;
    bool is_known = head->type < sizeof(rules) / sizeof(rules[0]) &&
                    (head->type <= FRAME_CONTINUATION || head->type == FRAME_PRIORITY_UPDATE);
    if (head->length > max_size) {
        /* A frame that changes the state of the connection cannot be ignored (4.2). */
        *is_stream_error = head->stream != 0 && head->type == FRAME_DATA;
        return V2_FRAME_SIZE_ERROR;
    }
    if (!is_known) {
        return V2_NO_ERROR;
    }
    if ((rules[head->type].level == ON_STREAM && head->stream == 0) ||
        (rules[head->type].level == ON_CONNECTION && head->stream != 0)) {
        return V2_PROTOCOL_ERROR;
    }
    if (head->length < rules[head->type].least || head->length > rules[head->type].most) {
        *is_stream_error = rules[head->type].is_size_of_stream;
        return V2_FRAME_SIZE_ERROR;
    }
    if (head->type == FRAME_SETTINGS &&
        ((head->flags & FLAG_ACK) != 0 ? head->length != 0 : head->length % 6 != 0)) {
        return V2_FRAME_SIZE_ERROR;
    }
    return V2_NO_ERROR;
}

struct frame_priority frame_priority_read(const char *at)
{
    return (struct frame_priority){
        .depends_on = get_u32(at) & 0x7fffffff,
        .weight = (uint16_t) ((unsigned char) at[4] + 1),
        .is_exclusive = (get_u32(at) & 0x80000000) != 0,
        .is_there = true,
    };
}

bool frame_unpad(const struct frame_head *head, struct str *payload,
                 struct frame_priority *priority)
{
    size_t padding = 0;

    if (priority != NULL) {
        *priority = (struct frame_priority){0};
    }
    if ((head->flags & FLAG_PADDED) != 0) {
        if (payload->len == 0) {
            return false;
        }
        padding = (unsigned char) payload->data[0];
        *payload = str_skip(*payload, 1);
    }
    if (head->type == FRAME_HEADERS && (head->flags & FLAG_PRIORITY) != 0) {
        if (payload->len < 5) {
            return false;
        }
        if (priority != NULL) {
            *priority = frame_priority_read(payload->data);
        }
        *payload = str_skip(*payload, 5);
    }
    if (padding > payload->len) {
        return false;
    }
    payload->len -= padding;
    return true;
}

/* Parses a member of the dictionary: "u=3", "i", "i=?0"; parameters after ';' are ignored. */
static void priority_member(struct str member, uint8_t *urgency, bool *is_incremental)
{
    struct str rest = member;
    struct str value = str_trim(str_cut(&rest, ';'));

    if (value.len == 3 && value.data[0] == 'u' && value.data[1] == '=' && value.data[2] >= '0' &&
        value.data[2] <= '7') {
        *urgency = (uint8_t) (value.data[2] - '0');
    } else if (str_is(value, "i") || str_is(value, "i=?1")) {
        *is_incremental = true;
    } else if (str_is(value, "i=?0")) {
        *is_incremental = false;
    }
}

void priority_parse(struct str value, uint8_t *urgency, bool *is_incremental)
{
    *urgency = 3;
    *is_incremental = false;
    priority_merge(value, urgency, is_incremental);
}

void priority_merge(struct str value, uint8_t *urgency, bool *is_incremental)
{
    struct str rest = value;

    while (rest.data != NULL) {
        priority_member(str_trim(str_cut(&rest, ',')), urgency, is_incremental);
    }
}
