/* Format and size of an image from its first bytes. */
#include "http/message/image_head.h"

static const struct {
    struct str name;
    struct str media_type;
} kinds[] = {
    [IMAGE_NONE] = {STR_INIT(""), STR_INIT("")},
    [IMAGE_JPEG] = {STR_INIT("jpeg"), STR_INIT("image/jpeg")},
    [IMAGE_GIF] = {STR_INIT("gif"), STR_INIT("image/gif")},
    [IMAGE_PNG] = {STR_INIT("png"), STR_INIT("image/png")},
    [IMAGE_WEBP] = {STR_INIT("webp"), STR_INIT("image/webp")},
};

struct str image_kind_name(enum image_kind kind)
{
    return kinds[kind].name;
}

struct str image_media_type(enum image_kind kind)
{
    return kinds[kind].media_type;
}

enum image_kind image_kind_of(struct str bytes)
{
    if (str_starts(bytes, STR("\xff\xd8"))) {
        return IMAGE_JPEG;
    }
    if (str_starts(bytes, STR("GIF87a")) || str_starts(bytes, STR("GIF89a"))) {
        return IMAGE_GIF;
    }
    if (str_starts(bytes, STR("\x89PNG\r\n\x1a\n"))) {
        return IMAGE_PNG;
    }
    if (bytes.len >= IMAGE_KIND_BYTES && str_starts(bytes, STR("RIFF")) &&
        str_starts(str_skip(bytes, 8), STR("WEBPVP8"))) {
        char c = bytes.data[15];
        return c == ' ' || c == 'L' || c == 'X' ? IMAGE_WEBP : IMAGE_NONE;
    }
    return IMAGE_NONE;
}

static uint32_t byte_at(struct str s, size_t at)
{
    return (unsigned char) s.data[at];
}

static uint32_t big16(struct str s, size_t at)
{
    return byte_at(s, at) << 8 | byte_at(s, at + 1);
}

static uint32_t little16(struct str s, size_t at)
{
    return byte_at(s, at) | byte_at(s, at + 1) << 8;
}

static uint32_t little24(struct str s, size_t at)
{
    return little16(s, at) | byte_at(s, at + 2) << 16;
}

/* Frame headers; not C4, C8 and CC, which are tables and an extension (ITU T.81, B.1.1.3). */
static bool is_frame(uint32_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Walks the segments up to the frame header. */
static bool parse_jpeg(struct str bytes, struct image_head *out)
{
    size_t at = 2;

    while (at + 4 <= bytes.len) {
        if (byte_at(bytes, at) != 0xff) {
            return false;
        }
        uint32_t marker = byte_at(bytes, at + 1);
        if (marker == 0xff) { /* padding */
            at++;
            continue;
        }
        if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) { /* without contents */
            at += 2;
            continue;
        }
        /* The end, or a scan; 0 is not a marker: decoders search for one after it, while this
         * parser would read a length. */
        if (marker == 0xd9 || marker == 0xda || marker == 0) {
            return false;
        }
        uint32_t length = big16(bytes, at + 2);
        if (length < 2) {
            return false;
        }
        if (is_frame(marker)) {
            if (length < 8 || at + 9 > bytes.len) {
                return false;
            }
            out->height = big16(bytes, at + 5);
            out->width = big16(bytes, at + 7);
            return true;
        }
        at += 2 + (size_t) length;
    }
    return false;
}

static bool parse_png(struct str bytes, struct image_head *out)
{
    if (bytes.len < 24 || !str_starts(str_skip(bytes, 12), STR("IHDR"))) {
        return false;
    }
    out->width = big16(bytes, 16) << 16 | big16(bytes, 18);
    out->height = big16(bytes, 20) << 16 | big16(bytes, 22);
    return true;
}

static bool parse_gif(struct str bytes, struct image_head *out)
{
    if (bytes.len < 10) {
        return false;
    }
    out->width = little16(bytes, 6);
    out->height = little16(bytes, 8);
    return true;
}

/* RFC 9649: lossy, lossless and extended files. */
static bool parse_webp(struct str bytes, struct image_head *out)
{
    if (bytes.len < 25) {
        return false;
    }
    switch (bytes.data[15]) {
    case ' ': {
        if (bytes.len < 30 || !str_starts(str_skip(bytes, 23), STR("\x9d\x01\x2a"))) {
            return false;
        }
        out->width = little16(bytes, 26) & 0x3fff;
        out->height = little16(bytes, 28) & 0x3fff;
        return true;
    }
    case 'L': {
        if (bytes.data[20] != 0x2f) {
            return false;
        }
        uint32_t bits = little24(bytes, 21) | byte_at(bytes, 24) << 24;
        out->width = (bits & 0x3fff) + 1;
        out->height = (bits >> 14 & 0x3fff) + 1;
        return true;
    }
    default:
        if (bytes.len < 30) {
            return false;
        }
        out->width = little24(bytes, 24) + 1;
        out->height = little24(bytes, 27) + 1;
        return true;
    }
}

bool image_head_parse(struct str bytes, struct image_head *out)
{
    bool is_good = false;

    *out = (struct image_head){.kind = image_kind_of(bytes)};
    switch (out->kind) {
    case IMAGE_JPEG:
        is_good = parse_jpeg(bytes, out);
        break;
    case IMAGE_PNG:
        is_good = parse_png(bytes, out);
        break;
    case IMAGE_GIF:
        is_good = parse_gif(bytes, out);
        break;
    case IMAGE_WEBP:
        is_good = parse_webp(bytes, out);
        break;
    case IMAGE_NONE:
        break;
    }
    return is_good && out->width != 0 && out->height != 0;
}

unsigned image_scans(enum image_kind kind, struct str bytes)
{
    unsigned scans = 0;
    const char *at;

    while (kind == IMAGE_JPEG && (at = str_find(bytes, STR("\xff\xda"))) != NULL) {
        bytes = str_from(at + 2, bytes.data + bytes.len);
        scans++;
    }
    return scans;
}
