/* Hashes for Lua: ngx.md5 and similar functions. */
#include "base/checksum.h"
#include "base/parse.h"
#include "base/text.h"
#include "lua/values/ffi.h"

enum { MD5_SIZE = 16, SHA1_SIZE = 20 };

void script_ffi_md5_bin(const char *data, size_t len, struct script_text *out)
{
    char *sum = script_scratch(MD5_SIZE);

    md5_of((struct str){data, len}, (unsigned char *) sum);
    *out = (struct script_text){sum, MD5_SIZE};
}

void script_ffi_md5(const char *data, size_t len, struct script_text *out)
{
    unsigned char sum[MD5_SIZE];
    char *hex = script_scratch(2 * MD5_SIZE);

    md5_of((struct str){data, len}, sum);
    hex_encode(hex, sum, sizeof(sum));
    *out = (struct script_text){hex, 2 * MD5_SIZE};
}

void script_ffi_sha1_bin(const char *data, size_t len, struct script_text *out)
{
    char *sum = script_scratch(SHA1_SIZE);

    sha1_of((struct str){data, len}, (unsigned char *) sum);
    *out = (struct script_text){sum, SHA1_SIZE};
}

double script_ffi_crc32(const char *data, size_t len)
{
    return crc32_of((struct str){data, len});
}

unsigned char *ngx_hex_dump(unsigned char *out, const unsigned char *data, size_t len)
{
    return (unsigned char *) hex_encode((char *) out, data, len);
}

intptr_t ngx_atoi(const unsigned char *digits, size_t len)
{
    uint64_t number;

    return parse_uint((struct str){(const char *) digits, len}, &number) && number <= INTPTR_MAX
               ? (intptr_t) number
               : -1;
}

intptr_t ngx_hextoi(const unsigned char *digits, size_t len)
{
    uint64_t number;

    return parse_hex((struct str){(const char *) digits, len}, &number) && number <= INTPTR_MAX
               ? (intptr_t) number
               : -1;
}

intptr_t ngx_parse_time(const struct script_ngx_str *text, uintptr_t in_seconds)
{
    struct str time = {(const char *) text->data, text->len};
    uint64_t value;
    bool is_time = in_seconds != 0 ? parse_sec(time, &value) : parse_msec(time, &value);

    return is_time && value <= INTPTR_MAX ? (intptr_t) value : -1;
}
