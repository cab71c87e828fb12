/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs those above. */
#include <cmocka.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json_write.h"
#include "crypto/stored_keys.h"
#include "lessor/device_agent.h"
#include "lessor/site_client.h"
#include "peer.h"
#include "wire/relay_shapes.h"

/* Our site client and device agent, and between them a relay that we did not write; or lessord, given its
 * path. */

#define JOBS 20

struct world {
        struct peer peer;
        char *dir;
        char site_keys[256];
        char device_dir[256];
        struct lessor_backend *backend;
        struct lessor_service service;
        struct lessor_device_options device;
        struct lessor_agent *agent;
        pthread_t thread;
        int agent_result;
        bool running;
        /* What the agent has told; under the mutex. */
        pthread_mutex_t mutex;
        pthread_cond_t told;
        unsigned events[LESSOR_AGENT_STOPPED + 1];
};

static const char *owner = "ada";
static const char *lessord; /* NULL: the reference relay */

/* What a control plane of ours would know: the owner's default jobs go to the owner's own "echo". */
#define POLICY                                                                                           \
        "{\"consents\":[{\"siteId\":\"site_a\",\"user\":\"ada\",\"mappings\":[{\"purpose\":\"default\"," \
        "\"kind\":\"llm.generate\",\"service\":\"echo\",\"owner\":null}]}]}"

static struct world *world;

static void write_keys(const char *path)
{
        struct stored_keys *keys = NULL;

        assert_int_equal(stored_keys_generate(1767225600000, &keys), 0);
        assert_int_equal(stored_keys_create(keys, path), 0);
        stored_keys_free(keys);
}

static void put_identity(struct buf *out, const char *keys_path)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct stored_keys *keys = NULL;

        assert_int_equal(stored_keys_load(keys_path, arena, &keys, NULL), 0);
        message_append(&public_identity_table, signing_key_identity(stored_keys_signing(keys)), out);
        stored_keys_free(keys);
        lessor_arena_free(arena);
}

/* A projection of one site, one owner who consented, and, if approved, one device. */
static void project(bool approved, bool revoked)
{
        struct buf fixture;
        char device_keys[300];

        snprintf(device_keys, sizeof(device_keys), "%s/keys.json", world->device_dir);
        buf_init(&fixture);
        buf_text(&fixture, "{\"sites\":[{\"siteId\":\"site_a\",\"site\":");
        put_identity(&fixture, world->site_keys);
        buf_printf(&fixture, "}],\"consents\":[{\"owner\":\"%s\",\"siteId\":\"site_a\"}],\"devices\":[",
                   owner);
        if (approved) {
                buf_printf(&fixture, "{\"owner\":\"%s\",\"runnerId\":\"runner_1\",\"device\":", owner);
                put_identity(&fixture, device_keys);
                buf_printf(&fixture, "%s}", revoked ? ",\"revoked\":true" : "");
        }
        buf_text(&fixture, "]}");
        assert_int_equal(buf_failed(&fixture), 0);
        free(peer_post(&world->peer, "/test/project", fixture.p));
        buf_done(&fixture);
}

static void note_event(void *context, const struct lessor_agent_event *event)
{
        struct world *w = context;

        if (getenv("LESSOR_TEST_TALK") != NULL)
                fprintf(stderr, "# agent: %d %.*s %s\n", event->type, (int)event->job_id.n,
                        event->job_id.p == NULL ? "" : event->job_id.p,
                        event->message == NULL ? "" : event->message);
        pthread_mutex_lock(&w->mutex);
        w->events[event->type]++;
        pthread_cond_broadcast(&w->told);
        pthread_mutex_unlock(&w->mutex);
}

static void await_event(enum lessor_agent_event_type type)
{
        pthread_mutex_lock(&world->mutex);
        while (world->events[type] == 0)
                pthread_cond_wait(&world->told, &world->mutex);
        pthread_mutex_unlock(&world->mutex);
}

static unsigned count_events(enum lessor_agent_event_type type)
{
        unsigned n;

        pthread_mutex_lock(&world->mutex);
        n = world->events[type];
        pthread_mutex_unlock(&world->mutex);
        return n;
}

static void *run_agent(void *context)
{
        struct world *w = context;

        w->agent_result = lessor_agent_run(w->agent);
        return NULL;
}

