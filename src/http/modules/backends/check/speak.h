/* Probes of `check` that need no more than a few bytes each way. */
#ifndef HTTP_MODULES_BACKENDS_CHECK_SPEAK_H
#define HTTP_MODULES_BACKENDS_CHECK_SPEAK_H

#include <stdbool.h>

struct health_probe;

/* speak functions of health_settings. MAY WAIT. */
bool check_speak_tls(struct health_probe *probe); /* ClientHello; a handshake record or an alert */
bool check_speak_mysql(struct health_probe *probe); /* the greeting of MySQL's protocol 10 or 9 */
bool check_speak_ajp(struct health_probe *probe);   /* CPing, CPong of AJP 1.3 */

#endif
