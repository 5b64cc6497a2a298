/* The rows of options for connecting to backends: one family, instantiated for each prefix and
 * protocol. SETTINGS is a struct that has members with these names. */
#ifndef SHARED_UPSTREAM_ROWS_H
#define SHARED_UPSTREAM_ROWS_H

#include "shared/upstream/bind.h"

#define UPSTREAM_BIND_ROW(PREFIX, CONTEXT, SETTINGS)                                               \
    {                                                                                              \
        PREFIX "_bind", CONTEXT, CUSTOM_FIELD(SETTINGS, bind, bind_apply), ARGS(1, 2),             \
            .syntax = "address [transparent] | off",                                               \
            .doc = "Local address that connections to backends come from."                         \
    }

#define UPSTREAM_TIMEOUT_ROWS(PREFIX, CONTEXT, SETTINGS)                                           \
    {PREFIX "_connect_timeout", CONTEXT, MSEC(SETTINGS, connect_timeout_ms), .initial = "60s",     \
     .doc = "Longest time for a connection to a backend to be made."},                             \
        {PREFIX "_send_timeout", CONTEXT, MSEC(SETTINGS, send_timeout_ms), .initial = "60s",       \
         .doc = "Longest time between two writes of a request to a backend."},                     \
        {PREFIX "_read_timeout", CONTEXT, MSEC(SETTINGS, read_timeout_ms), .initial = "60s",       \
         .doc = "Longest time between two reads of an answer of a backend."},                      \
    {                                                                                              \
        PREFIX "_buffer_size", CONTEXT, SIZE(SETTINGS, buffer_size),                               \
            .initial = "4k", .doc = "Memory for the head of an answer; a larger head is an error." \
    }

#define UPSTREAM_TRIES_ROWS(PREFIX, CONTEXT, SETTINGS)                                             \
    {PREFIX "_next_upstream_timeout", CONTEXT, MSEC(SETTINGS, next_upstream_timeout_ms),           \
     .initial = "0", .doc = "Time in which other peers may be tried; 0 is no limit."},             \
        {PREFIX "_next_upstream_tries", CONTEXT, NUMBER(SETTINGS, next_upstream_tries),            \
         .initial = "0", .doc = "How many peers may be tried; 0 is no limit."},                    \
    {                                                                                              \
        PREFIX "_socket_keepalive", CONTEXT, FLAG(SETTINGS, socket_keepalive),                     \
            .initial = "off", .doc = "SO_KEEPALIVE on connections to backends."                    \
    }

/* Socket buffers; the second macro adds low-water marks. */
#define UPSTREAM_SOCKET_BUFFER_ROWS(PREFIX, CONTEXT, SETTINGS)                                     \
    {PREFIX "_socket_sndbuf", CONTEXT, SIZE(SETTINGS, socket_sndbuf),                              \
     .doc = "SO_SNDBUF of connections to backends."},                                              \
    {                                                                                              \
        PREFIX "_socket_rcvbuf", CONTEXT, SIZE(SETTINGS, socket_rcvbuf),                           \
            .doc = "SO_RCVBUF of connections to backends."                                         \
    }
#define UPSTREAM_SOCKET_ROWS(PREFIX, CONTEXT, SETTINGS)                                            \
    UPSTREAM_SOCKET_BUFFER_ROWS(PREFIX, CONTEXT, SETTINGS),                                        \
    {                                                                                              \
        PREFIX "_send_lowat", CONTEXT, SIZE(SETTINGS, send_lowat),                                 \
            .initial = "0", .doc = "SO_SNDLOWAT where the system has it; Linux has not."           \
    }

#endif