static void start_agent(void)
{
        char *problem = NULL;

        if (lessor_agent_new(&world->device, note_event, world, &world->agent, &problem) < 0)
                fail_msg("%s", problem);
        assert_int_equal(pthread_create(&world->thread, NULL, run_agent, world), 0);
        world->running = true;
}

static int join_agent(void)
{
        pthread_join(world->thread, NULL);
        world->running = false;
        world->agent = lessor_agent_free(world->agent);
        return world->agent_result;
}

static int stop_agent(void)
{
        lessor_agent_stop(world->agent);
        return join_agent();
}

static void pair(void)
{
        struct lessor_pairing *pairing = NULL;
        struct lessor_pairing_info info;
        char *problem = NULL;

        if (lessor_pairing_start(&world->device, &pairing, &problem) < 0)
                fail_msg("%s", problem);
        lessor_pairing_info(pairing, &info);
        assert_int_equal(strlen(info.user_code), 9);
        assert_int_equal(lessor_pairing_poll(pairing, NULL), LESSOR_E_NOT_READY);
        project(true, false);
        if (lessor_pairing_wait(pairing, NULL, &problem) < 0)
                fail_msg("%s", problem);
        lessor_pairing_free(pairing);
}

static struct lessor_site_client *new_site(void)
{
        struct lessor_site_options options = {
                .relay_url = world->peer.url,
                .site_id = "site_a",
                .keys_file = world->site_keys,
        };
        struct lessor_site_client *site = NULL;
        char *problem = NULL;

        if (lessor_site_client_new(&options, &site, &problem) < 0)
                fail_msg("%s", problem);
        return site;
}

/* The reference relay, or our own server when main was given one. */
static int start_peer(bool grants)
{
        const char *node = getenv("LESSOR_NODE");
        char key[300], data[300], policy[300];
        const char *reference[] = {node == NULL ? "node" : node, getenv("LESSOR_SERVE_SCRIPT"), "--grant-key",
                                   key, NULL};
        const char *ours[] = {lessord,
                              "--listen",
                              "127.0.0.1:0",
                              "--store",
                              "memory",
                              "--data",
                              data,
                              "--verification-url",
                              "http://127.0.0.1/approve",
                              "--policy",
                              policy,
                              "--grant-key",
                              key,
                              NULL};

        snprintf(key, sizeof(key), "%s/control.json", world->dir);
        snprintf(data, sizeof(data), "%s/data", world->dir);
        snprintf(policy, sizeof(policy), "%s/policy.json", world->dir);
        write_keys(key);
        assert_int_equal(file_create(policy, LESSOR_SLICE(POLICY), 0600), 0);
        if (!grants)
                reference[2] = ours[9] = NULL;
        return peer_start(lessord == NULL ? reference : ours, &world->peer);
}

static int start_world(bool grants)
{
        world = calloc(1, sizeof(*world));
        pthread_mutex_init(&world->mutex, NULL);
        pthread_cond_init(&world->told, NULL);
        world->dir = scratch_make();
        snprintf(world->site_keys, sizeof(world->site_keys), "%s/site.json", world->dir);
        snprintf(world->device_dir, sizeof(world->device_dir), "%s/device", world->dir);
        write_keys(world->site_keys);
        if (start_peer(grants) != 0)
                return 77;
        if (world->backend == NULL)
                lessor_backend_echo_new(&world->backend);
        world->service = (struct lessor_service){
                .name = "echo",
                .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE) | LESSOR_KIND_BIT(LESSOR_KIND_LLM_CHAT),
                .backend = world->backend,
        };
        world->device = (struct lessor_device_options){
                .dir = world->device_dir,
                .relay_url = world->peer.url,
                .services = &world->service,
                .n_services = 1,
                .slots = 4,
        };
        project(false, false);
        return 0;
}

static int set_up(void **state)
{
        (void)state;
        return start_world(false);
}

static int set_up_with_grants(void **state)
{
        (void)state;
        return start_world(true);
}

static int tear_down(void **state)
{
        (void)state;
        if (world->running)
                stop_agent();
        peer_stop(&world->peer);
        lessor_backend_free(world->backend);
        scratch_remove(world->dir);
        pthread_mutex_destroy(&world->mutex);
        pthread_cond_destroy(&world->told);
        free(world);
        return 0;
}

