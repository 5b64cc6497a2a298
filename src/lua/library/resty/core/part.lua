-- A module of lua-resty-core that has nothing to add: its functions are in the table ngx from the start.
return { version = "0.1.32" }
