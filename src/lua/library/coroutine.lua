-- coroutine.*, as scripts of OpenResty know it: threads among the coroutines, and whole tracebacks of what wrap threw.
-- Arguments: yield and status as C has them, what keeps the traceback of a failed coroutine, the table of threads, and what
-- throws when much of C's stack is used, what tells functions that are written in Lua, and what tells whether this Lua may wait,
-- what names the phase if it is one where scripts make no coroutines, and what tells whether OpenResty would run the
-- caller on the main coroutine.
local yield, status, keep, threads, check_stack, is_of_lua, may_wait, phase_without, is_on_main = ...

local coroutine = coroutine
local create, resume, running = coroutine.create, coroutine.resume, coroutine.running
local error, type = error, type

-- What resume gave; of one that could not be resumed with the reason that says what it is.
local function said(co, ok, ...)
    if ok then
        return ok, ...
    end
    local reason = ...
    if reason == "cannot resume non-suspended coroutine" or reason == "cannot resume running coroutine" or reason == "cannot resume dead coroutine" then
        reason = "cannot resume " .. status(co) .. " coroutine"
    end
    return ok, reason
end

local function unwrap(co, ok, ...)
    if ok then
        return ...
    end
    local reason = ...
    if status(co) == "dead" then
        keep(co, reason)
    end
    -- Where nothing waits, coroutines of OpenResty are those of LuaJIT, which say where the failed one was resumed.
    error(reason, may_wait() and 0 or 2)
end

-- Lua's own and ours under the names that some libraries know.
for _, name in ipairs({ "create", "resume", "wrap", "yield", "status" }) do
    coroutine["_" .. name] = coroutine[name]
end

-- What makes a coroutine demands a phase where that is allowed, and a function. The names with "_" are allowed everywhere.
local function demand(f, name)
    if not is_of_lua(f) then
        error("bad argument #1 to '" .. name .. "' (Lua function expected)", 3)
    end
    local phase = phase_without()
    if phase then
        error("API disabled in the context of " .. phase, 3)
    end
end

function coroutine.create(f)
    demand(f, "create")
    return (create(f))
end

coroutine.yield = yield
coroutine.status = status

function coroutine.resume(co, ...)
    if type(co) ~= "thread" then
        error("bad argument #1 to 'resume' (coroutine expected)", 2)
    end
    if threads[co] ~= nil then
        return false, "cannot resume " .. status(co) .. " coroutine"
    end
    check_stack()
    return said(co, resume(co, ...))
end

function coroutine.wrap(f)
    demand(f, "wrap")
    local co = create(f)
    return function(...)
        check_stack()
        return unwrap(co, said(co, resume(co, ...)))
    end
end

-- The main coroutine has no object.
function coroutine.running()
    return not is_on_main() and running() or nil
end

for _, name in ipairs({ "create", "resume", "wrap", "yield", "status" }) do
    coroutine["__" .. name] = coroutine[name]
end
coroutine.isyieldable = nil
