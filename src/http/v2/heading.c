/* A header block, field by field, on its way to a head or to trailers. */
#include "http/v2/heading.h"
#include "server/generation.h"

/* The names of HPACK's static table, where the server knows them. */
static const stream_name static_names[62] = {
    [0] = STREAM_NAME_UNKNOWN,
    [1] = STREAM_PSEUDO(PSEUDO_AUTHORITY),
    [2] = STREAM_PSEUDO(PSEUDO_METHOD),
    [3] = STREAM_PSEUDO(PSEUDO_METHOD),
    [4] = STREAM_PSEUDO(PSEUDO_PATH),
    [5] = STREAM_PSEUDO(PSEUDO_PATH),
    [6] = STREAM_PSEUDO(PSEUDO_SCHEME),
    [7] = STREAM_PSEUDO(PSEUDO_SCHEME),
    [8 ... 14] = STREAM_PSEUDO(PSEUDO_NONE), /* :status */
    [15] = FIELD_OTHER,
    [16] = FIELD_ACCEPT_ENCODING,
    [17] = FIELD_OTHER,
    [18] = FIELD_ACCEPT_RANGES,
    [19] = FIELD_OTHER,
    [20] = FIELD_OTHER,
    [21] = FIELD_OTHER,
    [22] = FIELD_OTHER,
    [23] = FIELD_AUTHORIZATION,
    [24] = FIELD_CACHE_CONTROL,
    [25] = FIELD_OTHER,
    [26] = FIELD_CONTENT_ENCODING,
    [27] = FIELD_OTHER,
    [28] = FIELD_CONTENT_LENGTH,
    [29] = FIELD_OTHER,
    [30] = FIELD_CONTENT_RANGE,
    [31] = FIELD_CONTENT_TYPE,
    [32] = FIELD_COOKIE,
    [33] = FIELD_DATE,
    [34] = FIELD_ETAG,
    [35] = FIELD_EXPECT,
    [36] = FIELD_EXPIRES,
    [37] = FIELD_OTHER,
    [38] = FIELD_HOST,
    [39] = FIELD_IF_MATCH,
    [40] = FIELD_IF_MODIFIED_SINCE,
    [41] = FIELD_IF_NONE_MATCH,
    [42] = FIELD_IF_RANGE,
    [43] = FIELD_IF_UNMODIFIED_SINCE,
    [44] = FIELD_LAST_MODIFIED,
    [45] = FIELD_LINK,
    [46] = FIELD_LOCATION,
    [47] = FIELD_OTHER,
    [48] = FIELD_OTHER,
    [49] = FIELD_OTHER,
    [50] = FIELD_RANGE,
    [51] = FIELD_REFERER,
    [52] = FIELD_REFRESH,
    [53] = FIELD_OTHER,
    [54] = FIELD_SERVER,
    [55] = FIELD_SET_COOKIE,
    [56] = FIELD_OTHER,
    [57] = FIELD_TRANSFER_ENCODING,
    [58] = FIELD_USER_AGENT,
    [59] = FIELD_VARY,
    [60] = FIELD_VIA,
    [61] = FIELD_WWW_AUTHENTICATE,
};
bool heading_decode(struct v2_connection *c, struct stream_head *head, struct str block)
{
    size_t most = head->limits->head_max * STREAM_HEAD_EXPANSION_MAX;
    struct coded_field field;

    for (;;) {
        switch (hpack_decode(&c->decoder, &block, &head->request->arena, most, &field)) {
        case HPACK_FIELD:
            stream_head_take(head, &field, static_names[field.static_index]);
            if (stream_head_unpacked(head) > most) {
                v2_guard_failed(c, "bytes in compressed headers");
                return false;
            }
            break;
        case HPACK_END:
            return true;
        case HPACK_BAD:
            v2_fail(c, V2_COMPRESSION_ERROR, "sent a malformed header block");
            return false;
        }
    }
}
