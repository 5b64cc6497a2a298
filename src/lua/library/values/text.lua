-- Hashes and encodings: ngx.md5, ngx.escape_uri, ngx.encode_base64 and their kin.
local ngx = ...
local ffi = require "ffi"
local C = ffi.C
local string_of, max = ffi.string, math.max
local type, tostring, error, select = type, tostring, error, select

ffi.cdef [[
void script_ffi_md5(const char *data, size_t len, char *out);
void script_ffi_md5_bin(const char *data, size_t len, char *out);
void script_ffi_sha1_bin(const char *data, size_t len, char *out);
double script_ffi_crc32(const char *data, size_t len);
int script_ffi_escape_uri(const char *data, size_t len, int kind, char *out);
int script_ffi_unescape_uri(const char *data, size_t len, char *out);
int script_ffi_encode_base64(const char *data, size_t len, int how, char *out);
int script_ffi_decode_base64(const char *data, size_t len, int how, char *out);
int script_ffi_quote_sql(const char *data, size_t len, char *out);
]]

local buffer = require "portunus.buffer"
local usual, SIZE, make = buffer.usual, buffer.SIZE, buffer.make
local MD5_SIZE, SHA1_SIZE = 16, 20 -- bytes

-- A value that is no string becomes one; nil and false count as empty. This is written out in each function: with a function of its own,
-- that one was compiled before the loop of the script, and the loop then was no trace of its own.

-- ---- hashes

function ngx.md5(value)
    if type(value) ~= "string" then
        value = value and tostring(value) or ""
    end
    C.script_ffi_md5(value, #value, usual)
    return (string_of(usual, 2 * MD5_SIZE))
end

function ngx.md5_bin(value)
    if type(value) ~= "string" then
        value = value and tostring(value) or ""
    end
    C.script_ffi_md5_bin(value, #value, usual)
    return (string_of(usual, MD5_SIZE))
end

function ngx.sha1_bin(value)
    if type(value) ~= "string" then
        value = value and tostring(value) or ""
    end
    C.script_ffi_sha1_bin(value, #value, usual)
    return (string_of(usual, SHA1_SIZE))
end

local sha1_bin = ngx.sha1_bin

function ngx.crc32_short(value)
    if type(value) ~= "string" then
        value = value and tostring(value) or ""
    end
    return C.script_ffi_crc32(value, #value)
end

ngx.crc32_long = ngx.crc32_short

-- An argument that is a string or a number, or an error as of luaL_checkstring.
local function check_text(value, number, name)
    local kind = type(value)
    if kind == "string" then
        return value
    end
    if kind == "number" then
        return tostring(value)
    end
    error("bad argument #" .. number .. " to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end

-- RFC 2104.
local BLOCK = 64
local byte, char, rep, gsub = string.byte, string.char, string.rep, string.gsub
local bxor = require("bit").bxor

local function pad_key(key, with)
    return (gsub(key .. rep("\0", BLOCK - #key), ".", function(c)
        return char(bxor(byte(c), with))
    end))
end

function ngx.hmac_sha1(...)
    if select("#", ...) ~= 2 then
        error("expecting 2 arguments, but got " .. select("#", ...), 2)
    end
    local key, value = ...
    key = check_text(key, 1, "hmac_sha1")
    value = check_text(value, 2, "hmac_sha1")
    if #key > BLOCK then
        key = sha1_bin(key)
    end
    return sha1_bin(pad_key(key, 0x5c) .. sha1_bin(pad_key(key, 0x36) .. value))
end

-- ---- percent

function ngx.escape_uri(value, kind)
    if kind == nil then
        kind = 2
    elseif type(kind) ~= "number" then
        error("\"type\" is not a number", 3)
    elseif not (kind >= 0 and kind <= 6) then
        error("\"type\" " .. kind .. " out of range", 3)
    end
    if type(value) ~= "string" then
        value = value and tostring(value) or ""
    end
    local out = usual
    if 3 * #value > SIZE then
        out = make(3 * #value)
    end
    local len = C.script_ffi_escape_uri(value, #value, kind, out)
    return (string_of(out, len))
end

function ngx.unescape_uri(value)
    if type(value) ~= "string" then
        value = value and tostring(value) or ""
    end
    local out = usual
    if #value > SIZE then
        out = make(#value)
    end
    local len = C.script_ffi_unescape_uri(value, #value, out)
    return (string_of(out, len))
end

-- ---- base64

local URL, NO_PADDING, MIME = 1, 2, 4

function ngx.encode_base64(value, no_padding)
    if no_padding ~= nil and type(no_padding) ~= "boolean" then
        error("bad no_padding: boolean expected, got " .. type(no_padding), 2)
    end
    if type(value) ~= "string" then
        value = value and tostring(value) or ""
    end
    local out = usual
    if (#value + 2) / 3 * 4 > SIZE then
        out = make((#value + 2) / 3 * 4)
    end
    local len = C.script_ffi_encode_base64(value, #value, no_padding and NO_PADDING or 0, out)
    return (string_of(out, len))
end

function ngx.decode_base64(value)
    if type(value) ~= "string" then
        error("string argument only", 2)
    end
    local out = usual
    if #value > SIZE then
        out = make(#value)
    end
    local len = C.script_ffi_decode_base64(value, #value, 0, out)
    local text = string_of(out, max(len, 0))
    if len < 0 then
        return nil
    end
    return text
end

function ngx.decode_base64mime(value)
    if type(value) ~= "string" then
        error("string argument only", 2)
    end
    local out = usual
    if #value > SIZE then
        out = make(#value)
    end
    local len = C.script_ffi_decode_base64(value, #value, MIME, out)
    local text = string_of(out, max(len, 0))
    if len < 0 then
        return nil
    end
    return text
end

package.preload["ngx.base64"] = function()
    local base64 = { version = "0.1.32" }

    function base64.encode_base64url(value)
        if type(value) ~= "string" then
            return nil, "must provide a string"
        end
        local out = usual
        if (#value + 2) / 3 * 4 > SIZE then
            out = make((#value + 2) / 3 * 4)
        end
        local len = C.script_ffi_encode_base64(value, #value, URL + NO_PADDING, out)
        return (string_of(out, len))
    end

    function base64.decode_base64url(value)
        if type(value) ~= "string" then
            return nil, "must provide a string"
        end
        local out = usual
        if #value > SIZE then
            out = make(#value)
        end
        local len = C.script_ffi_decode_base64(value, #value, URL, out)
        local text = string_of(out, max(len, 0))
        if len < 0 then
            return nil, "invalid input"
        end
        return text
    end

    return base64
end

-- ---- SQL

function ngx.quote_sql_str(...)
    if select("#", ...) ~= 1 then
        error("expecting one argument", 2)
    end
    local value = check_text((...), 1, "quote_sql_str")
    local out = usual
    if 2 * #value + 2 > SIZE then
        out = make(2 * #value + 2)
    end
    local len = C.script_ffi_quote_sql(value, #value, out)
    return (string_of(out, len))
end
