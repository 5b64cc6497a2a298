-- Tables that are used again, in pools by tag.
local new_tab = require "table.new"
local clear_tab = require "table.clear"
local setmetatable = setmetatable

local KEPT = 200 -- tables of one tag

local pools = {}
local tablepool = { _VERSION = "0.03" }

function tablepool.fetch(tag, items, fields)
    local pool = pools[tag]
    local count = pool and pool.count or 0
    if count == 0 then
        return new_tab(items, fields)
    end
    local table = pool[count]
    pool[count] = nil
    pool.count = count - 1
    return table
end

function tablepool.release(tag, table, no_clear)
    if not table then
        error("object empty", 2)
    end
    local pool = pools[tag]
    if not pool then
        pool = { count = 0 }
        pools[tag] = pool
    end
    if not no_clear then
        setmetatable(table, nil)
        clear_tab(table)
    end
    if pool.count < KEPT then
        pool.count = pool.count + 1
        pool[pool.count] = table
    end
end

return tablepool
