/* SPDX-License-Identifier: MIT */
#include "lessord/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/size.h"
#include "http/server.h"
#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/routing_store.h"
#include "plane/rack.h"

enum option_kind { OPTION_TEXT, OPTION_LIST, OPTION_NUMBER, OPTION_BOOL, OPTION_ACTION };

enum option_source { SOURCE_NONE, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_COMMAND_LINE };

struct option_row {
        const char *name;
        enum option_kind kind;
        size_t offset;
        const char *fallback; /* NULL: stays absent */
        int64_t min, max;     /* of a number */
        const char *value;    /* in --help; NULL for a switch */
        const char *help;
};

#define AT(field) offsetof(struct options, field)

static const struct option_row table[] = {
        {"listen", OPTION_LIST, AT(listen), "127.0.0.1:5327", 0, 0, "ADDR:PORT",
         "where to serve; may be given several times; port 0 picks a free one"},
        {"data", OPTION_TEXT, AT(data), "./lessor-data", 0, 0, "DIR", "where everything is kept"},
        {"store", OPTION_TEXT, AT(store), "sqlite", 0, 0, "memory|sqlite", "what remembers the jobs"},
        {"projection", OPTION_TEXT, AT(projection), NULL, 0, 0, "FILE",
         "sites, consents, devices and rosters as JSON, read again on change; the built-in tables otherwise"},
        {"policy", OPTION_TEXT, AT(policy), NULL, 0, 0, "FILE",
         "mappings and memberships as JSON, read again on change; the built-in tables otherwise"},
        {"grant-key", OPTION_TEXT, AT(grant_key), NULL, 0, 0, "FILE",
         "key file that signs a grant for every claimed job; none are sent without it"},
        {"grant-signer", OPTION_TEXT, AT(grant_signer), NULL, 0, 0, "SOCKET",
         "Unix socket of a process that signs grants, instead of --grant-key"},
        {"grants", OPTION_BOOL, AT(grants), "true", 0, 0, NULL,
         "author grants; --no-grants keeps the policy for enqueue alone"},
        {"satisfiable", OPTION_BOOL, AT(satisfiable), "false", 0, 0, NULL,
         "refuse work at enqueue that nothing is mapped to answer"},
        {"verification-url", OPTION_TEXT, AT(verification_url), NULL, 0, 0, "URL",
         "page that a person opens to approve a device; pairing by code is off without it"},
        {"lease-ms", OPTION_NUMBER, AT(lease_ms), "60000", 1000, 86400000, "N", "length of a lease"},
        {"base-path", OPTION_TEXT, AT(base_path), "/byollm", 0, 0, "PATH", "where the device plane is"},
        {"update-offer", OPTION_TEXT, AT(update_offer), NULL, 0, 0, "VERSION",
         "daemon version offered to older daemons"},
        {"daemon-floor", OPTION_TEXT, AT(daemon_floor), NULL, 0, 0, "VERSION",
         "daemons below this version are refused"},
        {"tls-cert", OPTION_TEXT, AT(tls_cert), NULL, 0, 0, "FILE",
         "certificate chain in PEM, read again on SIGHUP"},
        {"tls-key", OPTION_TEXT, AT(tls_key), NULL, 0, 0, "FILE", "its private key in PEM"},
        {"redirect-listen", OPTION_TEXT, AT(redirect_listen), NULL, 0, 0, "ADDR:PORT",
         "plain HTTP that leads to https and serves nothing; needs --tls-cert"},
        {"allow-from", OPTION_TEXT, AT(allow_from), NULL, 0, 0, "NETWORK,...",
         "answer only these addresses, as 192.0.2.0/24, and others 403: for a server behind a proxy"},
        {"control-listen", OPTION_TEXT, AT(control_listen), NULL, 0, 0, "ADDR:PORT",
         "serve the control API over TCP too; needs --control-token"},
        {"control-token", OPTION_TEXT, AT(control_token), NULL, 0, 0, "FILE",
         "file with the bearer token of the control API over TCP"},
        {"threads", OPTION_NUMBER, AT(threads), "0", 0, 256, "N", "worker threads; 0 means one a core"},
        {"max-connections", OPTION_NUMBER, AT(max_connections), "16000", 1, 1000000, "N",
         "connections at a time"},
        {"max-connections-per-address", OPTION_NUMBER, AT(max_connections_per_address), "16000", 1, 1000000,
         "N", "connections at a time from one address"},
        {"low-disk-bytes", OPTION_NUMBER, AT(low_disk_bytes), "67108864", 0, INT64_MAX, "N",
         "with less free space than this no new work is taken"},
        {"rack", OPTION_BOOL, AT(rack.on), "true", 0, 0, NULL,
         "serve racks under /api/rack; --no-rack leaves them out"},
        {"rack-origin", OPTION_TEXT, AT(rack.origin), NULL, 0, 0, "URL",
         "where racks reach this server, for the URLs of objects; what they asked by otherwise"},
        {"rack-repos", OPTION_TEXT, AT(rack.repos), NULL, 0, 0, "NAME,...",
         "grant leases of these repositories only"},
        {"rack-sizes", OPTION_TEXT, AT(rack.sizes), NULL, 0, 0, "SIZE,...",
         "grant leases of these sizes only: serverless, small, medium, large, xlarge"},
        {"rack-version", OPTION_TEXT, AT(rack.version), NULL, 0, 0, "VERSION",
         "runtime version whose builds of environments racks are given"},
        {"rack-fair", OPTION_BOOL, AT(rack.fair), "true", 0, 0, NULL,
         "grant to the owners of leases in turn; --no-rack-fair: oldest first"},
        {"rack-heed-health", OPTION_BOOL, AT(rack.heed_health), "true", 0, 0, NULL,
         "grant nothing to racks that report themselves unhealthy"},
        {"rack-window-ms", OPTION_NUMBER, AT(rack.window_ms), "20000", 1, RACK_WINDOW_MOST_MS, "N",
         "how long a rack's poll for a lease is held"},
        {"rack-poll-ms", OPTION_NUMBER, AT(rack.poll_ms), "10000", 1, 86400000, "N",
         "how often such a poll looks again, even if nothing has happened"},
        {"rack-poll-max-ms", OPTION_NUMBER, AT(rack.poll_max_ms), "20000", 1, 86400000, "N",
         "what that interval grows to while nothing happens"},
        {"rack-policy-recheck-ms", OPTION_NUMBER, AT(rack.policy_recheck_ms), "0", 0, 86400000, "N",
         "the same for racks that wait to be approved; 0: --rack-poll-ms"},
        {"rack-watch-window-ms", OPTION_NUMBER, AT(rack.watch_window_ms), "20000", 1,
         RACK_WATCH_WINDOW_MOST_MS, "N", "how long a rack's watch for cancellations is held"},
        {"rack-watch-poll-ms", OPTION_NUMBER, AT(rack.watch_poll_ms), "10000", 1, 86400000, "N",
         "how often a watch looks again"},
        {"rack-visibility-ms", OPTION_NUMBER, AT(rack.visibility_ms), "60000", 100, 86400000, "N",
         "how long a rack holds a lease without extending it"},
        {"rack-healthy-ms", OPTION_NUMBER, AT(rack.healthy_ms), "45000", 100, 86400000, "N",
         "how long after its last beat or poll a rack counts as there"},
        {"rack-rotation-ms", OPTION_NUMBER, AT(rack.rotation_ms), "86400000", 1, INT64_C(31536000000), "N",
         "age from which a rack's token is rotated"},
        {"rack-reoffer-ms", OPTION_NUMBER, AT(rack.reoffer_ms), "3600000", 1, INT64_C(31536000000), "N",
         "age from which an unused successor is replaced"},
        {"rack-grace-ms", OPTION_NUMBER, AT(rack.grace_ms), "900000", 1, INT64_C(31536000000), "N",
         "how long a replaced token still works"},
        {"rack-capability-ms", OPTION_NUMBER, AT(rack.capability_ms), "900000", 1000, 86400000, "N",
         "how long the URL of an object works"},
        {"rack-retention-ms", OPTION_NUMBER, AT(rack.retention_ms), "900000", 1, INT64_C(31536000000), "N",
         "how long a lease that has ended is kept"},
        {"rack-expiry-ms", OPTION_NUMBER, AT(rack.expiry_ms), "0", 0, INT64_C(31536000000), "N",
         "racks unseen for longer are removed; 0: never"},
        {"rack-collect-ms", OPTION_NUMBER, AT(rack.collect_ms), "3600000", 0, INT64_C(31536000000), "N",
         "how often objects that nobody needs are removed; 0: only when asked to"},
        {"rack-collect-grace-ms", OPTION_NUMBER, AT(rack.collect_grace_ms), "86400000", 0,
         INT64_C(31536000000), "N", "how long an object stays after it was last written or referenced"},
        {"log-level", OPTION_TEXT, AT(log_level), "info", 0, 0, "LEVEL", "debug, info, warning or error"},
        {"debug", OPTION_BOOL, AT(debug), "false", 0, 0, NULL,
         "serve the debug page, which shows every job of every site"},
        {"config", OPTION_TEXT, AT(config), NULL, 0, 0, "FILE", "read options from a file"},
        {"check-config", OPTION_ACTION, AT(check_config), NULL, 0, 0, NULL, "check all options and leave"},
        {"help", OPTION_ACTION, AT(help), NULL, 0, 0, NULL, "print this and leave"},
        {"version", OPTION_ACTION, AT(version), NULL, 0, 0, NULL, "print the version and leave"},
};