struct tally {
        unsigned queued, claimed, sealed, answered, failed;
        unsigned canceled;
        bool texts_match;
        char problem[200];
};

static void on_progress(void *context, const struct lessor_ask_progress *progress)
{
        struct tally *tally = context;

        if (getenv("LESSOR_TEST_TALK") != NULL)
                fprintf(stderr, "# site: step %d %.*s %s\n", progress->step, (int)progress->job_id.n,
                        progress->job_id.p == NULL ? "" : progress->job_id.p,
                        progress->message == NULL ? "" : progress->message);
        tally->queued += progress->step == LESSOR_ASK_QUEUED;
        tally->claimed += progress->step == LESSOR_ASK_CLAIMED;
        tally->sealed += progress->step == LESSOR_ASK_SEALED;
}

static bool on_answer(void *context, const struct lessor_answer *answer)
{
        struct tally *tally = context;

        tally->answered++;
        tally->canceled += answer->disposition == LESSOR_DISPOSITION_CANCELED;
        if (answer->disposition == LESSOR_DISPOSITION_OK)
                tally->texts_match = tally->texts_match && lessor_slice_equal(answer->text, answer->job_id) &&
                                     lessor_slice_equal(answer->runner_id, LESSOR_SLICE("runner_1")) &&
                                     lessor_slice_equal(answer->runner_owner, lessor_slice_of(owner)) &&
                                     answer->device_key_id.n == 36 && answer->lease_id.n > 0 &&
                                     lessor_slice_equal(answer->model, LESSOR_SLICE("echo")) &&
                                     lessor_slice_equal(answer->stop, LESSOR_SLICE("end"));
        return true;
}

static void on_failure(void *context, struct lessor_slice job_id, int error, const char *message)
{
        struct tally *tally = context;

        tally->failed++;
        snprintf(tally->problem, sizeof(tally->problem), "%.*s: %s: %s", (int)job_id.n, job_id.p,
                 lessor_error_name(error), message);
}

static const struct lessor_pump_events pump_events = {on_progress, on_answer, on_failure};

/* Each asks for its own id to be echoed. */
static void add_asks(struct lessor_pump *pump, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                char id[32], payload[64];
                struct lessor_ask ask = {.kind = LESSOR_KIND_LLM_GENERATE, .owner = lessor_slice_of(owner)};

                snprintf(id, sizeof(id), "job_%u", i);
                snprintf(payload, sizeof(payload), "{\"prompt\":\"%s\"}", id);
                ask.job_id = lessor_slice_of(id);
                ask.payload = lessor_slice_of(payload);
                assert_int_equal(lessor_pump_add(pump, &ask, NULL), 0);
        }
}

static void ask_and_check(unsigned n)
{
        struct lessor_site_client *site = new_site();
        struct tally tally = {.texts_match = true};
        struct lessor_pump *pump = NULL;
        int r;

        assert_int_equal(lessor_pump_new(site, &pump_events, &tally, &pump), 0);
        add_asks(pump, n);
        r = lessor_pump_run(pump, 30000);
        if (r < 0)
                fail_msg("%s %s", lessor_error_name(r), lessor_site_client_problem(site));
        if (tally.failed > 0)
                fail_msg("%s", tally.problem);
        assert_int_equal(tally.queued, n);
        assert_true(tally.sealed >= n);
        assert_int_equal(tally.answered, n);
        assert_true(tally.texts_match);
        lessor_pump_free(pump);
        lessor_site_client_free(site);
}

/* Every prompt is in the log, and every line of it is one prompt. */
static unsigned count_lines(const char *name)
{
        char path[300];
        struct buf text;
        unsigned n = 0;
        mode_t mode;

        snprintf(path, sizeof(path), "%s/%s", world->device_dir, name);
        buf_init(&text);
        assert_int_equal(file_read_private(path, 1 << 20, &text, &mode), 0);
        assert_int_equal(mode & 077, 0);
        for (size_t i = 0; i < text.n; i++)
                n += text.p[i] == '\n';
        buf_done(&text);
        return n;
}

