/* SPDX-License-Identifier: MIT */
#include "client/agent_rules.h"

#include "crypto/grant.h"
#include "crypto/key_id.h"
#include "wire/relay_shapes.h"

int64_t rules_backoff_ms(unsigned attempt, int64_t first_ms, int64_t longest_ms)
{
        int64_t pause_ms = first_ms;

        while (attempt-- > 0 && pause_ms < longest_ms)
                pause_ms *= 2;
        return pause_ms < longest_ms ? pause_ms : longest_ms;
}

enum fetch_step rules_after_fetch(int error, int64_t elapsed_ms, int64_t lease_left_ms)
{
        switch (error) {
        case LESSOR_E_NOT_READY:
        case LESSOR_E_LATER:
        case LESSOR_E_PROTOCOL:
                if (elapsed_ms >= FETCH_GIVE_UP_MS || lease_left_ms <= 0)
                        return FETCH_GIVE_UP;
                return FETCH_AGAIN;
        case LESSOR_E_TOO_LATE:
        case LESSOR_E_NOT_FOUND:
        case LESSOR_E_REFUSED:
        case LESSOR_E_PERMISSION:
                return FETCH_DROP;
        default:
                return FETCH_GIVE_UP;
        }
}

bool rules_result_again(int error)
{
        return error == LESSOR_E_LATER || error == LESSOR_E_NOT_READY || error == LESSOR_E_PROTOCOL ||
               error == LESSOR_E_STALE;
}

/* Why a grant does not hold, in words. */
static const char *grant_problem(int error)
{
        switch (error) {
        case LESSOR_E_WRONG_OWNER:
                return "its grant is for a device of another owner";
        case LESSOR_E_WRONG_JOB:
                return "its grant is for another job";
        case LESSOR_E_FROM_THE_FUTURE:
                return "its grant is dated in the future: check this machine's clock";
        case LESSOR_E_EXPIRED:
                return "its grant is too old: check this machine's clock";
        default:
                return "its grant is not signed by the control plane that this device is paired with";
        }
}

static int refuse(const char *reason, const char **ret_reason)
{
        *ret_reason = reason;
        return LESSOR_E_REFUSED;
}

/* The grant must say the same as the stub, or the relay could attach it to other work. */
static const char *grant_misfit(const struct lessor_grant *grant, const struct lessor_stub *stub)
{
        struct lessor_slice kind = lessor_slice_of(message_word(&kind_words, (int)stub->kind));
        struct lessor_slice purpose = stub->purpose.p != NULL ? stub->purpose : LESSOR_SLICE("default");

        if (!lessor_slice_equal(grant->user, stub->owner))
                return "its grant names another user";
        if (!lessor_slice_equal(grant->site, stub->site))
                return "its grant names another site";
        if (!lessor_slice_equal(grant->kind, kind))
                return "its grant names another kind of job";
        if (!lessor_slice_equal(grant->purpose, purpose))
                return "its grant names another purpose";
        return NULL;
}

/*
 * The service that a grant names, or the first that fits. Work of others only ever meets services offered to
 * the team, whatever a grant says.
 */
static int pick_service(const struct agent_view *view, const struct lessor_stub *stub,
                        const struct lessor_slice *named, size_t *ret_service, const char **ret_reason)
{
        bool own = lessor_slice_equal(stub->owner, view->owner);

        for (size_t i = 0; i < view->n_services; i++) {
                const struct lessor_service *service = &view->services[i];

                if ((service->kinds & LESSOR_KIND_BIT(stub->kind)) == 0)
                        continue;
                if (named != NULL && !lessor_slice_equal(*named, lessor_slice_of(service->name)))
                        continue;
                if (!own && service->offer != LESSOR_OFFER_TEAM)
                        continue;
                *ret_service = i;
                return 0;
        }
        return refuse("no service of this device may answer it", ret_reason);
}

int rules_judge_job(const struct agent_view *view, const struct claimed_stub *job, int64_t now_ms,
                    size_t *ret_service, const char **ret_reason)
{
        struct grant_check check = {
                .owner = view->owner,
                .job_id = job->stub.id,
                .control_plane = view->control_plane,
                .now_ms = now_ms,
        };
        const struct known_site *site = known_site_find(view->sites, view->n_sites, job->stub.site);
        const char *misfit;
        int r;

        if (!lessor_slice_equal(job->lease.runner_id, view->runner_id))
                return refuse("its lease names another device", ret_reason);
        if (site == NULL || !known_site_is_served(site, now_ms))
                return refuse("it comes from a site that this device is not paired with", ret_reason);
        if (view->control_plane == NULL) {
                if (!lessor_slice_equal(job->stub.owner, view->owner))
                        return refuse("it is somebody else's, and this device has no control plane to vouch "
                                      "for them",
                                      ret_reason);
                return pick_service(view, &job->stub, NULL, ret_service, ret_reason);
        }
        if (!job->has_grant)
                return refuse("it comes without a grant", ret_reason);
        r = grant_verify(&job->grant, &check);
        if (r == LESSOR_E_NOMEM)
                return r;
        if (r < 0)
                return refuse(grant_problem(r), ret_reason);
        misfit = grant_misfit(&job->grant, &job->stub);
        if (misfit != NULL)
                return refuse(misfit, ret_reason);
        return pick_service(view, &job->stub, &job->grant.service, ret_service, ret_reason);
}

static void put_capability(const struct lessor_service *service, enum lessor_kind kind,
                           struct lessor_device_capability *ret_capability)
{
        const char *model = service->model != NULL ? service->model : service->name;

        *ret_capability = (struct lessor_device_capability){
                .kind = kind,
                .service = lessor_slice_of(service->name),
                .backend_id = lessor_slice_of(service->backend->ops->backend_id),
                .backend_class = service->backend->ops->backend_class,
                .model = lessor_slice_of(model),
                .offer_scope = service->offer,
        };
}

int rules_capabilities(const struct lessor_service *services, size_t n_services, struct lessor_arena *arena,
                       struct lessor_device_capability **ret_capabilities, size_t *ret_n)
{
        struct lessor_device_capability *out =
                lessor_arena_array(arena, n_services, LESSOR_N_KINDS * sizeof(*out));
        size_t n = 0;

        if (out == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n_services; i++)
                for (int kind = 0; kind < LESSOR_N_KINDS; kind++)
                        if ((services[i].kinds & LESSOR_KIND_BIT(kind)) != 0)
                                put_capability(&services[i], (enum lessor_kind)kind, &out[n++]);
        *ret_capabilities = out;
        *ret_n = n;
        return 0;
}