struct reader {
        struct options *options;
        enum option_source source[ARRAY_SIZE(table)];
        struct buf *problem;
        size_t line; /* of the configuration file, from 1; 0: not known */
};

static void *slot(struct options *options, const struct option_row *row)
{
        return (char *)options + row->offset;
}

static const struct option_row *find_row(struct lessor_slice name)
{
        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (lessor_slice_equal(lessor_slice_of(table[i].name), name))
                        return &table[i];
        return NULL;
}

static int set_text(char **target, struct lessor_slice value)
{
        char *copy = strndup(value.p, value.n);

        if (copy == NULL)
                return LESSOR_E_NOMEM;
        free(*target);
        *target = copy;
        return 0;
}

static int add_to_list(struct options *options, struct lessor_slice value)
{
        size_t bytes;
        char **list;
        char *copy;

        if (!size_mul(options->n_listen + 1, sizeof(*list), &bytes))
                return LESSOR_E_NOMEM;
        copy = strndup(value.p, value.n);
        if (copy == NULL)
                return LESSOR_E_NOMEM;
        list = realloc(options->listen, bytes);
        if (list == NULL) {
                free(copy);
                return LESSOR_E_NOMEM;
        }
        options->listen = list;
        options->listen[options->n_listen++] = copy;
        return 0;
}

