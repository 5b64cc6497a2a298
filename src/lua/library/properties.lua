-- Fields of ngx that are asked for and assigned, as ngx.status: tables of functions by name. A module puts its own there:
--     local properties = require "portunus.properties"
--     properties.get.status = function () … end
--     properties.set.status = function (value) … end    -- without it an assignment is for nothing
local getters, setters = {}, {}

setmetatable(ngx, {
    __index = function(_, key)
        local get = getters[key]
        if get then
            return get()
        end
    end,
    __newindex = function(table, key, value)
        local set = setters[key]
        if set then
            return set(value)
        end
        if not getters[key] then
            rawset(table, key, value)
        end
    end,
})

return {get = getters, set = setters}
