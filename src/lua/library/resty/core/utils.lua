-- Small help for texts.
local byte = string.byte

local utils = { version = "0.1.32" }

-- Each byte that is the first of `find` becomes the first of `replacement`. Only single characters are replaced.
function utils.str_replace_char(text, find, replacement)
    if #find ~= 1 or #replacement ~= 1 then
        return text
    end
    local from = byte(find)
    local pieces, last = "", 1
    for i = 1, #text do
        if byte(text, i) == from then
            pieces = pieces .. text:sub(last, i - 1) .. replacement
            last = i + 1
        end
    end
    if last == 1 then
        return text
    end
    return pieces .. text:sub(last)
end

return utils
