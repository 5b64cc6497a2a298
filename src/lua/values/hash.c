/* Hashes for Lua: ngx.md5 and similar functions. */
#include "base/checksum.h"
#include "base/parse.h"
#include "base/text.h"
#include "lua/values/ffi.h"

enum { MD5_SIZE = 16 };

void script_ffi_md5_bin(const char *data, size_t len, char *out)
{
    md5_of((struct str){data, len}, (unsigned char *) out);
}

void script_ffi_md5(const char *data, size_t len, char *out)
{
    unsigned char sum[MD5_SIZE];

    md5_of((struct str){data, len}, sum);
    hex_encode(out, sum, sizeof(sum));
}

void script_ffi_sha1_bin(const char *data, size_t len, char *out)
{
    sha1_of((struct str){data, len}, (unsigned char *) out);
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