static void clear_list(struct options *options)
{
        for (size_t i = 0; i < options->n_listen; i++)
                free(options->listen[i]);
        free(options->listen);
        options->listen = NULL;
        options->n_listen = 0;
}

static int refuse(struct reader *r, const struct option_row *row, struct lessor_slice value,
                  const char *wanted)
{
        buf_clear(r->problem);
        buf_printf(r->problem, "--%s: \"%.*s\" is not %s", row->name, (int)(value.n > 200 ? 200 : value.n),
                   value.p, wanted);
        return LESSOR_E_INVALID;
}

static int set_number(struct reader *r, const struct option_row *row, struct lessor_slice value)
{
        char digits[24];
        char *end;
        long long number;

        if (value.n == 0 || value.n >= sizeof(digits))
                return refuse(r, row, value, "a whole number");
        memcpy(digits, value.p, value.n);
        digits[value.n] = '\0';
        errno = 0;
        number = strtoll(digits, &end, 10);
        if (errno != 0 || *end != '\0' || digits[0] == ' ' || digits[0] == '+')
                return refuse(r, row, value, "a whole number");
        if (number < row->min || number > row->max) {
                buf_clear(r->problem);
                buf_printf(r->problem, "--%s: %lld is outside %lld..%lld", row->name, number,
                           (long long)row->min, (long long)row->max);
                return LESSOR_E_INVALID;
        }
        *(int64_t *)slot(r->options, row) = number;
        return 0;
}

