/* Probes of health checks that speak HTTP and FastCGI. */
#include "http/exchange/probe/probe.h"

#include "net/conn/conn.h"

/* Connections are kept when the parser, the other side and the check agree, and nothing unasked
 * came. */
static void decide_keeping(struct health_probe *probe, bool may_keep)
{
    probe->keeps_conn = may_keep && probe->may_keep && conn_input_len(probe->conn) == 0;
}

/*
 * Lets `take` have what comes until it wants no more; *step is what it said last. False: nothing
 * was answered, or not all of it; the probe's reason tells.
 */
static bool receive(struct health_probe *probe,
                    enum probe_step (*take)(void *reader, struct str *input, bool is_end),
                    void *reader, enum probe_step *step)
{
    bool is_end = false;

    for (*step = PROBE_MORE; *step == PROBE_MORE;) {
        if (is_end) {
            return health_fail(probe, "answer, which was cut short", 0);
        }
        if (!health_receive(probe, PROBE_HEAD_MAX, &is_end)) {
            return false;
        }
        struct str input = conn_input(probe->conn);
        size_t before = input.len;
        *step = take(reader, &input, is_end);
        conn_consume(probe->conn, before - input.len);
    }
    return true;
}

static bool send_request(struct health_probe *probe)
{
    const struct http_probe *http = probe->settings->speak_settings;

    return health_send(probe, probe->may_keep ? http->request_kept : http->request);
}

static enum probe_step take_answer(void *parser, struct str *input, bool is_end)
{
    return probe_parse(parser, input, is_end);
}

bool probe_receive(struct health_probe *probe, struct probe_parser *parser, enum probe_step *step)
{
    return receive(probe, take_answer, parser, step);
}

bool probe_speak_http(struct health_probe *probe)
{
    const struct http_probe *http = probe->settings->speak_settings;
    struct probe_parser parser = {
        .arena = probe->arena,
        .wants_body = http->wants_body,
        .wants_end = probe->may_keep,
    };
    enum probe_step step;
    bool is_whole = send_request(probe) && probe_receive(probe, &parser, &step);

    if (is_whole && step == PROBE_DONE) {
        decide_keeping(probe, parser.may_keep);
    } else if (!parser.has_head || http->wants_body) {
        return is_whole && health_fail(probe, parser.reason, 0);
    } /* else the body was read for the connection's sake: what is wrong with it costs that alone */
    return http->judge(probe, &parser.response, http->judge_settings);
}

static enum probe_step take_records(void *records, struct str *input, bool is_end)
{
    return probe_records_take(records, input);
}

bool probe_speak_fastcgi(struct health_probe *probe)
{
    const struct http_probe *http = probe->settings->speak_settings;
    struct probe_records records = {.arena = probe->arena};
    struct probe_parser parser = {
        .arena = probe->arena,
        .is_cgi = true,
        .is_200_unless_set = http->is_200_unless_set,
        .wants_body = http->wants_body,
    };
    enum probe_step step;

    if (!send_request(probe) || !receive(probe, take_records, &records, &step)) {
        return false;
    }
    if (step == PROBE_BAD) {
        return health_fail(probe, records.reason, 0);
    }
    decide_keeping(probe, true);
    if (probe_parse(&parser, &records.output, true) != PROBE_DONE) {
        return health_fail(probe, parser.reason, 0);
    }
    return http->judge(probe, &parser.response, http->judge_settings);
}
