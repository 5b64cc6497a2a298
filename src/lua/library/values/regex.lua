-- ngx.re: match, find, gmatch, sub, gsub; and what ngx.re and resty.core.regex share with it.
local ngx, cache_most, match_limit = ...
local ffi = require "ffi"
local new_tab = require "table.new"
local C = ffi.C
local string_of, gc = ffi.string, ffi.gc
local byte, sub, find, match = string.byte, string.sub, string.find, string.match
local min, max = math.min, math.max
local concat = table.concat
local bor, band = require("bit").bor, require("bit").band
local type, tostring, tonumber, error, setmetatable = type, tostring, tonumber, error, setmetatable

ngx.re = {}

ffi.cdef [[
struct script_regex { int *captures; int groups, name_count, name_size, replaced; const unsigned char *names; };
int script_ffi_regex_new(const char *pattern, size_t len, int flags, double match_limit, struct script_regex **made, char *message);
void script_ffi_regex_free(struct script_regex *regex);
int script_ffi_regex_match(struct script_regex *regex, const char *subject, size_t len, size_t from);
struct script_template { const char *text; const int *list; int count; };
int script_ffi_regex_replace(struct script_regex *regex, const char *subject, size_t len,
                             const struct script_template *template, int most, char *out, int size);
int script_ffi_regex_jit_stack(size_t size);
void script_ffi_log_raw(int level, const char *data, size_t len);
]]

-- The bits of values/ffi.h.
local ANCHORED, UTF, NO_UTF_CHECK, DFA, JIT = 16, 32, 64, 512, 1024
local FLAGS = {
    i = 1, m = 2, s = 4, x = 8, a = ANCHORED, u = UTF, U = UTF + NO_UTF_CHECK, D = 128, J = 256, d = DFA, j = JIT,
    o = 0,
}
local GROUPS_MOST = 1000000
local DOLLAR = 36 -- as a byte
local PASSING_MOST = 100 -- patterns without the option o that are kept for a while

local ALL = 0x7fffffff -- matches
local ERROR_SIZE = 1024 -- bytes of a message about a pattern, without that

local buffer = require "portunus.buffer"
local usual, SIZE, make = buffer.usual, buffer.SIZE, buffer.make

-- ---- options

local known_options = {} -- by their text: its bits, and whether there is an o in it

local function parse_options(text)
    local flags = 0
    for i = 1, #text do
        local letter = sub(text, i, i)
        local flag = FLAGS[letter]
        if not flag then
            error("unknown flag \"" .. letter .. "\" (flags \"" .. text .. "\")", 4)
        end
        flags = bor(flags, flag)
    end
    local options = { flags = flags, is_kept = find(text, "o", 1, true) ~= nil, patterns = {}, passing = {} }
    known_options[text] = options
    return options
end

-- ---- patterns

local kept_count = 0    -- patterns that are there to stay
local passing           -- a ring of those that are kept for a while, made with the first pattern
local passing_at = 0    -- the newest of it
local has_told = false  -- that there are too many