static int set_bool(struct reader *r, const struct option_row *row, struct lessor_slice value)
{
        static const struct {
                const char *word;
                bool value;
        } words[] = {{"true", true},   {"yes", true}, {"on", true},   {"1", true},
                     {"false", false}, {"no", false}, {"off", false}, {"0", false}};

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (lessor_slice_equal(lessor_slice_of(words[i].word), value)) {
                        *(bool *)slot(r->options, row) = words[i].value;
                        return 0;
                }
        return refuse(r, row, value, "true or false");
}

/* A stronger source wins over a weaker one; within one source the last word counts, and a list grows. */
static int set_option(struct reader *r, const struct option_row *row, struct lessor_slice value,
                      enum option_source source)
{
        size_t index = (size_t)(row - table);

        if (r->source[index] > source)
                return 0;
        switch (row->kind) {
        case OPTION_LIST:
                if (r->source[index] != source)
                        clear_list(r->options);
                r->source[index] = source;
                return add_to_list(r->options, value);
        case OPTION_TEXT:
                r->source[index] = source;
                if (memchr(value.p, '\0', value.n) != NULL)
                        return refuse(r, row, value, "a text without NUL");
                return set_text(slot(r->options, row), value);
        case OPTION_NUMBER:
                r->source[index] = source;
                return set_number(r, row, value);
        case OPTION_BOOL:
        case OPTION_ACTION:
                r->source[index] = source;
                return set_bool(r, row, value);
        }
        return LESSOR_E_INVALID;
}

static int unknown(struct reader *r, const char *what, struct lessor_slice name)
{
        buf_clear(r->problem);
        buf_printf(r->problem, "unknown %s \"%.*s\"; see lessord --help", what,
                   (int)(name.n > 200 ? 200 : name.n), name.p);
        return LESSOR_E_INVALID;
}

static int read_command_line(struct reader *r, int argc, char *const *argv)
{
        for (int i = 1; i < argc; i++) {
                const char *word = argv[i], *equals;
                const struct option_row *row;
                struct lessor_slice name, value;
                int e;

                if (strncmp(word, "--", 2) != 0)
                        return unknown(r, "argument", lessor_slice_of(word));
                equals = strchr(word, '=');
                name = equals == NULL ? lessor_slice_of(word + 2)
                                      : (struct lessor_slice){word + 2, (size_t)(equals - word - 2)};
                row = find_row(name);
                if (row == NULL && equals == NULL && name.n > 3 && memcmp(name.p, "no-", 3) == 0) {
                        row = find_row((struct lessor_slice){name.p + 3, name.n - 3});
                        if (row == NULL || row->kind != OPTION_BOOL)
                                return unknown(r, "option", lessor_slice_of(word));
                        e = set_option(r, row, LESSOR_SLICE("false"), SOURCE_COMMAND_LINE);
                } else if (row == NULL) {
                        return unknown(r, "option", lessor_slice_of(word));
                } else {
                        if (equals != NULL)
                                value = lessor_slice_of(equals + 1);
                        else if (row->kind == OPTION_BOOL || row->kind == OPTION_ACTION)
                                value = LESSOR_SLICE("true");
                        else if (i + 1 < argc)
                                value = lessor_slice_of(argv[++i]);
                        else {
                                buf_printf(r->problem, "--%s wants a value: %s", row->name, row->value);
                                return LESSOR_E_INVALID;
                        }
                        e = set_option(r, row, value, SOURCE_COMMAND_LINE);
                }
                if (e < 0)
                        return e;
        }
        return 0;
}

