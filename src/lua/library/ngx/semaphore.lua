-- ngx.semaphore: counts that threads of all requests of a worker wait for.
-- Arguments: the module's name, and C's new, post, wait and count, which take the object in a table's `sem`.
local _, new, post, wait, count = ...

local semaphore = { version = "0.1.0" }
local meta = { __index = semaphore }

-- C's object of a semaphore.
local function object_of(self)
    local object = type(self) == "table" and rawget(self, "sem")
    if not object then
        error("not a semaphore instance", 3)
    end
    return object
end

-- One that so many may take at once; or nil and a reason.
function semaphore.new(n)
    n = n and tonumber(n) or 0
    if not (n >= 0) then
        error("no negative number", 2)
    end
    return setmetatable({ sem = new(math.floor(n)) }, meta)
end

-- So many more may take it.
function semaphore:post(n)
    local object = object_of(self)
    n = math.floor(n and tonumber(n) or 1)
    if not (n >= 1) then
        error("positive number required", 2)
    end
    return post(object, n)
end

-- Takes it, or waits for it so many seconds: true, or false (nil without a wait) and "timeout".
function semaphore:wait(seconds)
    local object = object_of(self)
    seconds = tonumber(seconds)
    if not seconds then
        error("bad argument #1 to 'wait' (number expected)", 2)
    end
    if not (seconds >= 0) then
        error("no negative number", 2)
    end
    return wait(object, seconds)
end

-- How many may take it; negative: how many wait for it.
function semaphore:count()
    return count(object_of(self))
end

return semaphore
