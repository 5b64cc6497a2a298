/* Health checks that send a text and search the response for another. */
#include "shared/health/text.h"

#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"
#include "net/conn/conn.h"

/* The refusal of a datagram arrives as fast as a response would. */
#define REFUSAL_WAIT_MS 1000

bool text_probe_decode(struct arena *arena, struct str written, struct str *out)
{
    char *text = arena_text(arena, written.len);
    char *at = text;
    uint64_t byte;

    while (written.len != 0) {
        bool is_escape = str_starts(written, STR("\\x"));

        if (is_escape &&
            (written.len < 4 || !parse_hex(str_head(str_skip(written, 2), 2), &byte))) {
            return false;
        }
        *at++ = is_escape ? (char) byte : written.data[0];
        written = str_skip(written, is_escape ? 4 : 1);
    }
    *out = str_from(text, at);
    return true;
}

/* Does the response so far contain the expected text, or match? */
static bool health_text_fits(const struct text_probe *text, struct str answer,
                             const struct log *log)
{
    return text->regex != NULL ? regex_match(text->regex, answer, NULL, log)
                               : str_find(answer, text->expected) != NULL;
}

/* A datagram was sent and no response is expected: only a refusal (ICMP) within this time is a
 * failure. */
static bool is_not_refused(struct health_probe *probe)
{
    uint64_t enough_ms = clock_now.now_ms + REFUSAL_WAIT_MS;
    bool is_end;

    if (enough_ms < probe->deadline_ms) {
        probe->deadline_ms = enough_ms;
    }
    return health_receive(probe, TEXT_PROBE_MAX, &is_end) ||
           (!probe->conn->is_broken && clock_now.now_ms >= probe->deadline_ms);
}

bool text_probe_speak(struct health_probe *probe)
{
    const struct text_probe *text = probe->settings->speak_settings;
    bool is_end = false;

    if (text->send.len != 0 && !health_send(probe, text->send)) {
        return false;
    }
    if (text->expected.len == 0 && text->regex == NULL) {
        return !probe->settings->is_datagram || is_not_refused(probe);
    }
    while (!is_end) {
        if (!health_receive(probe, TEXT_PROBE_MAX, &is_end)) {
            return false;
        }
        if (health_text_fits(text, conn_input(probe->conn), probe->log)) {
            return true;
        }
    }
    return health_fail(probe, "answer, which is not the expected one", 0);
}
