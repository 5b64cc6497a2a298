-- lua-resty-core: its functions are built in; this is what scripts require to be sure of them.
require "resty.core.base"

return { version = "0.1.32" }
