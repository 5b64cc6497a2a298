/* Bytes that a function called by FFI gives back: Lua makes a string of them at once. Implemented in ffi.c. */
#ifndef LUA_VM_SCRATCH_H
#define LUA_VM_SCRATCH_H

#include <stddef.h>

/* A text for Lua: `struct script_text` of library/ffi.lua. */
struct script_text {
    const char
        *data;  /* in the scratch, or of the caller that gave it; until the next call by FFI */
    size_t len; /* bytes */
};

/* Room for so many bytes, of this thread, until it is asked for again. */
char *script_scratch(size_t size);

#endif
