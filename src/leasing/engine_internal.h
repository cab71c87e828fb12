/* SPDX-License-Identifier: MIT */
#ifndef LEASING_ENGINE_INTERNAL_H
#define LEASING_ENGINE_INTERNAL_H

#include "base/limits.h"
#include "base/macro.h"
#include "base/table.h"
#include "base/timer_heap.h"
#include "leasing/engine.h"
#include "leasing/sorted.h"

/*
 * The engine's data. Nobody outside src/leasing but the stores' engine.h includes this.
 *
 * Invariants; lease_engine_check() asserts each by its number.
 *
 *  1. A lease is in `leases`, in its task's and its run's set, and in by_status of its status, exactly while
 * it is not removed.
 *  2. A lease is queued exactly while it is pending or lapsed, is of event version 2 and has attempts left;
 * it is then in its lane, in `used` if a claim of it counts, else in `fresh`.
 *  3. A lane is in its groups exactly while something is queued in it; a group is in its scope exactly while
 * a lane is in it.
 *  4. A lease has a current attempt exactly while it is claimed, or ended while it was; while claimed, that
 * attempt is running, and the lease is in its rack's `claimed`. No other attempt is running.
 *  5. A lease is in `recent` of the rack of its last attempt that counts, if there is one.
 *  6. A claimed lease's timer stands in `lapses` just behind its deadline; a lapsed one's in `ends` just
 * behind deadline and visibility; an ended one's in `ends` at the end of its retention; a pending one's is
 * not set.
 *  7. A lease's ttl timer is set exactly while it is pending or lapsed and has a time to live.
 *  8. Capabilities are of claimed leases and of the claim that stands.
 *  9. A registered rack has at most one pending token. Tokens belong to registered racks. Exactly the tokens
 * in grace have their timer set, and no others have an end of grace.
 * 10. Each heap has room for every timer that could be set.
 * 11. n_by_status, n_lapsed, n_capabilities, n_registered and n_targets count what they say.
 */

/* A text that many records share. */
struct word {
        struct table_node node;
        size_t refs;
        struct lessor_slice text; /* the bytes follow the struct */
};

/* --- What a store has yet to be told --- */

enum record_kind {
        RECORD_LEASE,
        RECORD_ATTEMPT,
        RECORD_KEY,
        RECORD_TARGET,
        RECORD_CAPABILITY,
        RECORD_RACK,
        RECORD_TOKEN,
        RECORD_ENROLMENT,
        RECORD_ENVIRONMENT,
        RECORD_POLICY,
        RECORD_TURN,
};

/* In the list of changes while `queued`. */
struct change_node {
        struct change_node *next, *previous;
        enum record_kind kind;
        bool queued;
};

/* In the list of events while bits are left. */
struct event_node {
        struct event_node *next;
        enum record_kind kind;
        bool queued;
        unsigned bits; /* 1 << lessor_lease_event_kind */
};

/* --- Where leases are looked for --- */

/* All leases of one (repo, task, inputs). */
struct task {
        struct table_node node;
        size_t refs;
        struct word *repo;
        struct sorted leases;       /* by creation time and id */
        struct lessor_slice prefix; /* taskHash#inputsHash; the bytes follow the struct */
};

struct run {
        struct table_node node;
        size_t refs;
        struct sorted leases;     /* by seq */
        struct lessor_slice name; /* the bytes follow the struct */
};

/* The queued leases of one tier; or of one tier and repo, for claims that are confined to repos. */
struct scope {
        struct table_node node;
        size_t refs;
        struct word *tier;
        struct word *repo;    /* NULL: of all repos */
        struct sorted groups; /* by owner */
};

/* One owner's lanes in a scope: the unit of fairness. */
struct group {
        struct table_node node;
        size_t refs;
        struct scope *scope;
        struct word *owner;
        struct sorted lanes; /* by the lease in front */
        struct sorted_node in_scope;
        bool linked;
};

/*
 * Queued leases between which no gate makes a difference, but for who claimed them before. A million of them
 * that a rack may not have are passed over in one step.
 */
