/* Health checks that send a text and search the response for another; over TCP, TLS or UDP. */
#ifndef SHARED_HEALTH_TEXT_H
#define SHARED_HEALTH_TEXT_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/regex.h"
#include "upstream/health.h"

#define TEXT_PROBE_MAX (64 * 1024) /* bytes of a response that are read */

/* What is sent, and what the response must be: the speak_settings of text_probe_speak. */
struct text_probe {
    struct str send;           /* empty = nothing */
    struct str expected;       /* the response must contain it; empty = not checked */
    const struct regex *regex; /* the response must match; NULL = not checked */
};

/* Decodes a text with \xHH for bytes. False: an \x is not followed by two hex digits. */
bool text_probe_decode(struct arena *arena, struct str written, struct str *out);

/*
 * The peer is healthy when the expected response has come. If none is expected: over TCP when the
 * text was sent, over UDP when no refusal (ICMP) has come within a second. MAY WAIT.
 */
bool text_probe_speak(struct health_probe *probe);

#endif