-- Names of groups: a list of names, and one of lists of their numbers.
local function names_of(regex)
    local names, numbers, places = {}, {}, {}
    for i = 0, regex.name_count - 1 do
        local entry = regex.names + i * regex.name_size
        local name = string_of(entry + 2)
        local place = places[name]
        if not place then
            place = #names + 1
            places[name] = place
            names[place] = name
            numbers[place] = {}
        end
        local list = numbers[place]
        list[#list + 1] = entry[0] * 256 + entry[1]
    end
    return names, numbers
end

local function new_ring()
    local ring = new_tab(PASSING_MOST, 0)
    for i = 1, PASSING_MOST do
        ring[i] = { pattern = false, of = false }
    end
    return ring
end

-- The oldest gives way.
local function keep_for_a_while(options, pattern, made)
    passing_at = passing_at % PASSING_MOST + 1
    local place = passing[passing_at]
    if place.of then
        place.of[place.pattern] = nil
    end
    place.of, place.pattern = options.passing, pattern
    options.passing[pattern] = made
end

local function compile_new(pattern, options)
    passing = passing or new_ring()
    local size = ERROR_SIZE + 2 * #pattern
    local message = size <= SIZE and usual or make(size)
    local place = ffi.new("struct script_regex *[1]")
    local len = C.script_ffi_regex_new(pattern, #pattern, options.flags, match_limit, place, message)
    local text = string_of(message, len)
    if len ~= 0 then
        return nil, text
    end
    local regex = place[0]
    local made = {
        regex = gc(regex, C.script_ffi_regex_free),
        captures = regex.captures,
        groups = band(options.flags, DFA) ~= 0 and 0 or regex.groups,
        is_utf = band(options.flags, UTF) ~= 0,
        has_lists = band(options.flags, FLAGS.D) ~= 0,
        name_count = 0,
    }
    if regex.name_count ~= 0 and made.groups ~= 0 then
        made.names, made.numbers = names_of(regex)
        made.name_count = #made.names
    end
    if options.is_kept and kept_count < cache_most then
        kept_count = kept_count + 1
        options.patterns[pattern] = made
        return made
    end
    if options.is_kept and not has_told and cache_most ~= 0 then
        has_told = true
        ngx.log(ngx.WARN, "lua exceeding regex cache max entries (", cache_most, ")")
    end
    keep_for_a_while(options, pattern, made)
    return made
end

-- The compiled pattern; nil and a message when it is none.
local function compile(pattern, text)
    text = text or ""
    local options = known_options[text]
    if not options then
        if type(text) ~= "string" then
            text = type(text) == "number" and tostring(text) or ""
        end
        options = known_options[text] or parse_options(text)
    end
    if type(pattern) ~= "string" then
        if type(pattern) ~= "number" then
            error("bad argument #2 to '?' (string expected, got " .. (pattern == nil and "nil" or type(pattern)) .. ")", 3)
        end
        pattern = tostring(pattern)
    end
    local made = options.patterns[pattern] or options.passing[pattern]
    if made then
        return made
    end
    return compile_new(pattern, options)
end

local function failed(result)
    return "pcre_exec() failed: " .. result
end

-- ---- matches

-- The text of a group of the last match, or false.
local function group_of(made, subject, number)
    local captures = made.captures
    local from = captures[2 * number]
    if from < 0 then
        return false
    end
    return sub(subject, from + 1, captures[2 * number + 1])
end

-- Groups that have one name: a list of those that took part, where there may be several.
local function named_group(made, res, numbers)
    if not made.has_lists then
        return res[numbers[1]]
    end
    local list
    for i = 1, #numbers do
        local text = res[numbers[i]]
        if text then
            list = list or {}
            list[#list + 1] = text
        end
    end
    return list
end

-- How often patterns were used. When it changes while captures are read, a finalizer (__gc) may have changed them: then what read them
-- is done again.
local uses = 0

-- The groups of the last match.
local function collect(made, subject, res)
    local groups = made.groups
    res = res or new_tab(groups, made.name_count + 1)
    for i = 0, groups do
        res[i] = group_of(made, subject, i)
    end
    local names = made.names
    if names then
        for i = 1, made.name_count do
            res[names[i]] = named_group(made, res, made.numbers[i])
        end
    end
    return res
end

-- Where to begin by ctx.pos, counted from 0.
local function begin_of(ctx)
    local pos = ctx.pos
    if not pos then
        return 0
    end
    return pos <= 0 and 0 or pos - 1
end

function ngx.re.match(subject, pattern, options, ctx, res)
    local made, err = compile(pattern, options)
    if not made then
        return nil, err
    end
    if type(subject) ~= "string" then
        subject = tostring(subject)
    end
    local from = ctx and begin_of(ctx) or 0
    uses = uses + 1
    local before = uses
    local result = C.script_ffi_regex_match(made.regex, subject, #subject, from)
    if result <= 0 then
        if result == 0 then
            return nil
        end
        return nil, failed(result)
    end
    local last = made.captures[1]
    res = collect(made, subject, res)
    if uses ~= before then
        return (ngx.re.match(subject, pattern, options, ctx, res))
    end
    if ctx then
        ctx.pos = last + 1
    end
    return res
end

function ngx.re.find(subject, pattern, options, ctx, nth)
    local made, err = compile(pattern, options)
    if not made then
        return nil, nil, err
    end
    if type(subject) ~= "string" then
        subject = tostring(subject)
    end
    uses = uses + 1
    local before = uses
    local result = C.script_ffi_regex_match(made.regex, subject, #subject, ctx and begin_of(ctx) or 0)
    if result <= 0 then
        if result == 0 then
            return nil
        end
        return nil, nil, failed(result)
    end
    local captures, group = made.captures, 0
    if nth and nth > 0 and nth <= made.groups then
        group = nth
    end
    local last, from, to = captures[1], captures[2 * group], captures[2 * group + 1]
    if uses ~= before then
        return ngx.re.find(subject, pattern, options, ctx, nth)
    end
    if ctx then
        ctx.pos = last + 1
    end
    if nth and nth > made.groups then
        return nil, nil, "nth out of bound"
    end
    if from < 0 then
        return nil, nil
    end
    return from + 1, to
end

-- Bytes of the character after `at`.
local function step(made, subject, at)
    if not made.is_utf then
        return 1
    end
    local first = byte(subject, at + 1)
    if not first or first < 0xc0 then
        return 1
    end
    return first < 0xe0 and 2 or first < 0xf0 and 3 or 4
end

-- Where to look next after the match that was looked for from `from`.
local function next_from(made, subject, from)
    local captures = made.captures
    local first, last = captures[0], captures[1]
    if last > first and last > from then
        return last
    end
    if last < from then
        last = from
    end
    return last + step(made, subject, last)
end

-- What gmatch gives is called as a function is. A closure for each would keep LuaJIT from compiling the loop around it.
local iterator_meta = {}

function iterator_meta.__call(iterator)
    local made, subject, from = iterator.made, iterator.subject, iterator.from
    local len = #subject
    if from > len then
        return nil
    end
    uses = uses + 1
    local before = uses
    local result = C.script_ffi_regex_match(made.regex, subject, len, from)
    if result <= 0 then
        iterator.from = len + 1
        if result == 0 then
            return nil
        end
        return nil, failed(result)
    end
    local res, next_one = collect(made, subject), next_from(made, subject, from)
    if uses ~= before then
        return (iterator_meta.__call(iterator))
    end
    iterator.from = next_one
    return res
end

function ngx.re.gmatch(subject, pattern, options)
    local made, err = compile(pattern, options)
    if not made then
        return nil, err
    end
    if type(subject) ~= "string" then
        subject = tostring(subject)
    end
    return setmetatable({ made = made, subject = subject, from = 0 }, iterator_meta)
end

-- ---- replacing

local known_templates = {}
local template_count = 0

-- Without the place in Lua, which would be this file.
local function log_error(line)
    C.script_ffi_log_raw(ngx.ERR, line, #line)
end

-- What is wrong with a template that has a dollar at this place.
local function tell_bad(text, dollar)
    local digits = match(text, "^{(%d+)", dollar + 1)
    local name = match(text, "^{?([%a_][%w_]*)", dollar + 1)
    if digits then
        log_error("the closing bracket in \"" .. digits .. "\" variable is missing")
    elseif name then
        log_error("attempt to use named capturing variable \"" .. name .. "\" (named captures not supported yet)")
    else
        log_error("lua script: invalid capturing variable name found in \"" .. text .. "\"")
    end
end

-- A text with $1, ${1} and $$, as the list that C takes: of a text where it begins and its length, of a group -1 and its number.
-- nil: it is none.
local function parse_template(text)
    local list, at = {}, 1
    while true do
        local dollar = find(text, "$", at, true)
        if not dollar then
            break
        end
        if dollar > at then
            list[#list + 1], list[#list + 2] = at - 1, dollar - at
        end
        local _, last, digits = find(text, "^(%d+)", dollar + 1)
        if not digits then
            _, last, digits = find(text, "^{(%d+)}", dollar + 1)
        end
        if digits then
            list[#list + 1], list[#list + 2] = -1, min(tonumber(digits), GROUPS_MOST)
            at = last + 1
        elseif byte(text, dollar + 1) == DOLLAR then
            list[#list + 1], list[#list + 2] = dollar, 1
            at = dollar + 2
        else
            tell_bad(text, dollar)
            return nil
        end
    end
    if at <= #text then
        list[#list + 1], list[#list + 2] = at - 1, #text - at + 1
    end
    local numbers = ffi.new("int[?]", #list, list)
    return { text, numbers, taken = ffi.new("struct script_template", text, numbers, #list / 2) }
end

local function template_of(text)
    local parts = known_templates[text]
    if parts then
        return parts
    end
    parts = parse_template(text)
    if parts then
        if template_count >= PASSING_MOST then
            known_templates, template_count = {}, 0
        end
        template_count = template_count + 1
        known_templates[text] = parts
    end
    return parts
end

-- A replacement: a template, or a function.
local function replacement_of(replace)
    if type(replace) == "function" then
        return replace
    end
    if type(replace) ~= "string" then
        replace = tostring(replace)
    end
    return template_of(replace)
end

-- Replaces matches, so many at most, by what the template makes of them.
local function replace_by_template(subject, made, template, most)
    local size, out = SIZE, usual
    if 2 * #subject > SIZE then
        size = 2 * #subject
        out = make(size)
    end
    local regex, text, len, count = made.regex, nil, nil, nil
    while true do
        uses = uses + 1
        len = C.script_ffi_regex_replace(regex, subject, #subject, template.taken, most, out, size)
        count = regex.replaced
        text = string_of(out, max(min(len, size), 0))
        if len <= size then
            break
        end
        size = len
        out = make(size)
    end
    if len < 0 then
        return nil, nil, failed(len)
    elseif count == 0 then
        return subject, 0
    end
    return text, count
end

local function replace_first(subject, made, replacement)
    if type(replacement) == "table" then
        return replace_by_template(subject, made, replacement, 1)
    end
    uses = uses + 1
    local before = uses
    local result = C.script_ffi_regex_match(made.regex, subject, #subject, 0)
    if result <= 0 then
        if result == 0 then
            return subject, 0
        end
        return nil, nil, failed(result)
    end
    local first, last = made.captures[0], made.captures[1]
    local groups = collect(made, subject)
    if uses ~= before then
        return replace_first(subject, made, replacement)
    end
    local text = tostring(replacement(groups))
    return sub(subject, 1, first) .. text .. sub(subject, max(first, last) + 1), 1
end

local function replace_all(subject, made, replacement)
    if type(replacement) == "table" then
        return replace_by_template(subject, made, replacement, ALL)
    end
    local pieces, piece_count, count = {}, 0, 0
    local from, copied, len = 0, 0, #subject
    while from <= len do
        uses = uses + 1
        local before = uses
        local result = C.script_ffi_regex_match(made.regex, subject, len, from)
        if result < 0 then
            return nil, nil, failed(result)
        elseif result == 0 then
            break
        end
        local first, last, next_one = made.captures[0], made.captures[1], next_from(made, subject, from)
        local groups = collect(made, subject)
        if uses == before then
            from = next_one
            count = count + 1
            pieces[piece_count + 1] = sub(subject, copied + 1, first)
            pieces[piece_count + 2] = tostring(replacement(groups))
            piece_count = piece_count + 2
            copied = max(copied, last)
        end
    end
    if count == 0 then
        return subject, 0
    end
    pieces[piece_count + 1] = sub(subject, copied + 1)
    return concat(pieces), count
end

local function substitute(subject, pattern, replace, options, replace_in)
    local made, err = compile(pattern, options)
    if not made then
        return nil, nil, err
    end
    if type(subject) ~= "string" then
        subject = tostring(subject)
    end
    local replacement = replacement_of(replace)
    if not replacement then
        return nil, nil, "failed to compile the replacement template"
    end
    return replace_in(subject, made, replacement)
end

function ngx.re.sub(subject, pattern, replace, options)
    return substitute(subject, pattern, replace, options, replace_first)
end

function ngx.re.gsub(subject, pattern, replace, options)
    return substitute(subject, pattern, replace, options, replace_all)
end

-- ---- modules

package.preload["resty.core.regex"] = function()
    local regex = { version = "0.1.32" }

    function regex.is_regex_cache_empty()
        return kept_count == 0
    end

    -- Buffers grow by themselves here.
    function regex.set_buf_grow_ratio()
    end

    return regex
end

-- Perl's way: texts between matches and the groups of these; no trailing empty parts unless `most` says how many there may be.
-- And where the last match ended; or nil and a message.
local function split(subject, made, from, most, res)
    local len, count, parts, copied = #subject, 0, 1, from
    local groups = made.groups > 0 and {}
    while from <= len and copied < len and (most <= 0 or parts < most) do
        uses = uses + 1
        local before = uses
        local result = C.script_ffi_regex_match(made.regex, subject, len, from)
        if result < 0 then
            return nil, failed(result)
        elseif result == 0 then
            break
        end
        local first, last, next_one = made.captures[0], made.captures[1], next_from(made, subject, from)
        if groups then
            collect(made, subject, groups)
        end
        local is_sure = uses == before -- else it is matched again
        if is_sure then
            from = next_one
        end
        if is_sure and (last > first or first > copied) then
            parts = parts + 1
            count = count + 1
            res[count] = sub(subject, copied + 1, first)
            copied = last
            for i = 1, made.groups do
                local text = groups[i]
                if text then
                    count = count + 1
                    res[count] = text
                end
            end
        end
    end
    if copied < len or count > 0 then
        count = count + 1
        res[count] = sub(subject, copied + 1)
    end
    if most <= 0 then
        while count > 0 and res[count] == "" do
            res[count] = nil
            count = count - 1
        end
    end
    res[count + 1] = nil
    return res, copied
end

package.preload["ngx.re"] = function()
    local re = { version = "0.1.32" }

    function re.split(subject, pattern, options, ctx, most, res)
        if type(subject) ~= "string" then
            subject = tostring(subject)
        end
        if res ~= nil and type(res) ~= "table" then
            error("res is not a table", 2)
        end
        if subject == "" then -- not even the pattern is looked at
            res = res or {}
            res[1] = nil
            return res
        end
        local made, err = compile(pattern, options)
        if not made then
            return nil, err
        end
        local parts, last = split(subject, made, ctx and begin_of(ctx) or 0, most or 0, res or {})
        if not parts then
            return nil, last
        end
        if ctx and parts[1] then
            ctx.pos = last
        end
        return parts
    end

    function re.opt(option, value)
        if option ~= "jit_stack_size" then
            error("unrecognized option name", 2)
        end
        if kept_count ~= 0 then
            error("changing jit stack size is not allowed when some regexs have already been compiled and cached", 2)
        end
        if C.script_ffi_regex_jit_stack(value) == 0 then
            error("PCRE jit stack allocation failed", 2)
        end
    end

    return re
end