struct lane {
        struct table_node node;
        size_t refs;
        struct group *of_tier, *of_repo;
        struct word *floor;        /* NULL: none */
        struct word *size;         /* NULL: none named */
        struct sorted fresh, used; /* by creation time and id */
        struct sorted_node in_tier, in_repo;
        bool linked;
};

/* --- Racks and credentials --- */

struct rack {
        struct table_node node;
        size_t refs; /* of attempts, tokens, events, its registration */
        struct change_node change;
        struct event_node event;
        struct sorted_node order_node;
        struct timer expiry;
        uint64_t order;
        struct sorted claimed; /* leases, by seq */
        struct sorted recent;  /* leases, by claim time and seq */
        size_t n_claimed;
        struct rack_token *tokens;
        bool registered;
        bool hard; /* the change to be written is more than when it was seen */
        bool healthy;
        bool draining;
        struct word *label, *version, *last_boot, *approved_boot;
        struct word **tiers;
        size_t n_tiers;
        int64_t capacity;
        int64_t enrolled_ms, last_seen_ms, last_poll_ms, last_beat_ms;
        struct lessor_slice id; /* the bytes follow the struct */
};

struct rack_token {
        struct table_node node;
        struct rack_token *next; /* of the rack's */
        struct change_node change;
        struct timer grace;
        struct rack *rack;
        enum lessor_token_status status;
        bool removed;
        int64_t issued_ms;
        int64_t grace_until_ms;
        struct lessor_slice hash; /* the bytes follow the struct */
};

struct enrolment {
        struct table_node node;
        struct change_node change;
        struct timer expiry;
        bool removed;
        struct word *label;
        int64_t minted_ms;
        struct lessor_slice hash; /* the bytes follow the struct */
};

struct environment {
        struct table_node node;
        struct change_node change;
        struct sorted_node order_node;
        uint64_t order;
        bool removed;
        int64_t n_layers;
        int64_t published_ms;
        struct lessor_slice env_hash, e3_version; /* the bytes follow the struct */
        char *texts;                              /* of the four below */
        struct lessor_slice base_image, base_tier, manifest_key, manifest;
};

/* --- Leases --- */

struct attempt {
        struct change_node change;
        struct event_node event;
        struct lease *lease;
        struct rack *rack;
        struct word *boot;
        unsigned number;
        enum lessor_attempt_state state;
        enum lessor_cause cause;
        bool counts;
        bool must_name;
        bool has_exit_code, has_peak_bytes;
        int64_t exit_code, peak_bytes;
        int64_t started_ms, ended_ms;
        struct word *reason;              /* NULL: none */
        struct word *output_hash;         /* NULL: none */
        struct lessor_slice execution_id; /* the bytes follow the struct; absent for a function */
};

struct key {
        struct table_node node;
        struct key *next;
        struct change_node change;
        struct lease *lease;
        bool left;
        struct lessor_slice text; /* the bytes follow the struct */
};

struct target {
        struct table_node node;
        struct target *next;
        struct change_node change;
        struct lease *lease;
        uint64_t order;
        struct lessor_slice hash; /* the bytes follow the struct */
};

struct capability {
        struct table_node by_id, by_binding, by_receipt;
        struct capability *next, *previous; /* of the lease's */
        struct change_node change;
        struct event_node event;
        struct timer expiry; /* of reading ones; writing ones stay as long as the claim */
        struct lease *lease; /* a reference */
        unsigned claim_number;
        enum lessor_capability_kind kind;
        bool removed;
        bool committed;
        int64_t size;
        int64_t expires_ms;
        struct word *receipt;     /* NULL: nothing stored */
        struct lessor_slice hash; /* the bytes follow the struct */
        char id[65];
};

