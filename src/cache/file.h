/* The format of a file of the cache. Private to this package, and to its tests. */
#ifndef CACHE_FILE_H
#define CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

#define CACHE_FILE_MAGIC                                                                           \
    0x0a316568636143f0ull /* f0 "Cache1" newline, on little-endian machines                        \
                           */
enum { CACHE_FILE_VERSION = 1, CACHE_TEXTS_MAX = 16 << 20 };

/* After the header stands the key on a line of its own, for grep and for tools that purge by it as
 * they do with nginx. Nothing here reads it: the key that counts is among the texts. */
#define CACHE_FILE_LABEL "\nKEY: "

/*
 * The first bytes of a file, in the machine's byte order. After it and the line with the key, the
 * texts (key, etag, vary, head, one after the other) lie before the body when it was small enough
 * to be gathered in memory, else after it.
 */
struct cache_file_header {
    uint64_t magic;                     /* CACHE_FILE_MAGIC */
    uint32_t version;                   /* CACHE_FILE_VERSION */
    uint32_t header_size;               /* of this struct */
    uint32_t header_crc;                /* of this struct with this member zero */
    uint32_t texts_crc;                 /* of the texts */
    uint64_t content_version;           /* stamp of the content */
    int64_t valid_until;                /* the times of struct cache_meta */
    int64_t stale_while_updating_until; /* as in struct cache_meta */
    int64_t stale_if_error_until;       /* as in struct cache_meta */
    int64_t date;                       /* as in struct cache_meta */
    int64_t last_modified;              /* as in struct cache_meta */
    uint32_t status;                    /* of the response */
    uint32_t key_length;                /* bytes of each text */
    uint32_t etag_length;               /* bytes of the ETag */
    uint32_t vary_length;               /* bytes of Vary */
    uint32_t head_length;               /* bytes of the head */
    uint32_t reserved;                  /* 0 */
    uint8_t main_hash[CACHE_KEY_SIZE];  /* MD5 of the key */
    uint8_t variant[CACHE_KEY_SIZE];    /* of the fields that vary names; zero = none */
    uint64_t texts_offset;              /* of the texts in the file */
    uint64_t body_offset;               /* of the body's first byte */
    uint64_t body_size;                 /* bytes */
};

enum cache_file_result {
    CACHE_FILE_GOOD,
    CACHE_FILE_SHORT,   /* too few bytes, or lengths that do not fit the file */
    CACHE_FILE_FOREIGN, /* another format, or another version of ours */
    CACHE_FILE_BROKEN,  /* a checksum is wrong: damaged, or being written right now */
};

/* Reads the header from the first bytes of a file; file_size 0 = not known. */
enum cache_file_result cache_file_header_read(struct str bytes, uint64_t file_size,
                                              struct cache_file_header *out);
/* Bytes of all texts, and of the whole file. Of a good header. */
size_t cache_file_texts_size(const struct cache_file_header *header);
uint64_t cache_file_size(const struct cache_file_header *header);
/* Fills key and meta from a good header and its texts, which the slices point into. */
enum cache_file_result cache_file_texts_read(const struct cache_file_header *header,
                                             struct str texts, struct str *key,
                                             struct cache_meta *meta);
/* Bytes of the header and of the line after it. */
static inline size_t cache_file_front_size(struct str key)
{
    return sizeof(struct cache_file_header) + sizeof(CACHE_FILE_LABEL) - 1 + key.len + 1;
}
/* The header of a response; texts_offset, body_offset and body_size are set. The texts as they are
 * to be written go to out (cache_file_texts_size of them). */
void cache_file_header_make(struct cache_file_header *header, struct str key,
                            const struct cache_meta *meta);
void cache_file_texts_write(struct cache_file_header *header, struct str key,
                            const struct cache_meta *meta, char *out);
/* Checksum, when all else is set. */
void cache_file_header_seal(struct cache_file_header *header);

#endif
