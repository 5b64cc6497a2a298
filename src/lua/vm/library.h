/* Modules in Lua that are built in: their texts are taken in by the assembler. */
#ifndef LUA_VM_LIBRARY_H
#define LUA_VM_LIBRARY_H

#include <lua.h>

#include "base/str.h"

/* The text of a file, whose path begins at the root of the repository, under a name:
 * SCRIPT_TEXT_OF(name). */
#define SCRIPT_TEXT(name, file)                                                                    \
    extern const char name##_begin[], name##_end[];                                                \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #name "_begin\n" #name "_begin:\n"                                          \
            ".incbin \"" file "\"\n"                                                               \
            ".global " #name "_end\n" #name "_end:\n"                                              \
            ".byte 0\n"                                                                            \
            ".popsection\n");
#define SCRIPT_TEXT_OF(name) str_from(name##_begin, name##_end)

/* Puts those of src/lua/library into package.preload. */
void script_library_add(lua_State *L);

/* Pushes the text as a function. Throws where it is no Lua. */
void script_text_load(lua_State *L, const char *name, struct str text);
/* Runs a text; takes so many arguments from the stack, and leaves nothing. Throws what goes wrong.
 */
void script_text_run(lua_State *L, const char *name, struct str text, int arguments);

#endif
