-- Waits wherever Lua may call C: in hot loops, nested coroutines, pcall, sort, gsub, metamethods, load, iterators.
local id = ...
local wait = ngx.wait

local function sum(n)
    local s = 0
    for i = 1, n do s = s + i % 7 end
    return s
end
local want = sum(300)

local function deep(n)
    if n == 0 then return wait() end
    local ok, v = pcall(deep, n - 1)
    assert(ok, v)
    return v
end

local object = setmetatable({}, {
    __index = function(_, k) assert(wait() == id) return k .. id end,
    __tostring = function() wait() return "T" .. id end,
    __concat = function() wait() return "C" end,
})

for round = 1, ngx.rounds do
    local x = 0
    for i = 1, 100 do
        x = x + i
        if i % 37 == 0 then assert(wait() == id) end
    end
    assert(x == 5050 and sum(300) == want)

    local co = coroutine.wrap(function(a)
        for k = 1, 3 do
            assert(wait() == id)
            a = coroutine.yield(a + k)
        end
        error("inner " .. a)
    end)
    assert(co(1) == 2 and co(5) == 7 and co(6) == 9)
    local ok, e = pcall(co, 9)
    assert(not ok and e:find("inner 9"), e)
    ok, e = pcall(function() wait() local t = nil return t.x end)
    assert(not ok and e:find("index"), e)
    assert(deep(6) == id)

    local t, count = {}, 0
    for i = 1, 20 do t[i] = (i * 7919 + id) % 101 end
    table.sort(t, function(a, b)
        count = count + 1
        if count == 5 then assert(wait() == id) end
        return a < b
    end)
    for i = 2, 20 do assert(t[i - 1] <= t[i]) end

    assert(("abc"):gsub(".", function(c) assert(wait() == id) return c .. id end) == "a" .. id .. "b" .. id .. "c" .. id)
    assert(object.foo == "foo" .. id and object .. "x" == "C")
    assert(string.format("%s-%s", object, object) == "T" .. id .. "-T" .. id)

    local kept = {}
    for i = 1, 50 do kept[i] = ("x"):rep(i) .. id end
    if (round + id) % 9 == 0 then collectgarbage("step", 100) end
    if (round + id) % 333 == 0 then collectgarbage() end
    for i = 1, 50 do assert(kept[i] == ("x"):rep(i) .. id) end

    local text = "return " .. id
    local f = load(function() wait() local part = text text = nil return part end)
    assert(f() == id)

    -- Threads: one that is waited for, one that is killed while pcall stands around its wait.
    local helper = ngx.thread.spawn(function() wait() coroutine.yield() return id, "x" end)
    local victim = ngx.thread.spawn(function() pcall(wait) pcall(wait) ngx.broken() end)
    assert(ngx.thread.kill(victim) == 1)
    local done, v, w = ngx.thread.wait(helper)
    assert(done and v == id and w == "x")
end
ngx.finished()