struct lease {
        struct table_node node;
        size_t refs; /* being there; queued events of its own and of its attempts; events taken; capabilities
                      */
        struct change_node change;
        struct event_node event;
        struct sorted_node status_node, run_node, task_node, queue_node, claimed_node, recent_node;
        struct timer timer, ttl;
        uint64_t seq;
        struct word *repo, *workspace, *task_name, *environment, *owner;
        struct lane *lane;
        struct task *task;
        struct run *run; /* NULL: none */
        struct attempt **attempts;
        size_t n_attempts, attempts_cap;
        struct attempt *current; /* the claim that stands or ended with the lease */
        struct attempt *latest;  /* the last one that counts */
        struct key *keys;
        struct target *targets, **targets_end;
        size_t n_targets;
        struct capability *capabilities;
        void *attachment;
        int64_t event_version, created_ms, expires_ms, deadline_ms, ended_ms;
        unsigned attempt_limit, attempts_spent;
        size_t n_told;    /* attempts that a FORGOTTEN event has named */
        unsigned seen_by; /* number of the last listing of candidates that has it */
        enum lessor_lease_mode mode : 4;
        enum lessor_lease_status status : 4;
        enum lessor_cause cause : 4;
        bool own : 1;
        bool lapsed : 1;
        bool queued : 1;
        bool queued_used : 1; /* in `used` of its lane */
        bool removed : 1;
        bool is_new : 1;
        bool result_changed : 1;
        bool success : 1, error : 1, cancelled : 1;
        unsigned task_len;      /* of the task hash at the front of the id */
        struct lessor_slice id; /* the bytes follow the struct */
};

struct lease_engine {
        struct lessor_lease_options options;
        struct table words, leases, tasks, runs, keys, targets, scopes, groups, lanes;
        struct table racks, tokens, enrolments, environments;
        struct table capabilities, bindings, receipts;
        struct sorted by_status[LESSOR_N_LEASE_STATUSES]; /* leases, by seq */
        struct sorted all_racks;                          /* registered, by order */
        struct sorted all_environments;
        struct timer_heap lapses, ends, ttls, graces, enrolment_ends, rack_ends, capability_ends;
        uint64_t n_by_status[LESSOR_N_LEASE_STATUSES];
        uint64_t n_lapsed;
        size_t n_leases, n_registered, n_tokens, n_enrolments, n_capabilities, n_environments;
        uint64_t next_seq, next_rack, next_environment, next_timer;
        uint64_t n_ranks, salt;
        unsigned n_listings;
        struct word *turn; /* the owner of the last claim; NULL: none yet */
        bool require_start_approval;
        struct change_node policy_change, turn_change;
        struct event_node policy_event;
        struct change_node *changes, *changes_end;
        struct event_node *events, **events_end;
        void (*free_attachment)(void *attachment);
};

static inline int64_t time_later(int64_t at_ms, int64_t by_ms)
{
        int64_t sum;

        return __builtin_add_overflow(at_ms, by_ms, &sum) ? INT64_MAX : sum;
}

/* A word's text, or the absent slice. */
static inline struct lessor_slice word_text(const struct word *w)
{
        return w == NULL ? (struct lessor_slice){0} : w->text;
}

/* --- names.c: what records share. Each `_get` gives a reference, or NULL when memory is short. --- */

uint64_t next_rank(struct lease_engine *e);

/* `n` zeroed bytes and a text behind them, and where that is; NULL when memory is short. */
void *alloc_with_text(size_t n, struct lessor_slice text, struct lessor_slice *ret_text);

struct word *word_get(struct lease_engine *e, struct lessor_slice text);
struct word *word_ref(struct word *w);
struct word *word_unref(struct lease_engine *e, struct word *w);
/* A word of a text that may be absent. False when memory is short. */
bool word_get_if(struct lease_engine *e, struct lessor_slice text, struct word **ret_word);
struct task *task_find(const struct lease_engine *e, struct lessor_slice repo, struct lessor_slice prefix);
struct task *task_get(struct lease_engine *e, struct word *repo, struct lessor_slice prefix);
struct task *task_unref(struct lease_engine *e, struct task *t);
struct run *run_find(const struct lease_engine *e, struct lessor_slice name);
struct run *run_get(struct lease_engine *e, struct lessor_slice name);
struct run *run_unref(struct lease_engine *e, struct run *r);
struct rack *rack_find(const struct lease_engine *e, struct lessor_slice id); /* registered or not */
struct rack *rack_registered(const struct lease_engine *e, struct lessor_slice id);
struct rack *rack_get(struct lease_engine *e, struct lessor_slice id);
struct rack *rack_unref(struct lease_engine *e, struct rack *r);

/* --- queue.c: the queues, and what a claim picks from them --- */

