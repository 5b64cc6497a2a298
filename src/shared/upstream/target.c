/* Finds the group of a target that is evaluated for a request or a session. */
#include "shared/upstream/target.h"

#include "base/clock.h"
#include "fiber/fiber.h"

/* Why a host that names no group is invalid, or NULL. */
static const char *host_error(struct str host)
{
    if (host.len == 0) {
        return "no host";
    }
    if (host.data[0] == '[') {
        return host.data[host.len - 1] == ']' ? NULL : "invalid host";
    }
    return str_find_char(host, ':') != NULL && !str_starts_nocase(host, STR("unix:"))
               ? "invalid port"
               : NULL;
}

enum target_result target_find(const struct target_options *options, struct upstream_group **out)
{
    struct upstream_set *set = upstream_set_of(&generation_now->conf, options->subsystem);
    struct str text = options->text, host = text;
    uint16_t port = options->default_port;
    const char *reason = NULL;

    if (!addr_split_port(text, &host, &port)) {
        log_error(options->log, 0, "invalid port in upstream \"%.*s\"", STR_ARG(text));
        return TARGET_BAD;
    }
    *out = upstream_find(set, text, port);
    if (*out == NULL) {
        const char *error = host_error(host);

        if (error != NULL) {
            log_error(options->log, 0, "%s in upstream \"%.*s\"", error, STR_ARG(text));
            return TARGET_BAD;
        }
        if (port == 0 && !str_starts_nocase(text, STR("unix:"))) {
            log_error(options->log, 0, "no port in upstream \"%.*s\"", STR_ARG(text));
            return TARGET_BAD;
        }
        options->log->action = NULL;
        const struct dns_lookup lookup = {.settings = options->resolver,
                                          .name = host,
                                          .deadline_ms =
                                              clock_now.now_ms + options->resolver_timeout_ms,
                                          .log = options->log};
        *out = upstream_at_run_time(set, &lookup, port, &reason);
    }
    if (*out != NULL) {
        return TARGET_FOUND;
    }
    if (fiber_is_cancelled()) {
        return TARGET_CANCELLED;
    }
    if (options->resolver == NULL) {
        log_error(options->log, 0, "no resolver defined to resolve %.*s", STR_ARG(host));
    } else {
        log_error(options->log, 0, "%.*s could not be resolved (%s)", STR_ARG(host),
                  reason == NULL ? "3: Host not found" : reason);
    }
    return TARGET_UNRESOLVED;
}
