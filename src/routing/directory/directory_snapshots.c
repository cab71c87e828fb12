/* SPDX-License-Identifier: MIT */
#include "routing/directory/directory_internal.h"

/* What the tables come to, as the documents that projections and policies are made from. */

static int put_sites(const struct directory_site_list *sites, struct lessor_arena *arena,
                     struct relay_fixture *f)
{
        f->n_sites = sites->n;
        f->sites = lessor_arena_array(arena, sites->n, sizeof(*f->sites));
        if (f->sites == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < sites->n; i++) {
                const struct directory_site *s = &sites->items[i];

                f->sites[i] = (struct fixture_site){.site_id = s->site_id,
                                                    .site = s->site,
                                                    .succeeds = s->succeeds,
                                                    .n_succeeds = s->n_succeeds,
                                                    .retiring_until_ms = s->retiring_until_ms};
        }
        return 0;
}

static int put_consents(const struct directory_consent_list *consents, struct lessor_arena *arena,
                        struct relay_fixture *f)
{
        f->consents = lessor_arena_array(arena, consents->n, sizeof(*f->consents));
        f->revoked = lessor_arena_array(arena, consents->n, sizeof(*f->revoked));
        if (f->consents == NULL || f->revoked == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < consents->n; i++) {
                const struct directory_consent *c = &consents->items[i];

                if (c->given)
                        f->consents[f->n_consents++] = (struct fixture_consent){
                                .owner = c->owner, .site_id = c->site_id, .paused = c->paused};
                if (c->revoked)
                        f->revoked[f->n_revoked++] =
                                (struct fixture_revocation){.owner = c->owner, .site_id = c->site_id};
        }
        return 0;
}

static int put_devices(const struct directory_device_list *devices, struct lessor_arena *arena,
                       struct relay_fixture *f)
{
        f->n_devices = devices->n;
        f->devices = lessor_arena_array(arena, devices->n, sizeof(*f->devices));
        if (f->devices == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < devices->n; i++) {
                const struct directory_device *d = &devices->items[i];

                f->devices[i] = (struct fixture_device){.owner = d->owner,
                                                        .runner_id = d->runner_id,
                                                        .device = d->device,
                                                        .revoked = d->revoked};
        }
        return 0;
}

static int put_rosters(const struct directory_roster_list *rosters, struct lessor_arena *arena,
                       struct relay_fixture *f)
{
        f->n_rosters = rosters->n;
        f->rosters = lessor_arena_array(arena, rosters->n, sizeof(*f->rosters));
        if (f->rosters == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < rosters->n; i++) {
                const struct directory_roster *r = &rosters->items[i];

                f->rosters[i] = (struct fixture_roster){.id = r->roster_id,
                                                        .owner = r->owner,
                                                        .members = r->members,
                                                        .n_members = r->n_members};
        }
        return 0;
}

/* All four lists. */
struct tables {
        struct directory_site_list sites;
        struct directory_consent_list consents;
        struct directory_device_list devices;
        struct directory_roster_list rosters;
};

static int make_projection(const struct tables *t, struct lessor_arena *arena,
                           struct projection **ret_projection)
{
        struct relay_fixture f = {0};
        int r;

        if ((r = put_sites(&t->sites, arena, &f)) < 0 || (r = put_consents(&t->consents, arena, &f)) < 0 ||
            (r = put_devices(&t->devices, arena, &f)) < 0 || (r = put_rosters(&t->rosters, arena, &f)) < 0)
                return r;
        return projection_new(&f, ret_projection);
}

/* A revoked pair is one that nobody has consented to. */
static int put_policy_consents(const struct directory_consent_list *consents, struct lessor_arena *arena,
                               struct relay_policy *p)
{
        p->consents = lessor_arena_array(arena, consents->n, sizeof(*p->consents));
        if (p->consents == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < consents->n; i++) {
                const struct directory_consent *c = &consents->items[i];

                if (c->given && !c->revoked)
                        p->consents[p->n_consents++] = (struct policy_consent){.site_id = c->site_id,
                                                                               .user = c->owner,
                                                                               .mappings = c->mappings,
                                                                               .n_mappings = c->n_mappings,
                                                                               .paused = c->paused};
        }
        return 0;
}

static int put_members(const struct directory_roster_list *rosters, struct lessor_arena *arena,
                       struct relay_policy *p)
{
        size_t n = 0;

        for (size_t i = 0; i < rosters->n; i++)
                n += rosters->items[i].n_members;
        p->members = lessor_arena_array(arena, n, sizeof(*p->members));
        if (p->members == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < rosters->n; i++) {
                const struct directory_roster *r = &rosters->items[i];

                for (size_t j = 0; j < r->n_members; j++)
                        p->members[p->n_members++] =
                                (struct policy_member){.owner = r->owner, .user = r->members[j]};
        }
        return 0;
}

static int put_declarations(const struct directory_site_list *sites, struct lessor_arena *arena,
                            struct relay_policy *p)
{
        p->declares = lessor_arena_array(arena, sites->n, sizeof(*p->declares));
        if (p->declares == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < sites->n; i++) {
                const struct directory_site *s = &sites->items[i];

                if (s->declares)
                        p->declares[p->n_declares++] = (struct policy_declaration){
                                .site_id = s->site_id, .purposes = s->purposes, .n_purposes = s->n_purposes};
        }
        return 0;
}

/* Which services are up is not the tables' to say: `advertising` stays absent, and nothing is refused for it.
 */
static int make_policy(const struct tables *t, struct lessor_arena *arena, struct policy **ret_policy)
{
        struct relay_policy p = {0};
        int r;

        if ((r = put_policy_consents(&t->consents, arena, &p)) < 0 ||
            (r = put_members(&t->rosters, arena, &p)) < 0 || (r = put_declarations(&t->sites, arena, &p)) < 0)
                return r;
        return policy_new(&p, ret_policy);
}

int directory_snapshots(struct sql *s, struct lessor_arena *arena, struct projection **ret_projection,
                        struct policy **ret_policy)
{
        _cleanup_(projection_unrefp) struct projection *projection = NULL;
        struct tables t;
        int r;

        if ((r = read_sites(s, arena, &t.sites)) < 0 ||
            (r = read_consents(s, (struct lessor_slice){0}, arena, &t.consents)) < 0 ||
            (r = read_devices(s, true, arena, &t.devices)) < 0 ||
            (r = read_rosters(s, arena, &t.rosters)) < 0)
                return r;
        if (ret_projection != NULL && (r = make_projection(&t, arena, &projection)) < 0)
                return r;
        if (ret_policy != NULL && (r = make_policy(&t, arena, ret_policy)) < 0)
                return r;
        if (ret_projection != NULL)
                *ret_projection = TAKE(projection);
        return 0;
}