static void a_paired_device_answers_its_owners_jobs(void **state)
{
        (void)state;
        pair();
        start_agent();
        ask_and_check(JOBS);
        assert_int_equal(stop_agent(), 0);
        assert_int_equal(count_lines("ingress.log"), JOBS);
        assert_int_equal(count_events(LESSOR_AGENT_JOB_DONE), JOBS);
}

static void grants_are_checked_and_used_once(void **state)
{
        (void)state;
        pair();
        start_agent();
        ask_and_check(4);
        assert_int_equal(stop_agent(), 0);
        assert_int_equal(count_lines("grants.log"), 4);
        assert_int_equal(count_events(LESSOR_AGENT_JOB_REFUSED), 0);
}

static void a_revoked_device_stops_for_good(void **state)
{
        (void)state;
        pair();
        start_agent();
        await_event(LESSOR_AGENT_ONLINE);
        project(true, true);
        assert_int_equal(join_agent(), LESSOR_E_PERMISSION);
}

static void one_agent_to_a_directory(void **state)
{
        struct lessor_agent *second = NULL;
        char *problem = NULL;

        (void)state;
        pair();
        start_agent();
        assert_int_equal(lessor_agent_new(&world->device, NULL, NULL, &second, &problem), LESSOR_E_BUSY);
        assert_non_null(strstr(problem, "another agent"));
        free(problem);
        assert_int_equal(stop_agent(), 0);
}

/* Sleeps until it is stopped: for jobs that are cut short. */
static int sleep_run(struct lessor_backend *backend, const struct lessor_prompt *prompt,
                     struct lessor_stop *stop, struct lessor_arena *arena, struct lessor_outcome *ret_outcome)
{
        (void)backend;
        (void)prompt;
        (void)arena;
        while (!lessor_stop_raised(stop)) {
                fd_set fds;

                FD_ZERO(&fds);
                FD_SET(lessor_stop_fd(stop), &fds);
                select(lessor_stop_fd(stop) + 1, &fds, NULL, NULL, NULL);
        }
        *ret_outcome = (struct lessor_outcome){.disposition = LESSOR_DISPOSITION_CANCELED};
        return 0;
}

static struct lessor_backend *sleep_free(struct lessor_backend *backend)
{
        free(backend);
        return NULL;
}

static const struct lessor_backend_ops sleep_ops = {
        .name = "sleep",
        .backend_id = "openai-http",
        .run = sleep_run,
        .free = sleep_free,
};

static void use_sleeping_backend(void)
{
        struct lessor_backend *backend = calloc(1, sizeof(*backend));

        assert_non_null(backend);
        backend->ops = &sleep_ops;
        lessor_backend_free(world->backend);
        world->backend = backend;
        world->service.backend = backend;
}

static void *run_pump(void *pump)
{
        return (void *)(intptr_t)lessor_pump_run(pump, 30000);
}

static void a_cancelled_job_ends_as_canceled(void **state)
{
        struct lessor_site_client *site, *other;
        struct tally tally = {.texts_match = true};
        struct lessor_pump *pump = NULL;
        bool cancelled = false;
        pthread_t thread;
        void *result;

        (void)state;
        use_sleeping_backend();
        pair();
        start_agent();
        site = new_site();
        other = new_site();
        assert_int_equal(lessor_pump_new(site, &pump_events, &tally, &pump), 0);
        add_asks(pump, 1);
        assert_int_equal(pthread_create(&thread, NULL, run_pump, pump), 0);
        await_event(LESSOR_AGENT_JOB_RUNNING);
        assert_int_equal(lessor_site_cancel(other, LESSOR_SLICE("job_0"), &cancelled), 0);
        assert_true(cancelled);
        pthread_join(thread, &result);
        assert_int_equal((intptr_t)result, 0);
        assert_int_equal(tally.canceled, 1);
        lessor_pump_free(pump);
        lessor_site_client_free(site);
        lessor_site_client_free(other);
        assert_int_equal(stop_agent(), 0);
}