/* LESSOR_LEASE_MS is `lease-ms`. Variables of other programs of the family are passed over. */
static int read_environment(struct reader *r, char *const *environment)
{
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct option_row *row = &table[i];
                size_t name_len = strlen(row->name);

                if (row->kind == OPTION_ACTION)
                        continue;
                for (char *const *entry = environment; *entry != NULL; entry++) {
                        const char *at = *entry;
                        size_t n = 0;
                        int e;

                        if (strncmp(at, "LESSOR_", 7) != 0)
                                continue;
                        at += 7;
                        while (n < name_len &&
                               at[n] == (row->name[n] == '-' ? '_' : row->name[n] - 'a' + 'A'))
                                n++;
                        if (n != name_len || at[n] != '=')
                                continue;
                        e = set_option(r, row, lessor_slice_of(at + n + 1), SOURCE_ENVIRONMENT);
                        if (e < 0)
                                return e;
                }
        }
        return 0;
}

static struct lessor_slice trim(struct lessor_slice s)
{
        while (s.n > 0 && strchr(" \t\r", s.p[0]) != NULL && s.p[0] != '\0')
                s.p++, s.n--;
        while (s.n > 0 && strchr(" \t\r", s.p[s.n - 1]) != NULL && s.p[s.n - 1] != '\0')
                s.n--;
        return s;
}

static int set_from_file(struct reader *r, struct lessor_slice key, struct lessor_slice value)
{
        const struct option_row *row = find_row(key);

        if (row == NULL || row->kind == OPTION_ACTION || strcmp(row->name, "config") == 0)
                return unknown(r, "key", key);
        return set_option(r, row, value, SOURCE_FILE);
}

/* Lines of `key = value`; `#` begins a comment at the start of a line. */
static int read_config_lines(struct reader *r, struct lessor_slice text)
{
        for (r->line = 1; text.n > 0; r->line++) {
                const char *newline = memchr(text.p, '\n', text.n), *equals;
                size_t n = newline == NULL ? text.n : (size_t)(newline - text.p);
                struct lessor_slice line = trim((struct lessor_slice){text.p, n});
                int e;

                text.p += newline == NULL ? n : n + 1;
                text.n -= newline == NULL ? n : n + 1;
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                equals = memchr(line.p, '=', line.n);
                if (equals == NULL)
                        return unknown(r, "line", line);
                n = (size_t)(equals - line.p);
                e = set_from_file(r, trim((struct lessor_slice){line.p, n}),
                                  trim((struct lessor_slice){equals + 1, line.n - n - 1}));
                if (e < 0)
                        return e;
        }
        return 0;
}

static int set_json_value(struct reader *r, struct lessor_slice key, const struct json *value)
{
        char digits[24];
        int64_t number;

        if (json_is(value, JSON_STRING))
                return set_from_file(r, key, json_text(value));
        if (json_is_bool(value))
                return set_from_file(
                        r, key, json_is(value, JSON_TRUE) ? LESSOR_SLICE("true") : LESSOR_SLICE("false"));
        if (json_int(value, &number)) {
                snprintf(digits, sizeof(digits), "%lld", (long long)number);
                return set_from_file(r, key, lessor_slice_of(digits));
        }
        buf_clear(r->problem);
        buf_printf(r->problem, "\"%.*s\": neither a text, a whole number nor true or false", (int)key.n,
                   key.p);
        return LESSOR_E_INVALID;
}

/* The same keys as one JSON object, for programs that write the file. A list is an array of texts. */
static int read_config_json(struct reader *r, struct lessor_slice text, struct lessor_arena *arena)
{
        const char *why = NULL;
        struct json *root;
        int e;

        e = json_read_file_text(text, arena, &root, &why);
        if (e < 0) {
                if (why != NULL)
                        buf_text(r->problem, why);
                return e == LESSOR_E_NOMEM ? e : LESSOR_E_INVALID;
        }
        if (!json_is(root, JSON_OBJECT)) {
                buf_text(r->problem, "not a JSON object");
                return LESSOR_E_INVALID;
        }
        json_each (member, root) {
                if (!json_is(member, JSON_ARRAY)) {
                        e = set_json_value(r, member->key, member);
                        if (e < 0)
                                return e;
                        continue;
                }
                json_each (item, member) {
                        e = set_json_value(r, member->key, item);
                        if (e < 0)
                                return e;
                }
        }
        return 0;
}

