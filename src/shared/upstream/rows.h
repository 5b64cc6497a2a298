/* The rows of options for connecting to backends: one family, instantiated for each prefix and
 * protocol. SETTINGS is a struct with a member for each option. */
#ifndef SHARED_UPSTREAM_ROWS_H
#define SHARED_UPSTREAM_ROWS_H

#include "shared/upstream/bind.h"

#define UPSTREAM_BIND_ROW(PREFIX, CONTEXT, SETTINGS)                                               \
    {                                                                                              \
        PREFIX "_bind", CONTEXT, CUSTOM_FIELD(SETTINGS, bind, bind_apply), ARGS(1, 2),             \
            .syntax = "address [transparent] | off",                                               \
            .doc = "Local address of connections to backends."                                     \
    }

#define UPSTREAM_TIMEOUT_ROWS(PREFIX, CONTEXT, SETTINGS)                                           \
    {PREFIX "_connect_timeout", CONTEXT, MSEC(SETTINGS, connect_timeout_ms), .initial = "60s",     \
     .doc = "Timeout for establishing a connection to a backend."},                                \
        {PREFIX "_send_timeout", CONTEXT, MSEC(SETTINGS, send_timeout_ms), .initial = "60s",       \
         .doc = "Timeout for sending a request to a backend: the longest time between two "        \
                "successive writes."},                                                             \
        {PREFIX "_read_timeout", CONTEXT, MSEC(SETTINGS, read_timeout_ms), .initial = "60s",       \
         .doc = "Timeout for reading a response from a backend: the longest time between two "     \
                "successive reads."},                                                              \
    {                                                                                              \
        PREFIX "_buffer_size", CONTEXT, SIZE(SETTINGS, buffer_size),                               \
            .initial = "4k",                                                                       \
            .doc = "Size of the buffer for the header of a response; a larger header is an error." \
    }

#define UPSTREAM_TRIES_ROWS(PREFIX, CONTEXT, SETTINGS)                                             \
    {PREFIX "_next_upstream_timeout", CONTEXT, MSEC(SETTINGS, next_upstream_timeout_ms),           \
     .initial = "0",                                                                               \
     .doc = "Time during which a request may be passed to the next server; 0: no limit."},         \
        {PREFIX "_next_upstream_tries", CONTEXT, NUMBER(SETTINGS, next_upstream_tries),            \
         .initial = "0",                                                                           \
         .doc = "Largest number of servers that are tried for a request; 0: no limit."},           \
    {                                                                                              \
        PREFIX "_socket_keepalive", CONTEXT, FLAG(SETTINGS, socket_keepalive),                     \
            .initial = "off",                                                                      \
            .doc = "Whether TCP keepalive (SO_KEEPALIVE) is enabled for connections to backends."  \
    }

/* Socket buffers; the second macro adds low-water marks. */
#define UPSTREAM_SOCKET_BUFFER_ROWS(PREFIX, CONTEXT, SETTINGS)                                     \
    {PREFIX "_socket_sndbuf", CONTEXT, SIZE(SETTINGS, socket_sndbuf),                              \
     .doc = "Size of the send buffer (SO_SNDBUF) of connections to backends."},                    \
    {                                                                                              \
        PREFIX "_socket_rcvbuf", CONTEXT, SIZE(SETTINGS, socket_rcvbuf),                           \
            .doc = "Size of the receive buffer (SO_RCVBUF) of connections to backends."            \
    }
#define UPSTREAM_SOCKET_ROWS(PREFIX, CONTEXT, SETTINGS)                                            \
    UPSTREAM_SOCKET_BUFFER_ROWS(PREFIX, CONTEXT, SETTINGS),                                        \
    {                                                                                              \
        PREFIX "_send_lowat", CONTEXT, SIZE(SETTINGS, send_lowat),                                 \
            .initial = "0",                                                                        \
            .doc = "Value of SO_SNDLOWAT for connections to backends; it has no effect on Linux."  \
    }

#endif
