/* Probes of health checks that send a text and look for one in what comes back; over TCP, TLS or
 * UDP. */
#ifndef SHARED_HEALTH_TEXT_H
#define SHARED_HEALTH_TEXT_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/regex.h"
#include "upstream/health.h"

#define TEXT_PROBE_MAX (64 * 1024) /* bytes of an answer that are looked at */

/* What is sent, and what must come: the speak_settings of text_probe_speak. */
struct text_probe {
    struct str send;           /* empty = nothing */
    struct str expected;       /* must be somewhere in the answer; empty = there is none */
    const struct regex *regex; /* the answer must match this; NULL = there is none */
};

/* A text as it is written, with \xHH for a byte. False: an \x is not followed by two hex digits. */
bool text_probe_decode(struct arena *arena, struct str written, struct str *out);

/*
 * The peer is healthy when what is expected has come. Where nothing is expected it is so, too: over
 * TCP when the text has left, over UDP when no refusal (ICMP) has come within a second. MAY WAIT.
 */
bool text_probe_speak(struct health_probe *probe);

#endif
