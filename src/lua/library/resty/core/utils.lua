-- Small help for texts.
local ffi = require "ffi"
local C = ffi.C
local string_of, byte, find_in = ffi.string, string.byte, string.find

ffi.cdef [[ void script_ffi_replace_char(const char *data, size_t len, int from, int to, char *out); ]]

local buffer = require "portunus.buffer"
local utils = { version = "0.1.32" }

-- Every `find` becomes `replacement`. Only single characters are replaced.
function utils.str_replace_char(text, find, replacement)
    if #find ~= 1 or #replacement ~= 1 then
        return text
    end
    if not find_in(text, find, 1, true) then
        return text
    end
    local out = #text <= buffer.SIZE and buffer.usual or buffer.make(#text)
    C.script_ffi_replace_char(text, #text, byte(find), byte(replacement), out)
    return (string_of(out, #text))
end

return utils
