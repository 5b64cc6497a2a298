/* Probes of `check` that exchange only a few bytes. */
#ifndef HTTP_MODULES_BACKENDS_CHECK_SPEAK_H
#define HTTP_MODULES_BACKENDS_CHECK_SPEAK_H

#include <stdbool.h>

struct health_probe;

/* Values of health_settings.speak. MAY WAIT. */
bool check_speak_tls(
    struct health_probe *probe); /* sends a ClientHello; expects a handshake record or an alert */
bool check_speak_mysql(
    struct health_probe *probe); /* expects the greeting of MySQL's protocol version 10 or 9 */
bool check_speak_ajp(struct health_probe *probe); /* sends a CPing; expects a CPong (AJP 1.3) */

#endif
