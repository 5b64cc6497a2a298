"""What Lua declares of C by ffi.cdef, compared with what the compiler sees of the same names.

Pointers to bytes, to void and to structs that one side does not know are alike; all other types have to have the same
size and kind, and structs the same members. Of a struct that C allocates Lua may know the first members only.
"""

import glob
import os
import re
import shlex
import subprocess

CDEF = re.compile(r"ffi\.cdef\s*\[\[(.*?)\]\]", re.S)
FUNCTION = re.compile(r"(?:^|[;}])\s*((?:\w+[\s*]+)+)(\w+)\s*\(([^()]*)\)\s*(?=[;{])")
DATA = re.compile(r"extern\s+struct\s+(\w+)\s*\{[^{}]*\}\s*(\w+)\s*;")
NAMED_BY_MACRO = re.compile(r"extern __typeof__\((\w+)\) (\w+) __attribute__\(\(alias")

KINDS = {
    "void": "void", "double": "double", "_Bool": "bool", "bool": "bool",
    "char": "byte", "unsigned char": "byte", "uint8_t": "byte", "uint16_t": "u16",
    "int": "i32", "unsigned": "u32", "unsigned int": "u32", "uint32_t": "u32",
    "long": "i64", "time_t": "i64", "size_t": "u64", "uint64_t": "u64",
}


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


class Side:
    """The declarations of one side, by name: bodies of structs, and functions as (result, parameters)."""

    def __init__(self, text):
        self.bodies = dict(re.findall(r"\bstruct\s+(\w+)\s*\{([^{}]*)\}", text))
        self.bodies.update((name, body) for body, name in
                           re.findall(r"\btypedef\s+struct\s*\{([^{}]*)\}\s*(\w+)\s*;", text))
        self.functions = {name: (result, parameters) for result, name, parameters in FUNCTION.findall(text)}

    def kind(self, written, follows=True):
        """A scalar's kind, or a pointer as ("pointer", what it points to): a kind, members, or None for anything."""
        words = re.sub(r"\b(const|struct|static|extern|inline)\b", " ", written.replace("*", " * ")).split()
        stars = words.count("*")
        name = " ".join(word for word in words if word != "*")
        if stars > 1:
            return "pointer", "pointer"
        if stars == 0:
            return KINDS.get(name) or self.members(name)
        if name in KINDS:
            return "pointer", None if KINDS[name] in ("byte", "void") else KINDS[name]
        return "pointer", self.members(name) if follows else None

    def members(self, name):
        """Kinds of a struct's members, those of nested structs among them; None: it is not known here."""
        body = self.bodies.get(name)
        if body is None:
            return None
        found = []
        for line in body.split(";"):
            match = re.match(r"\s*((?:const\s+)?(?:unsigned(?:\s+(?:int|char)\b)?|(?:struct\s+)?\w+))\b(.*)", line, re.S)
            for declarator in match.group(2).split(",") if match and match.group(2).strip() else []:
                # Members of a struct that a pointer points to might lead back here.
                kind = self.kind(match.group(1) + " *" * declarator.count("*"), follows="*" not in declarator)
                found += kind if isinstance(kind, list) else [kind]
        return found

    def parameters(self, written):
        if written.strip() in ("", "void"):
            return []
        return [self.kind(re.sub(r"(?<=[\s*])\w+\s*$", "", one.strip())) for one in written.split(",")]

    def types(self, name):
        """Kinds of a function's result and parameters; None: there is none."""
        if name not in self.functions:
            return None
        result, parameters = self.functions[name]
        return [self.kind(result)] + self.parameters(parameters)


def is_like(lua, c, is_made_by_c):
    if isinstance(lua, tuple) and isinstance(c, tuple):
        if lua[1] is None or c[1] is None:
            return True
        if isinstance(lua[1], list) and isinstance(c[1], list):
            return lua[1] == c[1] or (is_made_by_c and c[1][:len(lua[1])] == lua[1])
    return lua == c


def declared(folders):
    """(file, text) of all cdefs."""
    for top in folders:
        for path in sorted(glob.glob(top + "**/*.lua", recursive=True)):
            with open(path, encoding="utf-8") as text:
                for match in CDEF.finditer(text.read()):
                    yield path, without_comments(match.group(1))


def compare(cdefs, c_text):
    """Errors of the cdefs, (file, text) each, against preprocessed C."""
    lua, c = Side("\n".join(text for _, text in cdefs)), Side(c_text)
    aliases = {name: own for own, name in NAMED_BY_MACRO.findall(c_text)}
    made_by_c = {match.group(1) for _, text in cdefs
                 for match in re.finditer(r"struct\s+(\w+)\s*\*\s*(?:\w+\s*\(|\*)", text)}
    found = []
    for path, text in cdefs:
        for name, (result, parameters) in Side(text).functions.items():
            ours, theirs = lua.types(name), c.types(aliases.get(name, name))
            written = [result] + parameters.split(",")
            made = [any(re.search(r"\b%s\b" % struct, one) for struct in made_by_c) for one in written]
            if theirs is None:
                found.append("%s:1: %s is declared for FFI, and C has no such function" % (path, name))
            elif len(ours) != len(theirs) or not all(map(is_like, ours, theirs, made)):
                found.append("%s:1: %s is declared for FFI otherwise than in C" % (path, name))
        for struct, name in DATA.findall(text):
            match = re.search(r"extern\s+(?:_Thread_local\s+|__thread\s+)?struct\s+(\w+)\s+%s\b" % name, c_text)
            ours, theirs = lua.members(struct), match and c.members(match.group(1))
            if not theirs or theirs[:len(ours)] != ours:
                found.append("%s:1: %s is declared for FFI otherwise than in C" % (path, name))
    return found


def preprocessed(build, paths):
    """All the sources as the compiler sees them, in one text; empty where `build` has no Lua."""
    with open(os.path.join(build, "config.mk"), encoding="utf-8") as file:
        config = file.read()
    if "/modules/lua/" not in config:
        return ""
    values = {name: shlex.split(value)
              for name, value in re.findall(r"^(CC|CONFIGURED_CFLAGS)\s*:?=[ \t]*(.*)", config, re.M)}
    command = values["CC"] + values["CONFIGURED_CFLAGS"] + ["-w", "-E", "-P", "-I.", "-Isrc", "-I" + build, "-"]
    includes = "#define _GNU_SOURCE\n" + "".join('#include "%s"\n' % path for path in paths)
    return without_comments(subprocess.run(command, input=includes, stdout=subprocess.PIPE, text=True, check=True).stdout)


def errors(build, sources):
    folders = ("src/lua/", "src/http/modules/lua/", "src/stream/modules/lua/")
    cdefs = list(declared(folders))
    names = {name for _, text in cdefs for name in Side(text).functions}
    paths = []
    for path in sources:
        if path.endswith(".c") and path.startswith(folders):
            with open(path, encoding="utf-8") as text:
                words = set(re.findall(r"\w+", text.read()))
            if words & (names | {"SCRIPT_FFI_NAME"}):
                paths.append(path)
    c_text = preprocessed(build, paths)
    return compare(cdefs, c_text) if c_text else []
