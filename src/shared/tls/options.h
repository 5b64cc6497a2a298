/* Values of TLS directives that are shared by clients' and backends' side. */
#ifndef SHARED_TLS_OPTIONS_H
#define SHARED_TLS_OPTIONS_H

#include "conf/directive.h"
#include "conf/template.h"
#include "net/tls/tls.h"

/* The names of versions in ssl_protocols and similar directives: enum tls_protocol. */
extern const struct directive_word tls_protocol_words[];

/* Each function parses the arguments of a node; results live as long as the configuration. */

/* A file of pass phrases, one a line: struct str, wiped when the configuration is freed. False
 * after conf_error. */
bool tls_option_passwords(struct conf *conf, struct conf_node *node, struct vec *passwords);
/* Adds a pass phrase. */
void tls_option_add_password(struct conf *conf, struct vec *passwords, struct str text);
/* off | max=N [inactive=time] [valid=time]; *cache is NULL when off. False after conf_error. */
bool tls_option_certificate_cache(struct conf *conf, struct conf_node *node,
                                  struct tls_certificate_cache **cache);
/* A log of TLS secrets; opened and reopened with the other logs, readable by its owner only. */
struct log_file *tls_option_key_log(struct conf *conf, struct conf_node *node);

/* *_quic_host_key: reads a file of 32 bytes or more, from which keys are derived. False after
 * conf_error. */
bool tls_option_quic_host_key(struct conf *conf, const struct conf_node *node, struct str path,
                              struct str *key);

/* The full name of a certificate or key; a name that is not a file, or is empty, is not changed. */
struct str tls_option_full_name(struct arena *arena, struct str directory, struct str name);
/*
 * The strings of a certificate and its key. If they are data, another process may replace both
 * between the two evaluations: the key is evaluated again if the certificate has changed meanwhile.
 */
void tls_option_pair(const struct template *certificate_text, const struct template *key_text,
                     struct variable_env *env, struct str *certificate, struct str *key);

#endif
