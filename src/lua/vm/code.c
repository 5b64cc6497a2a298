/* Lua texts: compiled, kept and found again. */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "conf/template.h"
#include "lua/vm/thread.h"
#include "lua/vm/vm.h"

static char files_key; /* its address: the table of functions by path, in the registry */

/* "cannot open PATH: No such file or directory" on the stack; gives the status. */
static int file_failed(lua_State *L, const char *what, const char *path, int error)
{
    lua_pushfstring(L, "failed to load external Lua file \"%s\": cannot %s %s: %s", path, what,
                    path, strerror(error));
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        return 404;
    case EACCES:
        return 403;
    default:
        return 503;
    }
}

/* Can it be read at all? Gives 0, or the status, with a message on the stack. */
static int look_at_file(lua_State *L, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;

    if (fd < 0) {
        return file_failed(L, "open", path, errno);
    }
    bool is_folder = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    close(fd);
    return is_folder ? file_failed(L, "read", path, EISDIR) : 0;
}

/* Leaves a function, or a message, on L; gives 0 or a status. */
static int load_file(lua_State *L, const char *path)
{
    int status = look_at_file(L, path);

    if (status != 0 || luaL_loadfile(L, path) == 0) {
        return status;
    }
    lua_pushfstring(L, "failed to load external Lua file \"%s\": %s", path, lua_tostring(L, -1));
    lua_remove(L, -2);
    return 500;
}

static int load_text(lua_State *L, const struct script_code *code)
{
    if (luaL_loadbuffer(L, code->text.data, code->text.len, code->chunk.data) == 0) {
        return 0;
    }
    lua_pushfstring(L, "failed to load inlined Lua code: %s", lua_tostring(L, -1));
    lua_remove(L, -2);
    return 500;
}

struct str script_code_check(const struct script_code *code, struct arena *arena)
{
    struct str message = STR("");

    if (code->path != NULL && !code->path->is_constant) {
        return message;
    }
    lua_State *L = luaL_newstate();
    if (L == NULL) {
        return STR("no memory");
    }
    int status = code->path != NULL ? load_file(L, code->path->constant.data) : load_text(L, code);
    if (status != 0) {
        message = arena_dup(arena, str_of(lua_tostring(L, -1)));
    }
    lua_close(L);
    return message;
}

/* The function of a file whose name is known only now, from the table of those. */
static int push_file(struct script_subject *subject, lua_State *L, const struct script_code *code)
{
    struct str path = template_eval(code->path, subject->kind->variables(subject));

    lua_pushlightuserdata(L, &files_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushlightuserdata(L, &files_key);
        lua_pushvalue(L, -2);
        lua_rawset(L, LUA_REGISTRYINDEX);
    }
    lua_getfield(L, -1, path.data);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        int status = load_file(L, path.data);

        if (status != 0) {
            lua_remove(L, -2);
            return status;
        }
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, path.data);
    }
    lua_remove(L, -2);
    return 0;
}

int script_code_push(struct script_subject *subject, lua_State *L, const struct script_code *code)
{
    struct script_vm *vm = subject->vm;
    int reference = vm->functions[code->number];
    int status;

    if (reference != LUA_NOREF) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
        return 0;
    }
    if (code->path != NULL && !code->path->is_constant) {
        return push_file(subject, L, code);
    }
    status = code->path != NULL ? load_file(L, code->path->constant.data) : load_text(L, code);
    if (status == 0) {
        lua_pushvalue(L, -1);
        vm->functions[code->number] = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    return status;
}
