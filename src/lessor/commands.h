/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_COMMANDS_H
#define LESSOR_COMMANDS_H

#include "lessor/command.h"

/* What the commands do, one file a group. Each returns an enum cli_exit. */

int run_keys_new(struct cli *cli);
int run_keys_show(struct cli *cli);

int run_site_add(struct cli *cli);
int run_site_ls(struct cli *cli);
int run_site_rm(struct cli *cli);
int run_site_rotate(struct cli *cli);
int run_site_declare(struct cli *cli);

int run_consent_add(struct cli *cli);
int run_consent_ls(struct cli *cli);
int run_consent_pause(struct cli *cli);
int run_consent_resume(struct cli *cli);
int run_consent_revoke(struct cli *cli);
int run_consent_rm(struct cli *cli);
int run_mapping_add(struct cli *cli);
int run_mapping_rm(struct cli *cli);

int run_device_pair(struct cli *cli);
int run_device_run(struct cli *cli);
int run_device_approve(struct cli *cli);
int run_device_ls(struct cli *cli);
int run_device_revoke(struct cli *cli);
int run_device_rm(struct cli *cli);

int run_roster_add(struct cli *cli);
int run_roster_ls(struct cli *cli);
int run_roster_rm(struct cli *cli);
int run_member_add(struct cli *cli);
int run_member_rm(struct cli *cli);

int run_job_ls(struct cli *cli);
int run_job_show(struct cli *cli);
int run_job_cancel(struct cli *cli);

int run_lease_create(struct cli *cli);
int run_lease_ls(struct cli *cli);
int run_lease_show(struct cli *cli);
int run_lease_why(struct cli *cli);
int run_lease_watch(struct cli *cli);
int run_lease_cancel(struct cli *cli);
int run_lease_supersede(struct cli *cli);
int run_lease_replay(struct cli *cli);

int run_run(struct cli *cli);

int run_runs_ls(struct cli *cli);
int run_runs_show(struct cli *cli);
int run_runs_watch(struct cli *cli);
int run_runs_cancel(struct cli *cli);

int run_rack_join(struct cli *cli);
int run_rack_run(struct cli *cli);
int run_rack_token(struct cli *cli);
int run_rack_tokens(struct cli *cli);
int run_rack_revoke(struct cli *cli);
int run_rack_ls(struct cli *cli);
int run_rack_show(struct cli *cli);
int run_rack_activity(struct cli *cli);
int run_rack_approve(struct cli *cli);
int run_rack_drain(struct cli *cli);
int run_rack_undrain(struct cli *cli);
int run_rack_rm(struct cli *cli);
int run_rack_policy(struct cli *cli);

int run_ask(struct cli *cli);

int run_logs(struct cli *cli);
int run_events(struct cli *cli);
int run_webhook_add(struct cli *cli);
int run_webhook_ls(struct cli *cli);
int run_webhook_rm(struct cli *cli);

int run_object_put(struct cli *cli);
int run_object_get(struct cli *cli);
int run_object_ls(struct cli *cli);
int run_object_repos(struct cli *cli);
int run_object_gc(struct cli *cli);
int run_object_verify(struct cli *cli);

int run_env_publish(struct cli *cli);
int run_env_ls(struct cli *cli);
int run_env_rm(struct cli *cli);

int run_status(struct cli *cli);
int run_metrics(struct cli *cli);
int run_log_level(struct cli *cli);
int run_backup(struct cli *cli);
int run_projection_show(struct cli *cli);
int run_projection_put(struct cli *cli);

int run_completion(struct cli *cli);
int run_version(struct cli *cli);

#endif