struct scope *scope_find(const struct lease_engine *e, struct lessor_slice tier,
                         const struct lessor_slice *repo);
struct lane *lane_get(struct lease_engine *e, struct lessor_slice tier, struct word *repo,
                      struct lessor_slice owner, struct word *floor, struct word *size);
struct lane *lane_unref(struct lease_engine *e, struct lane *l);

/* Puts a lease into its lane, or takes it out. */
void queue_lease(struct lease_engine *e, struct lease *lease);
void unqueue_lease(struct lease_engine *e, struct lease *lease);

/* One rack asking. */
struct asking {
        const struct lessor_lease_claim *claim;
        const struct rack *rack;     /* registered */
        struct lessor_slice bundled; /* absent: none */
        unsigned skip;               /* leases of this listing are passed over; 0: none */
        enum lessor_lease_bar bar;   /* the last that kept a queued lease from it */
};

/* What keeps a rack that may be granted something from a queued lease; LESSOR_BAR_NONE if nothing does. */
enum lessor_lease_bar lane_bar(const struct lane *lane, const struct asking *ask);
enum lessor_lease_bar lease_bar(const struct lease *lease, const struct asking *ask);

/* The lease that is next for it, after the owner `turn` (NULL: from the first owner), or NULL. */
struct lease *queue_pick(const struct lease_engine *e, struct asking *ask, const struct word *turn);

int lease_cmp_age(const struct lease *a, const struct lease *b);

/* --- lease.c: one lease, and its place in every index --- */

sorted_cmp lease_by_status, lease_by_run, lease_by_task, lease_by_queue, lease_by_claimed, lease_by_recent;

/* A pending lease in no index, with a reference to all that it names. Returns 0 or LESSOR_E_NOMEM. */
int lease_new(struct lease_engine *e, const struct lessor_lease_submission *from, struct lessor_slice uuid,
              struct lease **ret_lease);

/* Room for the timers of one more lease. Returns 0 or LESSOR_E_NOMEM. */
int lease_reserve(struct lease_engine *e);

/* Adds a lease for good; room is reserved. */
void lease_install(struct lease_engine *e, struct lease *lease);

/* Into and out of the indexes that depend on its status, its claim and its deadline. */
void lease_enter(struct lease_engine *e, struct lease *lease);
void lease_leave(struct lease_engine *e, struct lease *lease);

/* Takes a lease out of every index; the store is told, and then it is freed. */
void lease_remove(struct lease_engine *e, struct lease *lease);

void lease_ref(struct lease *lease);
void lease_unref(struct lease_engine *e, struct lease *lease);

/* Frees one that is in no index at once. Takes NULL. */
void lease_free(struct lease_engine *e, struct lease *lease);

bool lease_is_open(const struct lease *lease);
bool lease_is_held_by(const struct lease *lease, struct lessor_slice rack_id, struct lessor_slice attempt);

/* Its fields as slices that are borrowed from it. */
void lease_borrow(const struct lease_engine *e, const struct lease *lease, int64_t now_ms,
                  struct lessor_lease *ret_lease);

/* Copies, oldest first, what `pick` says, up to max; pick NULL: all. */
int lease_list_render(const struct lease_engine *e, struct lease *const *leases, size_t n, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_lease_list *ret_leases);

/*
 * Ends a lease that is open, with its attempt and its capabilities. Takes the reference to `reason`, which
 * may be NULL.
 */
void lease_end(struct lease_engine *e, struct lease *lease, enum lessor_lease_status status,
               enum lessor_cause cause, struct word *reason, int64_t now_ms);

/* Back into the queue, at its old place; its attempt, if it has one, ends for this cause. */
void lease_requeue(struct lease_engine *e, struct lease *lease, enum lessor_cause cause, int64_t now_ms);

/* Finds and keeps the key of an owner. */
struct key *key_find(const struct lease_engine *e, struct lessor_slice owner, struct lessor_slice text);
struct key *key_new(struct lessor_slice text);
void key_install(struct lease_engine *e, struct lease *lease, struct key *key);

/* What has come due for judging leases: lapsed deadlines and ended times to live. */
void settle(struct lease_engine *e, int64_t now_ms);

