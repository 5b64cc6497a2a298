-- ngx.semaphore: counts that threads of all requests of a worker wait for.
-- Arguments: the module's name, and C's new, post, wait and count, which take the object in a table's `sem`.
local _, new, post, wait, count = ...

local semaphore = { version = "0.1.0" }
local meta = { __index = semaphore }

-- One that so many may take at once; or nil and a reason.
function semaphore.new(n)
    n = n and tonumber(n) or 0
    if n < 0 then
        return error("no negative number", 2)
    end
    return setmetatable({ sem = new(n) }, meta)
end

-- So many more may take it.
function semaphore:post(n)
    n = n and tonumber(n) or 1
    if n < 1 then
        return error("no negative number", 2)
    end
    return post(self.sem, n)
end

-- Takes it, or waits for it so many seconds: true, or nil and "timeout".
function semaphore:wait(seconds)
    seconds = tonumber(seconds) or 0
    if seconds < 0 then
        return error("no negative number", 2)
    end
    return wait(self.sem, seconds)
end

-- How many may take it; negative: how many wait for it.
function semaphore:count()
    return count(self.sem)
end

return semaphore