static void a_stopped_agent_gives_its_jobs_back(void **state)
{
        struct lessor_site_client *site, *other;
        struct tally tally = {.texts_match = true};
        struct lessor_stop *stop = NULL;
        struct lessor_pump *pump = NULL;
        pthread_t thread;
        struct lessor_stub stub = {
                .id = LESSOR_SLICE("job_0"),
                .owner = lessor_slice_of(owner),
                .deadline_ms = 1,
        };
        enum lessor_job_state now;
        void *result;

        (void)state;
        use_sleeping_backend();
        pair();
        start_agent();
        site = new_site();
        other = new_site();
        assert_int_equal(lessor_stop_new(&stop), 0);
        assert_int_equal(lessor_pump_new(site, &pump_events, &tally, &pump), 0);
        add_asks(pump, 1);
        assert_int_equal(pthread_create(&thread, NULL, run_pump, pump), 0);
        await_event(LESSOR_AGENT_JOB_RUNNING);
        assert_int_equal(lessor_site_enqueue(other, &stub, &now), 0);
        assert_int_equal(now, LESSOR_JOB_RUNNING);
        assert_int_equal(stop_agent(), 0);
        assert_int_equal(lessor_site_enqueue(other, &stub, &now), 0);
        assert_int_equal(now, LESSOR_JOB_QUEUED);
        /* Another run of the same device takes it up again; this one echoes. */
        lessor_backend_free(world->backend);
        assert_int_equal(lessor_backend_echo_new(&world->backend), 0);
        world->service.backend = world->backend;
        start_agent();
        pthread_join(thread, &result);
        assert_int_equal((intptr_t)result, 0);
        assert_int_equal(tally.answered, 1);
        assert_true(tally.texts_match);
        lessor_pump_free(pump);
        lessor_site_client_free(site);
        lessor_site_client_free(other);
        lessor_stop_free(stop);
}

static void a_stranger_is_refused_in_the_relays_words(void **state)
{
        struct lessor_site_client *site;
        struct lessor_pump *pump = NULL;
        struct tally tally = {0};

        (void)state;
        free(peer_post(&world->peer, "/test/project", "{\"consents\":[]}"));
        site = new_site();
        assert_int_equal(lessor_pump_new(site, &pump_events, &tally, &pump), 0);
        add_asks(pump, 1);
        assert_int_equal(lessor_pump_run(pump, 5000), LESSOR_E_REFUSED);
        assert_string_equal(lessor_site_client_problem(site), "this site is not registered");
        assert_string_equal(lessor_site_client_error(site), "unauthorized");
        assert_int_equal(lessor_pump_outstanding(pump), 1);
        lessor_pump_free(pump);
        lessor_site_client_free(site);
}

static void an_unanswered_ask_ends_at_its_deadline(void **state)
{
        struct lessor_site_client *site;
        struct lessor_pump *pump = NULL;
        struct tally tally = {0};
        struct lessor_ask ask = {
                .kind = LESSOR_KIND_LLM_GENERATE,
                .owner = lessor_slice_of(owner),
                .payload = LESSOR_SLICE("{\"prompt\":\"p\"}"),
                .deadline_ms = 1,
        };

        (void)state;
        site = new_site();
        assert_int_equal(lessor_pump_new(site, &pump_events, &tally, &pump), 0);
        assert_int_equal(lessor_pump_add(pump, &ask, NULL), 0);
        assert_int_equal(lessor_pump_run(pump, 5000), 0);
        assert_int_equal(tally.failed, 1);
        lessor_pump_free(pump);
        lessor_site_client_free(site);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_paired_device_answers_its_owners_jobs, set_up, tear_down),
                cmocka_unit_test_setup_teardown(grants_are_checked_and_used_once, set_up_with_grants,
                                                tear_down),
                cmocka_unit_test_setup_teardown(a_revoked_device_stops_for_good, set_up, tear_down),
                cmocka_unit_test_setup_teardown(one_agent_to_a_directory, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_cancelled_job_ends_as_canceled, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_stopped_agent_gives_its_jobs_back, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_stranger_is_refused_in_the_relays_words, set_up, tear_down),
                cmocka_unit_test_setup_teardown(an_unanswered_ask_ends_at_its_deadline, set_up, tear_down),
        };

        if (argc > 1)
                lessord = argv[1];
        if (start_world(false) != 0) {
                scratch_remove(world->dir);
                free(world);
                return lessord == NULL ? 77 : 1;
        }
        tear_down(NULL);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