/* --- attempt.c --- */

/* An attempt of a lease, running, not yet its. Returns 0 or LESSOR_E_NOMEM. */
int attempt_new(struct lease_engine *e, struct lease *lease, struct lessor_slice rack_id,
                struct lessor_slice boot, struct lessor_slice execution_id, struct attempt **ret_attempt);
struct attempt *attempt_free(struct lease_engine *e, struct attempt *a);

/* Makes room in the lease's list. Returns 0 or LESSOR_E_NOMEM. */
int attempt_reserve(struct lease *lease);

/* Appends it to its lease; room is reserved. */
void attempt_append(struct attempt *a);

/* Ends one that runs; others are left alone. Takes the reference to `reason`. */
void attempt_end(struct lease_engine *e, struct attempt *a, enum lessor_attempt_state state,
                 enum lessor_cause cause, struct word *reason, int64_t now_ms);

/* Whether the rack has a claim on record that counts, under this boot; `boot` absent: under any. */
bool lease_was_claimed_by(const struct lease *lease, const struct rack *rack, struct lessor_slice boot);

/* The lease's place among the recent ones of racks follows its last attempt that counts. */
void lease_place_recent(struct lease_engine *e, struct lease *lease);

void attempt_borrow(const struct attempt *a, struct lessor_attempt *ret_attempt);

/* --- rack.c, rack_token.c --- */

/* Why a rack is granted nothing at all; LESSOR_BAR_NONE if it may be. */
enum lessor_lease_bar rack_bar(const struct lease_engine *e, const struct rack *rack,
                               struct lessor_slice boot, int64_t now_ms);
void rack_borrow(const struct lease_engine *e, const struct rack *rack, int64_t now_ms,
                 struct lessor_rack *ret_rack);
int rack_render(const struct lease_engine *e, const struct rack *rack, int64_t now_ms,
                struct lessor_arena *arena, struct lessor_rack *ret_rack);
size_t rack_deregister(struct lease_engine *e, struct rack *rack, int64_t now_ms);
/* Takes back a registration that nobody has heard of. */
void rack_discard(struct lease_engine *e, struct rack *rack);
void rack_forget_facts(struct lease_engine *e, struct rack *rack);
sorted_cmp rack_by_order, environment_by_order;

int rack_token_new(struct lessor_slice hash, struct rack_token **ret_token);
/* Room for one more token's timer. Returns 0 or LESSOR_E_NOMEM. */
int rack_token_reserve(struct lease_engine *e);
void rack_token_install(struct lease_engine *e, struct rack *rack, struct rack_token *token);
void rack_token_remove(struct lease_engine *e, struct rack_token *token);
struct rack_token *rack_token_find(const struct lease_engine *e, struct lessor_slice hash);
void enrolment_remove(struct lease_engine *e, struct enrolment *enrolment);
void enrolment_free(struct lease_engine *e, struct enrolment *enrolment);
void environment_free(struct environment *env);

/* --- capability.c --- */

/* Ends every capability of a lease; the receipts in vain are announced. */
void capabilities_end(struct lease_engine *e, struct lease *lease);
void capability_remove(struct lease_engine *e, struct capability *c);
void capability_free(struct lease_engine *e, struct capability *c);
void capability_borrow(const struct capability *c, struct lessor_capability *ret_capability);
struct capability *capability_find(const struct lease_engine *e, struct lessor_slice id);
int capability_new(struct lease *lease, struct lessor_slice hash, struct capability **ret_capability);
void capability_install(struct lease_engine *e, struct capability *c);
void capability_give_receipt(struct lease_engine *e, struct capability *c, struct word *receipt);
int target_new(struct lease *lease, struct lessor_slice hash, struct target **ret_target);
void target_install(struct lease_engine *e, struct target *t);
struct target *target_find(const struct lease_engine *e, const struct lease *lease, struct lessor_slice hash);
void target_remove(struct lease_engine *e, struct target *t);

/* --- changes.c --- */

void note_change(struct lease_engine *e, struct change_node *node);
void forget_change(struct lease_engine *e, struct change_node *node);
void note_event(struct lease_engine *e, struct event_node *node, enum lessor_lease_event_kind kind);

#endif
