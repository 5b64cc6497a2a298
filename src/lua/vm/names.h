/* Names by which FFI code of users finds C functions in the executable, as in OpenResty.
 * docs/lua.md lists them. */
#ifndef LUA_VM_NAMES_H
#define LUA_VM_NAMES_H

/* The name by which FFI code of users knows a function, in http and in stream. */
#define SCRIPT_FFI_NAME(own, name)                                                                 \
    extern __typeof__(own) ngx_http_lua_ffi_##name __attribute__((alias(#own)));                   \
    extern __typeof__(own) ngx_stream_lua_ffi_##name __attribute__((alias(#own)))

/* The same of a function of lua-resty-openssl's module in C, which gives what is behind TLS. */
#define SCRIPT_OPENSSL_NAME(own, name)                                                             \
    extern __typeof__(own) ngx_http_lua_resty_openssl_aux_##name __attribute__((alias(#own)));     \
    extern __typeof__(own) ngx_stream_lua_resty_openssl_aux_##name __attribute__((alias(#own)))

#endif