static void arena_free_p(struct lessor_arena **arena)
{
        lessor_arena_free(*arena);
}

static int read_config_file(struct reader *r)
{
        _cleanup_(buf_done) struct buf text = {0}, problem = {0};
        _cleanup_(arena_free_p) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice at;
        int e;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        e = file_read(r->options->config, LIMIT_FILE_BYTES, &text);
        if (e < 0) {
                buf_printf(r->problem, "--config: cannot read %s: %s", r->options->config,
                           lessor_error_text(e));
                return e == LESSOR_E_NOMEM ? e : LESSOR_E_INVALID;
        }
        at = trim(buf_view(&text));
        e = at.n > 0 && at.p[0] == '{' ? read_config_json(r, at, arena) : read_config_lines(r, at);
        if (e < 0) {
                if (buf_slice(&problem, buf_view(r->problem)) < 0)
                        return LESSOR_E_NOMEM;
                buf_clear(r->problem);
                buf_text(r->problem, r->options->config);
                if (r->line > 0)
                        buf_printf(r->problem, ":%zu", r->line);
                buf_printf(r->problem, ": %.*s", (int)problem.n, problem.p == NULL ? "" : problem.p);
        }
        return e;
}

static bool one_of(const char *value, const char *const *words)
{
        for (; *words != NULL; words++)
                if (strcmp(value, *words) == 0)
                        return true;
        return false;
}

static int check_address(struct reader *r, const char *name, const char *text)
{
        if (text == NULL || http_address_check(text) == 0)
                return 0;
        buf_printf(r->problem, "--%s: \"%s\" is no ADDRESS:PORT such as 127.0.0.1:5327 or [::1]:5327", name,
                   text);
        return LESSOR_E_INVALID;
}

static int check_addresses(struct reader *r)
{
        const struct options *o = r->options;
        int e = 0;

        for (size_t i = 0; i < o->n_listen && e == 0; i++)
                e = check_address(r, "listen", o->listen[i]);
        if (e == 0)
                e = check_address(r, "redirect-listen", o->redirect_listen);
        return e < 0 ? e : check_address(r, "control-listen", o->control_listen);
}

/* Scheme and authority, nothing behind: "https://racks.example.org:8443". */
static int check_origin(struct reader *r)
{
        char *origin = r->options->rack.origin;
        size_t scheme = strncmp(origin, "https://", 8) == 0 ? 8 : strncmp(origin, "http://", 7) == 0 ? 7 : 0;
        size_t n = strlen(origin);

        while (n > scheme && origin[n - 1] == '/')
                origin[--n] = '\0';
        if (scheme > 0 && n > scheme && strcspn(origin + scheme, "/?#@ \t\r\n\"<>\\") == n - scheme)
                return 0;
        buf_printf(r->problem, "--rack-origin: \"%s\" is no origin such as https://racks.example.org",
                   origin);
        return LESSOR_E_INVALID;
}

