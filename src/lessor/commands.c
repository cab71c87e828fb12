/* SPDX-License-Identifier: MIT */
#include "lessor/commands.h"

#include "base/macro.h"
#include "lessor/lease_name.h"
#include "lessor/repo.h"

/*
 * Every command. This table parses the command line, is the help, makes the shells' completions, and
 * lessor(1) is held to it by a test.
 */

#define END                                              \
        {                                                \
                NULL, NULL, NULL, COMPLETE_NOTHING, NULL \
        }
#define KINDS  "chat generate llm.chat llm.generate"
#define STATES "queued awaiting-payload ready running done"
#define SIZES  "serverless small medium large xlarge"
#define OWNER_FILTER                                                          \
        {                                                                     \
                "owner", "USER", "only of this owner", COMPLETE_NOTHING, NULL \
        }

const struct cli_option cli_common_options[] = {
        {"json", NULL, "print JSON for programs", COMPLETE_NOTHING, NULL},
        {"help", NULL, "print help and leave", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option server_options[] = {
        {"data", "DIR", "the server's data directory (LESSOR_DATA; ./lessor-data)", COMPLETE_DIRECTORY, NULL},
        {"control", "URL", "reach the server over TCP instead, as with lessord --control-listen",
         COMPLETE_NOTHING, NULL},
        {"token", "FILE", "the bearer token for --control", COMPLETE_FILE, NULL},
        {"ca", "FILE", "trust these certificates (PEM) for --control instead of the system's", COMPLETE_FILE,
         NULL},
        END,
};

static const struct cli_option relay_options[] = {
        {"relay", "URL", "the relay (LESSOR_RELAY; http://127.0.0.1:5327)", COMPLETE_NOTHING, NULL},
        {"ca", "FILE", "trust these certificates (PEM) instead of the system's", COMPLETE_FILE, NULL},
        {"proxy", "URL", "go through a proxy; \"env\" takes it from the environment", COMPLETE_NOTHING, NULL},
        END,
};

const struct cli_option *cli_peer_options(enum cli_peer peer)
{
        static const struct cli_option *const lists[] = {
                [PEER_NONE] = NULL, [PEER_SERVER] = server_options, [PEER_RELAY] = relay_options};

        return lists[peer];
}

static const struct cli_option identity_options[] = {
        {"keys", "FILE", "the site's key file; its private keys stay here", COMPLETE_FILE, NULL},
        {"public", "FILE", "its public identity as JSON instead; - is stdin", COMPLETE_FILE, NULL},
        END,
};

static const struct cli_option rotate_options[] = {
        {"keys", "OLD", "the key file that retires", COMPLETE_FILE, NULL},
        {"new-keys", "NEW", "the key file that follows", COMPLETE_FILE, NULL},
        {"retire-after", "TIME", "how long the old key is good for what was asked with it (7d, at most)",
         COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option declare_options[] = {
        {"clear", NULL, "take the declaration back", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option mapping_options[] = {
        {"service", "NAME", "what answers: a service of the owner's devices", COMPLETE_NOTHING, NULL},
        {"kind", "KIND", "chat or generate (both)", COMPLETE_WORDS, KINDS},
        {"purpose", "NAME", "for which purpose of the site (default)", COMPLETE_NOTHING, NULL},
        {"service-owner", "USER", "whose service it is (the owner's own)", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option owner_filter[] = {OWNER_FILTER, END};

static const struct cli_option approve_options[] = {
        {"owner", "USER", "whose device it is", COMPLETE_NOTHING, NULL},
        {"key", "KEY-ID", "approve only if the device has this key", COMPLETE_NOTHING, NULL},
        {"yes", NULL, "do not ask, even on a terminal", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option device_ls_options[] = {
        OWNER_FILTER,
        {"pending", NULL, "the devices that wait to be approved", COMPLETE_NOTHING, NULL},
        END,
};

#define DEVICE_OPTIONS                                                                                     \
        {"dir", "DIR", "the device's directory: keys, pairing, logs", COMPLETE_DIRECTORY, NULL},           \
                {"backend", "BACKEND", "echo, openai:URL,MODEL or exec:PROGRAM", COMPLETE_NOTHING, NULL},  \
                {"service", "NAME", "what it is called (the model; else echo or exec)", COMPLETE_NOTHING,  \
                 NULL},                                                                                    \
                {"kind", "KIND", "chat or generate (both)", COMPLETE_WORDS, KINDS},                        \
                {"offer", "WHO", "private: to the owner; team: to the owner's rosters too (private)",      \
                 COMPLETE_WORDS, "private team"},                                                          \
                {"model", "NAME", "the model as advertised (the service's name)", COMPLETE_NOTHING, NULL}, \
        {                                                                                                  \
                "slots", "N", "jobs at once, 1 to 64 (1)", COMPLETE_NOTHING, NULL                          \
        }

static const struct cli_option pair_options[] = {
        DEVICE_OPTIONS,
        {"label", "TEXT", "what the owner sees (the host's name)", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option run_options[] = {DEVICE_OPTIONS, END};

static const struct cli_option roster_options[] = {
        {"owner", "USER", "whose devices serve the roster", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option job_options[] = {
        {"site", "SITE", "only of this site", COMPLETE_NOTHING, NULL},
        {"state", "STATE", "queued, awaiting-payload, ready, running or done", COMPLETE_WORDS, STATES},
        OWNER_FILTER,
        {"limit", "N", "at most so many, up to 10000 (100)", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option run_command_options[] = {
        {"tier", "TIER", "which racks may have it: those that work for this tier (shell)", COMPLETE_NOTHING,
         NULL},
        {"in", "PATH", "a file or directory that the command needs; again for more", COMPLETE_FILE, NULL},
        {"out", "PATH", "a file or directory that comes back; again for more (out, if it is there)",
         COMPLETE_FILE, NULL},
        {"dest", "DIR", "where they are put (.)", COMPLETE_DIRECTORY, NULL},
        {"force", NULL, "replace what is there", COMPLETE_NOTHING, NULL},
        {"env", "NAME[=VALUE]", "a variable for the command; again for more", COMPLETE_NOTHING, NULL},
        {"network", NULL, "the command may use the network", COMPLETE_NOTHING, NULL},
        {"timeout", "TIME", "longest run (what the rack allows)", COMPLETE_NOTHING, NULL},
        {"memory", "BYTES", "most memory (what the rack allows)", COMPLETE_NOTHING, NULL},
        {"disk", "BYTES", "most room on disk (what the rack allows)", COMPLETE_NOTHING, NULL},
        {"ttl", "TIME", "give up if no rack has it by then", COMPLETE_NOTHING, NULL},
        {"attempts", "N", "racks that it may lose (3)", COMPLETE_NOTHING, NULL},
        REPO_OPTION,
        {"run", "RUN", "the run it belongs to", COMPLETE_NOTHING, NULL},
        {"owner", "USER", "whose work it is: owners take turns", COMPLETE_NOTHING, NULL},
        {"key", "KEY", "the same key comes back with the same lease", COMPLETE_NOTHING, NULL},
        {"detach", NULL, "print the number of the lease, and do not wait", COMPLETE_NOTHING, NULL},
        {"quiet", NULL, "nothing of lessor's own on stderr but failures", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option lease_create_options[] = {
        {"repo", "REPO", "the repository that the work's objects are in", COMPLETE_NOTHING, NULL},
        {"tier", "TIER", "which racks may have it: those that work for this tier", COMPLETE_NOTHING, NULL},
        {"task", "HASH", "a lessor.task/1 object of the repository", COMPLETE_NOTHING, NULL},
        {"event", "FILE", "a lease event (version 2) as JSON instead; - is stdin", COMPLETE_FILE, NULL},
        {"name", "NAME", "what it is called (the task's command)", COMPLETE_NOTHING, NULL},
        {"workspace", "NAME", "the workspace it belongs to", COMPLETE_NOTHING, NULL},
        {"run", "RUN", "the run it belongs to", COMPLETE_NOTHING, NULL},
        {"owner", "USER", "whose work it is: owners take turns", COMPLETE_NOTHING, NULL},
        {"size", "SIZE", "serverless, small, medium, large or xlarge", COMPLETE_WORDS, SIZES},
        {"bundled", "VERSION", "the bundled version that a rack needs at least", COMPLETE_NOTHING, NULL},
        {"environment", "HASH", "the published environment it runs in", COMPLETE_NOTHING, NULL},
        {"timeout", "TIME", "longest run, with --task (the task's own limit)", COMPLETE_NOTHING, NULL},
        {"ttl", "TIME", "give up if no rack has it by then", COMPLETE_NOTHING, NULL},
        {"attempts", "N", "racks that it may lose before it ends as poisoned", COMPLETE_NOTHING, NULL},
        {"key", "KEY", "the same key comes back with the same lease", COMPLETE_NOTHING, NULL},
        {"share", NULL, "take up a living lease of the same work, with --key", COMPLETE_NOTHING, NULL},
        END,
};

#define TYPES_OPTION                                                                            \
        {                                                                                       \
                "types", "TYPE,...", "only of these types: lease.completed, rack.removed, ...", \
                        COMPLETE_NOTHING, NULL                                                  \
        }

static const struct cli_option events_options[] = {
        {"repo", "REPO", "only of this repository", COMPLETE_NOTHING, NULL},
        {"lease", "LEASE-ID", "only of this lease", COMPLETE_NOTHING, NULL},
        {"run", "RUN", "only of this run", COMPLETE_NOTHING, NULL},
        {"rack", "RACK-ID", "only of this rack", COMPLETE_NOTHING, NULL},
        TYPES_OPTION,
        {"after", "EVENT-ID", "begin behind this one, or with the oldest that is kept: oldest",
         COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option webhook_add_options[] = {
        {"secret-file", "FILE",
         "sign with what is in this file, 16 characters or more; else a secret is made", COMPLETE_FILE, NULL},
        {"repo", "REPO", "only of this repository", COMPLETE_NOTHING, NULL},
        {"run", "RUN", "only of this run", COMPLETE_NOTHING, NULL},
        TYPES_OPTION,
        END,
};

static const struct cli_option lease_ls_options[] = {
        {"run", "RUN", "only of this run", COMPLETE_NOTHING, NULL},
        {"status", "STATUS",
         "only these, with commas: pending, claimed, completed, superseded, cancelled, "
         "poisoned, expired",
         COMPLETE_NOTHING, NULL},
        {"rack", "RACK", "only what this rack holds", COMPLETE_NOTHING, NULL},
        {"repo", "REPO", "only of this repository", COMPLETE_NOTHING, NULL},
        OWNER_FILTER,
        {"after", "NUMBER", "only those behind this one", COMPLETE_NOTHING, NULL},
        {"limit", "N", "at most so many, up to 10000 (100)", COMPLETE_NOTHING, NULL},
        END,
};

#define REASON_OPTION                                                                     \
        {                                                                                 \
                "reason", "TEXT", "why, for the attempt's record", COMPLETE_NOTHING, NULL \
        }

static const struct cli_option lease_cancel_options[] = {
        {"key", "KEY", "only for the subscriber of this key; the last to leave ends it", COMPLETE_NOTHING,
         NULL},
        REASON_OPTION,
        END,
};

static const struct cli_option reason_options[] = {REASON_OPTION, END};

static const struct cli_option rack_token_options[] = {
        {"ttl", "TIME", "how long it can be used, 1m to 1d (15m)", COMPLETE_NOTHING, NULL},
        {"label", "TEXT", "a note for the list of tokens", COMPLETE_NOTHING, NULL},
        {"url", "URL", "where the machine finds the server (what the server says)", COMPLETE_NOTHING, NULL},
        END,
};

#define RACK_OPTIONS                                                                                    \
        {"dir", "DIR", "the rack's directory (LESSOR_RACK; ./lessor-rack)", COMPLETE_DIRECTORY, NULL},  \
                {"tier", "TIER", "what it works for; again for more", COMPLETE_NOTHING, NULL},          \
                {"ca", "FILE", "trust these certificates (PEM) instead of the system's", COMPLETE_FILE, \
                 NULL},                                                                                 \
        {                                                                                               \
                "proxy", "URL", "go through a proxy; \"env\" takes it from the environment",            \
                        COMPLETE_NOTHING, NULL                                                          \
        }

static const struct cli_option rack_join_options[] = {
        RACK_OPTIONS,
        {"label", "TEXT", "what people see (the host's name)", COMPLETE_NOTHING, NULL},
        {"replace", NULL, "give up the rack that the directory holds", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option rack_run_options[] = {
        RACK_OPTIONS,
        {"slots", "N", "tasks at once, 1 to 64 (1)", COMPLETE_NOTHING, NULL},
        {"once", NULL, "stop after one task", COMPLETE_NOTHING, NULL},
        {"grace", "TIME", "how long tasks may go on when it is to stop (30s)", COMPLETE_NOTHING, NULL},
        {"cache-dir", "DIR", "where objects are kept (cache in the rack's directory)", COMPLETE_DIRECTORY,
         NULL},
        {"cache-bytes", "BYTES", "how much of them that are not in use (10G)", COMPLETE_NOTHING, NULL},
        {"work-dir", "DIR", "where tasks run; it is emptied (work in the rack's directory)",
         COMPLETE_DIRECTORY, NULL},
        {"time-limit", "TIME", "the longest that a task may take (1d)", COMPLETE_NOTHING, NULL},
        {"memory", "BYTES", "the most memory that a task may have (none)", COMPLETE_NOTHING, NULL},
        {"disk", "BYTES", "the most room on disk (64G)", COMPLETE_NOTHING, NULL},
        {"processes", "N", "the most processes, threads included (4096)", COMPLETE_NOTHING, NULL},
        {"log-bytes", "BYTES", "the most that is sent of stdout, and of stderr (64M)", COMPLETE_NOTHING,
         NULL},
        {"allow-network", NULL, "give the network to tasks that ask for it", COMPLETE_NOTHING, NULL},
        {"share", "PATH", "let tasks read this too; again for more", COMPLETE_FILE, NULL},
        {"device", "PATH", "let tasks use this device; again for more", COMPLETE_FILE, NULL},
        {"no-sandbox", NULL, "let tasks do whatever your user can", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option rack_approve_options[] = {
        {"boot", "BOOT", "approve only this start of it (the last)", COMPLETE_NOTHING, NULL},
        {"yes", NULL, "do not ask, even on a terminal", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option rack_rm_options[] = {
        {"yes", NULL, "do not ask, even on a terminal", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option rack_activity_options[] = {
        {"limit", "N", "at most so many, up to 10000 (100)", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option backup_options[] = {
        {"leases", "FILE", "copy the database of leases and racks too, to this file", COMPLETE_FILE, NULL},
        END,
};

static const struct cli_option ask_options[] = {
        {"site", "SITE", "the site that asks, as registered", COMPLETE_NOTHING, NULL},
        {"site-keys", "FILE", "its key file", COMPLETE_FILE, NULL},
        {"owner", "USER", "whose devices shall answer", COMPLETE_NOTHING, NULL},
        {"device-key", "KEYID", "seal it to a device of this key only; again for more (any)",
         COMPLETE_NOTHING, NULL},
        {"purpose", "NAME", "what it is for, as the site declares it", COMPLETE_NOTHING, NULL},
        {"kind", "KIND", "chat or generate (chat)", COMPLETE_WORDS, KINDS},
        {"audience", "WHO", "private: the owner's devices; team: the team's too (private)", COMPLETE_WORDS,
         "private team"},
        {"system", "TEXT", "a system prompt", COMPLETE_NOTHING, NULL},
        {"deadline", "TIME", "give up after so long (10m)", COMPLETE_NOTHING, NULL},
        {"quiet", NULL, "no progress on stderr", COMPLETE_NOTHING, NULL},
        END,
};

#define QUIET_OPTION                                                           \
        {                                                                      \
                "quiet", NULL, "no progress on stderr", COMPLETE_NOTHING, NULL \
        }

static const struct cli_option object_put_options[] = {REPO_OPTION, QUIET_OPTION, END};

static const struct cli_option object_get_options[] = {
        REPO_OPTION,
        {"raw", NULL, "do not unpack a tree: its own text", COMPLETE_NOTHING, NULL},
        {"force", NULL, "replace a file of that name", COMPLETE_NOTHING, NULL},
        QUIET_OPTION,
        END,
};

static const struct cli_option object_ls_options[] = {
        REPO_OPTION,
        {"after", "HASH", "only those behind this one", COMPLETE_NOTHING, NULL},
        {"limit", "N", "at most so many, up to 10000 (100)", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option object_gc_options[] = {
        {"grace", "TIME", "keep what was used within this time (1d)", COMPLETE_NOTHING, NULL},
        {"dry-run", NULL, "only say what would be removed", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option object_verify_options[] = {
        {"repo", "REPO", "only this repository (all)", COMPLETE_NOTHING, NULL},
        {"set-aside", NULL, "move damaged ones away, so that they can be put again", COMPLETE_NOTHING, NULL},
        END,
};

static const struct cli_option env_publish_options[] = {
        {"image", "IMAGE", "the image that the layers go on", COMPLETE_NOTHING, NULL},
        {"tier", "TIER", "which racks can run it: those that work for this tier", COMPLETE_NOTHING, NULL},
        {"media-type", "TYPE", "of the layers (application/vnd.oci.image.layer.v1.tar+gzip)",
         COMPLETE_NOTHING, NULL},
        QUIET_OPTION,
        END,
};

static const struct cli_option logs_options[] = {
        {"follow", NULL, "go on until the attempt has ended, and with the next one; also -f",
         COMPLETE_NOTHING, NULL},
        {"stream", "STREAM", "only this one, on stdout (both, each on its own)", COMPLETE_WORDS,
         "stdout stderr"},
        {"attempt", "ATTEMPT", "its number or execution id (the newest)", COMPLETE_NOTHING, NULL},
        END,
};

const struct cli_group cli_groups[] = {
        {"ask", "put a question to a device, as a site does"},
        {"keys", "make and look at key files"},
        {"site", "who may publish work"},
        {"consent", "whose work a site may publish, and what answers it"},
        {"device", "the machines that do the work"},
        {"roster", "whose work an owner's devices do besides the owner's own"},
        {"job", "the jobs that the server has"},
        {"run", "run a command on another machine"},
        {"lease", "work for racks, as whoever submits it sees it"},
        {"logs", "what attempts at a lease wrote"},
        {"runs", "leases that belong together"},
        {"rack", "the machines that work on leases"},
        {"object", "what leases read and write: bytes by their hash"},
        {"env", "what racks run tasks in"},
        {"projection", "all that says who may route to whom, as one document"},
        {"server", "the server as a whole"},
        {"lessor", "this program"},
};
const size_t cli_n_groups = ARRAY_SIZE(cli_groups);

const struct cli_command cli_commands[] = {
        {"ask", "PROMPT|-", 1, 1, PEER_RELAY, COMPLETE_NOTHING, ask_options, run_ask,
         "seal a prompt to a device of the owner's, and print its opened answer",
         "The relay sees that there is a question, never what it says. The answer is on stdout; how it goes\n"
         "on is on stderr. Ctrl-C withdraws the job. With --device-key, a relay that was taken over cannot "
         "have\n"
         "the prompt sealed to a device of its own.",
         "lessor ask --site demo --site-keys demo.json --owner alice \"what is a lease?\"\n"
         "lessor ask --site demo --site-keys demo.json --owner alice --deadline 90s --json - <question.txt"},

        {"keys new", "FILE", 1, 1, PEER_NONE, COMPLETE_FILE, NULL, run_keys_new,
         "make the keys of a site or a device",
         "The file is readable by you alone and never overwrites one. Private keys are never printed.",
         "lessor keys new demo.json"},
        {"keys show", "FILE", 1, 1, PEER_NONE, COMPLETE_FILE, NULL, run_keys_show,
         "print the key id and public identity of a key file", NULL, "lessor keys show demo.json --json"},

        {"site add", "SITE [PURPOSE...]", 1, -1, PEER_SERVER, COMPLETE_NOTHING, identity_options,
         run_site_add, "register a site", "With purposes, the site declares that it has these and no others.",
         "lessor site add demo --keys demo.json\n"
         "lessor keys show demo.json --json | jq .public | lessor site add demo --public -"},
        {"site ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_site_ls, "list the sites", NULL,
         "lessor site ls"},
        {"site rm", "SITE", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_site_rm,
         "forget a site with its consents", NULL, "lessor site rm demo"},
        {"site rotate", "SITE", 1, 1, PEER_SERVER, COMPLETE_NOTHING, rotate_options, run_site_rotate,
         "give a site its next key",
         "The old key signs for the new one, here: no private key goes to the server. Devices that pinned\n"
         "the old key follow.",
         "lessor keys new demo-2.json\n"
         "lessor site rotate demo --keys demo.json --new-keys demo-2.json --retire-after 1d"},
        {"site declare", "SITE [PURPOSE...]", 1, -1, PEER_SERVER, COMPLETE_NOTHING, declare_options,
         run_site_declare, "say which purposes a site has", NULL,
         "lessor site declare demo summaries translations\nlessor site declare demo --clear"},

        {"consent add", "OWNER SITE", 2, 2, PEER_SERVER, COMPLETE_NOTHING, mapping_options, run_consent_add,
         "let a site's work for an owner be routed",
         "With --service, also choose what answers it. Without, devices need no grant, or mappings follow.",
         "lessor consent add alice demo\nlessor consent add alice demo --service llama --kind chat"},
        {"consent ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, owner_filter, run_consent_ls,
         "list consents with their mappings", NULL, "lessor consent ls --owner alice"},
        {"consent pause", "OWNER SITE", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_consent_pause,
         "hold a consent's work back", NULL, "lessor consent pause alice demo"},
        {"consent resume", "OWNER SITE", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_consent_resume,
         "let a paused consent's work go on", NULL, "lessor consent resume alice demo"},
        {"consent revoke", "OWNER SITE", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_consent_revoke,
         "revoke the route, and keep a record of that", "A later `consent add` lifts it.",
         "lessor consent revoke alice demo"},
        {"consent rm", "OWNER SITE", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_consent_rm,
         "forget a consent with its mappings", NULL, "lessor consent rm alice demo"},
        {"consent mapping add", "OWNER SITE", 2, 2, PEER_SERVER, COMPLETE_NOTHING, mapping_options,
         run_mapping_add, "choose the service that answers a purpose of a site",
         "Of several for one purpose and kind the first counts.",
         "lessor consent mapping add alice demo --service llama --purpose summaries"},
        {"consent mapping rm", "OWNER SITE", 2, 2, PEER_SERVER, COMPLETE_NOTHING, mapping_options,
         run_mapping_rm, "take such a choice back", NULL,
         "lessor consent mapping rm alice demo --service llama --purpose summaries"},

        {"device pair", "", 0, 0, PEER_RELAY, COMPLETE_NOTHING, pair_options, run_device_pair,
         "ask for this machine to be approved as a device, and wait",
         "Prints a code, and the key that whoever approves it should see. Makes the device's keys if it has\n"
         "none.",
         "lessor device pair --relay https://relay.example --dir ./device --backend echo"},
        {"device run", "", 0, 0, PEER_RELAY, COMPLETE_NOTHING, run_options, run_device_run,
         "let a paired device work",
         "Only ever dials out. Every prompt is written to ingress.log in the device's directory before it\n"
         "runs. Ctrl-C gives back what is under way. The relay is the one that it was paired with. A key "
         "for\n"
         "openai: is taken from LESSOR_OPENAI_API_KEY. exec: starts a program for each job, found in PATH "
         "or\n"
         "named whole, with words after it as its arguments: the payload's JSON is on its stdin, the answer\n"
         "on its stdout; status 75 says that asking again may help, others but 0 that it failed.",
         "lessor device run --dir ./device --backend openai:http://127.0.0.1:11434/v1,llama3 --slots 2\n"
         "lessor device run --dir ./device --backend exec:/usr/local/bin/answer --kind generate"},
        {"device approve", "CODE", 1, 1, PEER_SERVER, COMPLETE_NOTHING, approve_options, run_device_approve,
         "approve the device that shows a code",
         "On a terminal it shows the device and its key, and asks: compare the key with the device's own.",
         "lessor device approve ABCD-1234 --owner alice"},
        {"device ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, device_ls_options, run_device_ls,
         "list the devices, when each was seen and what it serves", NULL,
         "lessor device ls\nlessor device ls --pending"},
        {"device revoke", "DEVICE", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_device_revoke,
         "refuse a device for good", NULL,
         "lessor device revoke runner_7e33583b-e86c-448e-85bf-551b5b778b48"},
        {"device rm", "DEVICE", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_device_rm,
         "take a device off the list", "Its id is refused for good; its keys may be approved anew.",
         "lessor device rm runner_7e33583b-e86c-448e-85bf-551b5b778b48"},

        {"roster add", "ROSTER [MEMBER...]", 1, -1, PEER_SERVER, COMPLETE_NOTHING, roster_options,
         run_roster_add, "make a roster: whose work an owner's devices may do too", NULL,
         "lessor roster add lab --owner alice bob carol"},
        {"roster ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_roster_ls, "list the rosters", NULL,
         "lessor roster ls"},
        {"roster rm", "ROSTER", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_roster_rm, "forget a roster",
         NULL, "lessor roster rm lab"},
        {"roster member add", "ROSTER MEMBER", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_member_add,
         "add a member to a roster", NULL, "lessor roster member add lab dave"},
        {"roster member rm", "ROSTER MEMBER", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_member_rm,
         "take a member off a roster", NULL, "lessor roster member rm lab dave"},

        {"job ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, job_options, run_job_ls,
         "list jobs, the oldest first", NULL,
         "lessor job ls --state running\nlessor job ls --site demo --json"},
        {"job show", "SITE JOB", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_job_show,
         "print all that is known of a job", NULL,
         "lessor job show demo 0198b3a2-5f5e-7cc2-8d5b-0b7a5f3f8a11"},
        {"job cancel", "SITE JOB", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_job_cancel,
         "withdraw a job", NULL, "lessor job cancel demo 0198b3a2-5f5e-7cc2-8d5b-0b7a5f3f8a11"},

        {"run", "-- COMMAND [ARGUMENT...]", 1, -1, PEER_SERVER, COMPLETE_NOTHING, run_command_options,
         run_run, "run a command on a rack, as if it ran here",
         "Its files go there, what it writes streams back, and its result files come back checked. A path\n"
         "below this directory has the same path there; any other is placed under its last name. A command\n"
         "that is a file here (./train.sh) goes along. Ends with the command's status; with 128 if a signal\n"
         "or a limit ended it, and with 125 if it could not be run. Ctrl-C cancels it.",
         "lessor run --in data.csv --out model -- ./train.sh data.csv\n"
         "lessor run --tier gpu --in . --network --timeout 2h -- make results\n"
         "lessor run --detach --key nightly -- ./backup.sh"},

        {"lease create", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, lease_create_options, run_lease_create,
         "submit work for a rack", "A task's inputs must be in the repository already.",
         "lessor lease create --repo lab --tier shell --task $HASH --attempts 3 --key build-17\n"
         "lessor lease create --repo lab --tier py --event event.json --ttl 1h --json | jq -r "
         ".lease.leaseId"},
        {"lease ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, lease_ls_options, run_lease_ls,
         "list leases, the oldest first", NULL,
         "lessor lease ls --status pending,claimed\nlessor lease ls --rack gpu-1\n"
         "lessor lease ls --status poisoned --json"},
        {"lease show", LEASE_NAME, 1, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_lease_show,
         "print all that is known of a lease, and its attempts", NULL,
         "lessor lease show 17\nlessor lease show 17 --json | jq .lease.result"},
        {"lease why", LEASE_NAME, 1, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_lease_why,
         "say why no rack has a lease", "One line for each rack.", "lessor lease why 17"},
        {"lease watch", LEASE_NAME, 1, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_lease_watch,
         "print how a lease goes on until it has ended",
         "Ends with status 0 if it was a success, else with 7.", "lessor lease watch 17"},
        {"lease cancel", LEASE_NAME, 1, 2, PEER_SERVER, COMPLETE_NOTHING, lease_cancel_options,
         run_lease_cancel, "cancel a lease",
         "A rack that works on it stops. One that has ended stays as it is.",
         "lessor lease cancel 17 --reason \"the input was wrong\""},
        {"lease supersede", LEASE_NAME, 1, 2, PEER_SERVER, COMPLETE_NOTHING, reason_options,
         run_lease_supersede, "end a lease because other work has taken its place", NULL,
         "lessor lease supersede 17"},
        {"lease replay", LEASE_NAME, 1, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_lease_replay,
         "queue a poisoned or expired lease again", "It has all its attempts to come.",
         "lessor lease replay 17"},

        {"logs", LEASE_NAME, 1, 2, PEER_SERVER, COMPLETE_NOTHING, logs_options, run_logs,
         "print what an attempt at a lease wrote",
         "Its stdout on stdout and its stderr on stderr. With -f, as it comes, and when a rack is lost, what "
         "the\n"
         "next one writes. With --json, lines of JSON that say which stream is meant.",
         "lessor logs 17\nlessor logs -f 17\nlessor logs 17 --attempt 1 --stream stderr"},

        {"runs ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_runs_ls, "list the runs", NULL,
         "lessor runs ls"},
        {"runs show", "RUN", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_runs_show,
         "print how far a run is", NULL, "lessor runs show nightly\nlessor lease ls --run nightly"},
        {"runs watch", "RUN", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_runs_watch,
         "print how a run goes on until all of it has ended",
         "Ends with status 0 if all was a success, else with 7.", "lessor runs watch nightly"},
        {"runs cancel", "RUN", 1, 1, PEER_SERVER, COMPLETE_NOTHING, reason_options, run_runs_cancel,
         "cancel every lease of a run that has not ended", NULL, "lessor runs cancel nightly"},

        {"events", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, events_options, run_events,
         "print what happens to leases and racks, as it happens",
         "Until it is stopped. With --json each event is a line that has its id for --after.",
         "lessor events\nlessor events --run nightly --types lease.completed,lease.poisoned\n"
         "lessor events --after oldest --json"},
        {"webhook add", "URL", 1, 1, PEER_SERVER, COMPLETE_NOTHING, webhook_add_options, run_webhook_add,
         "tell a URL what happens to leases and racks",
         "Deliveries are signed, come in order, and are repeated until they are taken.",
         "lessor webhook add https://ci.example/lessor --types lease.completed,lease.poisoned"},
        {"webhook ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_webhook_ls,
         "list the webhooks, and how they fare", NULL, "lessor webhook ls"},
        {"webhook rm", "WEBHOOK-ID", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_webhook_rm,
         "tell a webhook nothing any more", NULL, "lessor webhook rm 019adb1c-6a1d-7a2b-9c3d-4e5f60718293"},

        {"rack token", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, rack_token_options, run_rack_token,
         "mint a token with which one machine can join, once",
         "Prints the command to be run on that machine. The token is shown this once and is in no log.",
         "lessor rack token --label gpu-1\nlessor rack token --ttl 1h --url https://lessor.example"},
        {"rack join", "URL TOKEN|-", 2, 2, PEER_NONE, COMPLETE_NOTHING, rack_join_options, run_rack_join,
         "make this machine a rack",
         "`lessor rack token` on the server prints the command. With - the token is read from stdin, so "
         "that\n"
         "no list of processes shows it.",
         "lessor rack join https://lessor.example e3rk_enroll_TOKEN\n"
         "lessor rack join https://lessor.example - --dir /var/lib/lessor-rack <token"},
        {"rack run", "", 0, 0, PEER_NONE, COMPLETE_NOTHING, rack_run_options, run_rack_run,
         "let this machine work",
         "Only ever dials out. Each task runs in a sandbox (bubblewrap) with a directory of its own, where "
         "it\n"
         "sees the system read-only and neither other processes nor the network. SIGTERM or Ctrl-C lets "
         "tasks\n"
         "finish, for as long as --grace says; again ends them at once.",
         "lessor rack run --tier shell\n"
         "lessor rack run --tier shell --tier gpu --slots 4 --device /dev/nvidia0 --memory 32G "
         "--allow-network"},
        {"rack tokens", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_rack_tokens,
         "list the tokens that nobody has used yet", NULL, "lessor rack tokens"},
        {"rack revoke", "TOKEN-ID", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_rack_revoke,
         "take a token back that nobody has used yet", NULL, "lessor rack revoke 9a81a37a76ca5dc5"},
        {"rack ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_rack_ls,
         "list the racks, how each is, and when it last asked for work and last beat",
         "A rack is named by its id, the beginning of its id, or its label. One whose heart beats and that\n"
         "does not ask for work, although it has room, is shown as not-polling.",
         "lessor rack ls"},
        {"rack show", "RACK", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_rack_show,
         "print all that is known of a rack", NULL, "lessor rack show gpu-1"},
        {"rack activity", "RACK", 1, 1, PEER_SERVER, COMPLETE_NOTHING, rack_activity_options,
         run_rack_activity, "list what a rack claimed last, the newest first", NULL,
         "lessor rack activity gpu-1 --limit 20"},
        {"rack approve", "RACK", 1, 1, PEER_SERVER, COMPLETE_NOTHING, rack_approve_options, run_rack_approve,
         "approve the start of a rack",
         "With the policy `approval` a rack that was started again is given no work before that.",
         "lessor rack approve gpu-1"},
        {"rack drain", "RACK", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_rack_drain,
         "give a rack no more leases, and let it finish those that it has", NULL, "lessor rack drain gpu-1"},
        {"rack undrain", "RACK", 1, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_rack_undrain,
         "give a drained rack leases again", NULL, "lessor rack undrain gpu-1"},
        {"rack rm", "RACK", 1, 1, PEER_SERVER, COMPLETE_NOTHING, rack_rm_options, run_rack_rm,
         "remove a rack: its token is dead, and what it holds is superseded",
         "On a terminal it says what the rack holds, and asks.", "lessor rack rm gpu-1"},
        {"rack policy", "[open|approval]", 0, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_rack_policy,
         "print or change whether each start of a rack has to be approved",
         "The first start of a rack needs none: who minted its token has approved it.",
         "lessor rack policy approval"},

        {"object put", "PATH|-...", 1, -1, PEER_SERVER, COMPLETE_FILE, object_put_options, run_object_put,
         "store files and directories, and print their hashes",
         "A directory becomes a tree: an object that names what is in it. Of links only those that stay "
         "within\n"
         "it can be taken. What the repository has already is not sent.",
         "lessor object put data.csv\nlessor object put --repo lab src models\n"
         "tar c src | lessor object put -"},
        {"object get", "HASH [PATH|-]", 1, 2, PEER_SERVER, COMPLETE_FILE, object_get_options, run_object_get,
         "fetch an object, and a tree with all that is in it",
         "Without a path, or with -, the bytes go to stdout. Nothing that is there is replaced. A file that "
         "was\n"
         "interrupted goes on where it was when the same command is given again.",
         "lessor object get $HASH data.csv\nlessor object get $HASH results\n"
         "lessor object get $HASH - | tar t"},
        {"object ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, object_ls_options, run_object_ls,
         "list the objects of a repository", NULL, "lessor object ls --repo lab"},
        {"object repos", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_object_repos,
         "list the repositories", NULL, "lessor object repos"},
        {"object gc", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, object_gc_options, run_object_gc,
         "remove objects that nothing names any more",
         "Leases that live, outputs of those that the server remembers, and environments keep what they "
         "name.",
         "lessor object gc --dry-run\nlessor object gc --grace 7d"},
        {"object verify", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, object_verify_options, run_object_verify,
         "hash every object again", "Ends with status 1 if some are damaged.",
         "lessor object verify --set-aside"},

        {"env publish", "ENVIRONMENT VERSION [LAYER...]", 2, -1, PEER_SERVER, COMPLETE_FILE,
         env_publish_options, run_env_publish, "publish an environment, so that leases of it can run",
         "ENVIRONMENT is the hash of its specification, VERSION the runtime's. Layers are files, in the "
         "order in\n"
         "which they are applied.",
         "lessor env publish $HASH 1.0.94 --image python:3.12-slim --tier py base.tar.gz extra.tar.gz"},
        {"env ls", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_env_ls,
         "list the published environments", NULL, "lessor env ls"},
        {"env rm", "ENVIRONMENT VERSION", 2, 2, PEER_SERVER, COMPLETE_NOTHING, NULL, run_env_rm,
         "take a published environment back", "Leases that want it fail from then on.",
         "lessor env rm $HASH 1.0.94"},

        {"projection show", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_projection_show,
         "print the projection in use, as JSON", NULL, "lessor projection show >projection.json"},
        {"projection put", "FILE|-", 1, 1, PEER_SERVER, COMPLETE_FILE, NULL, run_projection_put,
         "replace the projection of a server that runs with --projection",
         "The server writes its file; nothing changes unless all of it is well formed.",
         "lessor projection put projection.json"},

        {"status", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_status, "how the server is", NULL,
         "lessor status"},
        {"metrics", "", 0, 0, PEER_SERVER, COMPLETE_NOTHING, NULL, run_metrics,
         "print figures as Prometheus reads them", NULL, "lessor metrics"},
        {"log-level", "[debug|info|warning|error]", 0, 1, PEER_SERVER, COMPLETE_NOTHING, NULL, run_log_level,
         "print or change the level of the server's log", NULL, "lessor log-level debug"},
        {"backup", "FILE", 1, 1, PEER_SERVER, COMPLETE_FILE, backup_options, run_backup,
         "copy the server's database to a new file while it serves",
         "The server writes the files, with its own permissions, on its own machine. Objects and logs are\n"
         "files in its data directory, and are copied as such.",
         "lessor backup /var/backups/lessor.db --leases /var/backups/leases.db"},

        {"completion", "bash|zsh", 1, 1, PEER_NONE, COMPLETE_NOTHING, NULL, run_completion,
         "print a shell's completions", NULL, "lessor completion bash >/etc/bash_completion.d/lessor"},
        {"version", "", 0, 0, PEER_NONE, COMPLETE_NOTHING, NULL, run_version, "print the version", NULL,
         "lessor version"},
};
const size_t cli_n_commands = ARRAY_SIZE(cli_commands);
