-- ngx.worker and the module ngx.process: calls that compiled code may make.
local ngx = ...
local ffi = require "ffi"
local C = ffi.C

ffi.cdef [[
int script_ffi_worker_exiting(void);
int script_ffi_worker_pid(void);
int script_ffi_worker_id(void);
int script_ffi_worker_count(void);
int script_ffi_process_is_single(void);
int script_ffi_process_is_agent(void);
int script_ffi_process_want_agent(double connections);
int script_ffi_process_is_master(void);
int script_ffi_process_master_pid(void);
void script_ffi_process_quit(void);
]]

local worker = ngx.worker

function worker.exiting()
    return C.script_ffi_worker_exiting() ~= 0
end

function worker.pid()
    return C.script_ffi_worker_pid()
end

-- nil where there is no worker yet.
function worker.id()
    local id = C.script_ffi_worker_id()
    if id < 0 then
        return nil
    end
    return id
end

function worker.count()
    return C.script_ffi_worker_count()
end

package.preload["ngx.process"] = function()
    local process = { version = "0.1.32" }

    function process.type()
        if C.script_ffi_process_is_single() ~= 0 then
            return "single"
        end
        if C.script_ffi_process_is_agent() ~= 0 then
            return "privileged agent"
        end
        return C.script_ffi_process_is_master() ~= 0 and "master" or "worker"
    end

    -- A process with the master's rights that serves nobody, and may open so many connections; in init_by_lua alone.
    function process.enable_privileged_agent(connections)
        connections = connections or 512
        if ngx.get_phase() ~= "init" then
            return nil, "API disabled in the current context"
        end
        if type(connections) ~= "number" or connections < 0 then
            return nil, "bad 'connections' argument: number expected and greater than 0"
        end
        C.script_ffi_process_want_agent(connections)
        return true
    end

    function process.get_master_pid()
        return C.script_ffi_process_master_pid()
    end

    function process.signal_graceful_exit()
        C.script_ffi_process_quit()
    end

    return process
end