/* What no single option can tell. */
static int check_together(struct reader *r)
{
        static const char *const stores[] = {"memory", "sqlite", NULL};
        static const char *const levels[] = {"debug", "info", "warning", "error", NULL};
        struct options *o = r->options;
        size_t n;

        if (!one_of(o->store, stores)) {
                buf_printf(r->problem, "--store: \"%s\" is neither memory nor sqlite", o->store);
                return LESSOR_E_INVALID;
        }
        if (!one_of(o->log_level, levels)) {
                buf_printf(r->problem, "--log-level: \"%s\" is not debug, info, warning or error",
                           o->log_level);
                return LESSOR_E_INVALID;
        }
        if ((o->tls_cert == NULL) != (o->tls_key == NULL)) {
                buf_text(r->problem, "--tls-cert and --tls-key go together");
                return LESSOR_E_INVALID;
        }
        if (o->redirect_listen != NULL && o->tls_cert == NULL) {
                buf_text(r->problem, "--redirect-listen needs --tls-cert: there is no https to lead to");
                return LESSOR_E_INVALID;
        }
        if (o->allow_from != NULL && http_networks_check(o->allow_from) < 0) {
                buf_printf(r->problem,
                           "--allow-from: \"%s\" is no list of networks such as 192.0.2.0/24,2001:db8::1",
                           o->allow_from);
                return LESSOR_E_INVALID;
        }
        if (o->control_listen != NULL && o->control_token == NULL) {
                buf_text(r->problem,
                         "--control-listen needs --control-token: nobody may drive the server unasked");
                return LESSOR_E_INVALID;
        }
        if (o->grant_key != NULL && o->grant_signer != NULL) {
                buf_text(r->problem, "--grant-key and --grant-signer exclude each other");
                return LESSOR_E_INVALID;
        }
        if (o->rack.origin != NULL && check_origin(r) < 0)
                return LESSOR_E_INVALID;
        if (o->base_path[0] != '/') {
                buf_printf(r->problem, "--base-path: \"%s\" does not begin with a slash", o->base_path);
                return LESSOR_E_INVALID;
        }
        for (n = strlen(o->base_path); n > 0 && o->base_path[n - 1] == '/'; n--)
                o->base_path[n - 1] = '\0';
        return 0;
}

int options_read(int argc, char *const *argv, char *const *environment, struct options *ret_options,
                 struct buf *ret_problem)
{
        struct reader r = {.options = ret_options, .problem = ret_problem};
        int e;

        memset(ret_options, 0, sizeof(*ret_options));
        e = read_command_line(&r, argc, argv);
        if (e < 0)
                return e;
        if (ret_options->help || ret_options->version)
                return 0;
        e = read_environment(&r, environment);
        if (e < 0)
                return e;
        if (ret_options->config != NULL) {
                e = read_config_file(&r);
                if (e < 0)
                        return e;
        }
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                if (r.source[i] != SOURCE_NONE || table[i].fallback == NULL)
                        continue;
                e = set_option(&r, &table[i], lessor_slice_of(table[i].fallback), SOURCE_NONE);
                if (e < 0)
                        return e;
        }
        e = check_addresses(&r);
        return e < 0 ? e : check_together(&r);
}

void options_done(struct options *options)
{
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                if (table[i].kind != OPTION_TEXT)
                        continue;
                free(*(char **)slot(options, &table[i]));
                *(char **)slot(options, &table[i]) = NULL;
        }
        clear_list(options);
}

int options_help(struct buf *out)
{
        buf_text(out, "Usage: lessord [OPTION...]\n\n"
                      "Hands out leases on work to machines that only dial out.\n\n");
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct option_row *row = &table[i];
                size_t before = out->n, width;

                buf_printf(out, "  --%s%s%s", row->name, row->value == NULL ? "" : " ",
                           row->value == NULL ? "" : row->value);
                width = out->n - before;
                buf_printf(out, "%*s%s", (int)(width < 40 ? 40 - width : 2), "", row->help);
                if (row->fallback != NULL && row->kind != OPTION_BOOL)
                        buf_printf(out, " (default %s)", row->fallback);
                buf_char(out, '\n');
        }
        buf_text(
                out,
                "\nEvery option is also a key of the configuration file (lease-ms = 45000) and a variable "
                "of\n"
                "the environment (LESSOR_LEASE_MS). The command line counts before the environment, and the\n"
                "environment before the file.\n\n"
                "Examples:\n"
                "  lessord --data /var/lib/lessor\n"
                "  lessord --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem\n"
                "  lessord --config /etc/lessor.conf --check-config\n");
        return buf_failed(out);
}
