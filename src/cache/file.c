/* The format of a cache file: a header, strings, the body. */
#include "cache/file.h"

#include <string.h>

#include "base/checksum.h"

_Static_assert(sizeof(struct cache_file_header) == 152, "no hidden bytes in files");

static uint32_t header_crc(const struct cache_file_header *header)
{
    struct cache_file_header copy = *header;

    copy.header_crc = 0;
    return crc32_of((struct str){(const char *) &copy, sizeof(copy)});
}

void cache_file_header_seal(struct cache_file_header *header)
{
    header->header_crc = header_crc(header);
}

size_t cache_file_texts_size(const struct cache_file_header *header)
{
    return (size_t) header->key_length + header->etag_length + header->vary_length +
           header->head_length;
}

uint64_t cache_file_size(const struct cache_file_header *header)
{
    uint64_t texts_end = header->texts_offset + cache_file_texts_size(header);
    uint64_t body_end = header->body_offset + header->body_size;

    return texts_end > body_end ? texts_end : body_end;
}

/* Are the parts after the header, without overlap, and of valid sizes? */
static bool parts_are_right(const struct cache_file_header *header)
{
    uint64_t texts = (uint64_t) header->key_length + header->etag_length + header->vary_length +
                     header->head_length;

    if (texts > CACHE_TEXTS_MAX || header->body_size > INT64_MAX / 2 ||
        header->texts_offset > INT64_MAX / 2 || header->body_offset > INT64_MAX / 2 ||
        header->texts_offset < sizeof(*header) || header->body_offset < sizeof(*header)) {
        return false;
    }
    return header->texts_offset + texts <= header->body_offset ||
           header->body_offset + header->body_size <= header->texts_offset;
}

enum cache_file_result cache_file_header_read(struct str bytes, uint64_t file_size,
                                              struct cache_file_header *out)
{
    if (bytes.len < sizeof(out->magic) + sizeof(out->version)) {
        return CACHE_FILE_SHORT;
    }
    memset(out, 0, sizeof(*out));
    memcpy(out, bytes.data, bytes.len < sizeof(*out) ? bytes.len : sizeof(*out));
    if (out->magic != CACHE_FILE_MAGIC || out->version != CACHE_FILE_VERSION) {
        return CACHE_FILE_FOREIGN;
    }
    if (bytes.len < sizeof(*out)) {
        return CACHE_FILE_SHORT;
    }
    if (out->header_size != sizeof(*out) || out->header_crc != header_crc(out) ||
        !parts_are_right(out)) {
        return CACHE_FILE_BROKEN;
    }
    if (file_size != 0 && cache_file_size(out) != file_size) {
        return CACHE_FILE_SHORT;
    }
    return CACHE_FILE_GOOD;
}

static struct str cut_bytes(struct str *rest, size_t length)
{
    struct str part = str_head(*rest, length);

    *rest = str_skip(*rest, part.len);
    return part;
}

enum cache_file_result cache_file_texts_read(const struct cache_file_header *header,
                                             struct str texts, struct str *key,
                                             struct cache_meta *meta)
{
    if (texts.len != cache_file_texts_size(header)) {
        return CACHE_FILE_SHORT;
    }
    if (crc32_of(texts) != header->texts_crc) {
        return CACHE_FILE_BROKEN;
    }
    memset(meta, 0, sizeof(*meta));
    meta->valid_until = (time_t) header->valid_until;
    meta->stale_while_updating_until = (time_t) header->stale_while_updating_until;
    meta->stale_if_error_until = (time_t) header->stale_if_error_until;
    meta->date = (time_t) header->date;
    meta->last_modified = (time_t) header->last_modified;
    meta->status = header->status;
    memcpy(meta->variant, header->variant, sizeof(meta->variant));
    meta->body_size = header->body_size;
    *key = cut_bytes(&texts, header->key_length);
    meta->etag = cut_bytes(&texts, header->etag_length);
    meta->vary = cut_bytes(&texts, header->vary_length);
    meta->head = cut_bytes(&texts, header->head_length);
    return CACHE_FILE_GOOD;
}

void cache_file_header_make(struct cache_file_header *header, struct str key,
                            const struct cache_meta *meta)
{
    memset(header, 0, sizeof(*header));
    header->magic = CACHE_FILE_MAGIC;
    header->version = CACHE_FILE_VERSION;
    header->header_size = sizeof(*header);
    header->valid_until = meta->valid_until;
    header->stale_while_updating_until = meta->stale_while_updating_until;
    header->stale_if_error_until = meta->stale_if_error_until;
    header->date = meta->date;
    header->last_modified = meta->last_modified;
    header->status = meta->status;
    header->key_length = (uint32_t) key.len;
    header->etag_length = (uint32_t) meta->etag.len;
    header->vary_length = (uint32_t) meta->vary.len;
    header->head_length = (uint32_t) meta->head.len;
    memcpy(header->variant, meta->variant, sizeof(header->variant));
    header->texts_offset = cache_file_front_size(key);
    header->body_offset = header->texts_offset + cache_file_texts_size(header);
    header->body_size = meta->body_size;
}

void cache_file_texts_write(struct cache_file_header *header, struct str key,
                            const struct cache_meta *meta, char *out)
{
    char *at = str_put(out, key);

    at = str_put(at, meta->etag);
    at = str_put(at, meta->vary);
    at = str_put(at, meta->head);
    header->texts_crc = crc32_of(str_from(out, at));
}
