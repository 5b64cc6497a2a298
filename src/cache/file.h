/* The format of a cache file. Private to this package and its tests. */
#ifndef CACHE_FILE_H
#define CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

/* f0 "Cache1" newline, on little-endian machines
 * */
#define CACHE_FILE_MAGIC 0x0a316568636143f0ull
enum { CACHE_FILE_VERSION = 1, CACHE_TEXTS_MAX = 16 << 20 };

/* The key follows the header on a line of its own, for grep and for tools that purge by it, as with
 * nginx. It is never read here: the key that is used is among the strings. */
#define CACHE_FILE_LABEL "\nKEY: "

/*
 * The beginning of a file, in the machine's byte order. It is followed by the line with the key.
 * The strings (key, etag, vary, head, one after another) are before the body if that was small
 * enough to be gathered in memory, else after it.
 */
struct cache_file_header {
    uint64_t magic;                     /* CACHE_FILE_MAGIC */
    uint32_t version;                   /* CACHE_FILE_VERSION */
    uint32_t header_size;               /* of this struct */
    uint32_t header_crc;                /* of this struct with this member zero */
    uint32_t texts_crc;                 /* of the strings */
    uint64_t content_version;           /* version of the content */
    int64_t valid_until;                /* times of struct cache_meta */
    int64_t stale_while_updating_until; /* as in struct cache_meta */
    int64_t stale_if_error_until;       /* as in struct cache_meta */
    int64_t date;                       /* as in struct cache_meta */
    int64_t last_modified;              /* as in struct cache_meta */
    uint32_t status;                    /* of the response */
    uint32_t key_length;                /* bytes of the string */
    uint32_t etag_length;               /* bytes of the ETag */
    uint32_t vary_length;               /* bytes of Vary */
    uint32_t head_length;               /* bytes of the head */
    uint32_t reserved;                  /* 0 */
    uint8_t main_hash[CACHE_KEY_SIZE];  /* MD5 of the key */
    uint8_t variant[CACHE_KEY_SIZE];    /* of the fields named in vary; zero = none */
    uint64_t texts_offset;              /* of the strings in the file */
    uint64_t body_offset;               /* of the body's first byte */
    uint64_t body_size;                 /* bytes */
};

enum cache_file_result {
    CACHE_FILE_GOOD,
    CACHE_FILE_SHORT,   /* too short, or lengths that do not fit the file */
    CACHE_FILE_FOREIGN, /* another format or version */
    CACHE_FILE_BROKEN,  /* wrong checksum: damaged, or just being written */
};

/* Parses the header at the beginning of a file; file_size 0 = unknown. */
enum cache_file_result cache_file_header_read(struct str bytes, uint64_t file_size,
                                              struct cache_file_header *out);
/* Bytes of all strings, and of the whole file, by a valid header. */
size_t cache_file_texts_size(const struct cache_file_header *header);
uint64_t cache_file_size(const struct cache_file_header *header);
/* Fills key and meta from a valid header and its strings; the slices point into `texts`. */
enum cache_file_result cache_file_texts_read(const struct cache_file_header *header,
                                             struct str texts, struct str *key,
                                             struct cache_meta *meta);
/* Bytes of the header and of the line after it. */
static inline size_t cache_file_front_size(struct str key)
{
    return sizeof(struct cache_file_header) + sizeof(CACHE_FILE_LABEL) - 1 + key.len + 1;
}
/* Makes the header of a response, with texts_offset, body_offset and body_size.
 * cache_file_texts_write writes the strings to out (cache_file_texts_size bytes) and sets their
 * checksum. */
void cache_file_header_make(struct cache_file_header *header, struct str key,
                            const struct cache_meta *meta);
void cache_file_texts_write(struct cache_file_header *header, struct str key,
                            const struct cache_meta *meta, char *out);
/* Sets the header's checksum; to be called last. */
void cache_file_header_seal(struct cache_file_header *header);

#endif
