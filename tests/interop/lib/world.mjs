// SPDX-License-Identifier: MIT
import assert from "node:assert/strict";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { ByollmApp, MemoryStore } from "@byollm/server";

import { PATIENCE_MS, Process, run } from "./process.mjs";

export const HERE = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
/** The Meson build whose programs are tried. */
export const BUILD = path.resolve(process.env.LESSOR_BUILD ?? path.join(HERE, "../../build"));

const PUMP_EVERY_MS = 50;

/** One lessord with its data, its keys and the processes around it, in a directory of its own. */
export class World {
  #ends = [];

  /**
   * options.args: more of lessord's options; options.files: what to write into the directory before it starts, as
   * {name: value}, which is JSON but for texts; options.prepare: what else is to be done there; options.grants: false
   * for a server that signs none.
   */
  static async make(options) {
    const world = new World();
    world.dir = await fs.mkdtemp(path.join(os.tmpdir(), "lessor-interop-"));
    try {
      await world.#start(options ?? {});
      return world;
    } catch (error) {
      await world.end();
      throw error;
    }
  }

  async #start({ args = () => [], files = {}, grants = true, prepare }) {
    this.data = this.at("server");
    await prepare?.(this);
    for (const [name, value] of Object.entries(files))
      await fs.writeFile(this.at(name), typeof value === "string" ? value : JSON.stringify(value), { mode: 0o600 });
    const more = [];
    if (grants) {
      await this.lessor("keys", "new", this.at("grant-key.json"));
      more.push("--grant-key", this.at("grant-key.json"));
    }
    this.server = this.start("lessord", path.join(BUILD, "lessord"), [
      ...["--listen", "127.0.0.1:0", "--data", this.data],
      ...["--verification-url", "http://127.0.0.1/devices"],
      ...more,
      ...args(this),
    ]);
    // A leak that a sanitizer found, too, shows in how the server ends.
    this.atEnd(async () => assert.equal(await this.server.stop(), 0, this.server.output));
    this.relay = (await this.server.saw(/^listening on (\S+)$/m))[1];
  }

  at(name) {
    return path.join(this.dir, name);
  }

  /** Runs to the world's end, or until stopped. Processes end in the reverse order of their starts. */
  start(name, program, args, options) {
    const process = new Process(name, program, args, options);
    this.atEnd(() => process.stop());
    return process;
  }

  atEnd(end) {
    this.#ends.push(end);
  }

  /** A command of the lessor CLI, against this world's server. */
  lessor(...args) {
    const options = typeof args.at(-1) === "object" ? args.pop() : {};
    return run(path.join(BUILD, "lessor"), args, {
      ...options,
      env: { LESSOR_DATA: this.data ?? "", LESSOR_RELAY: this.relay ?? "", ...options.env },
    });
  }

  /** Registers a site, and gives the SDK's app for it: the real one, in its cloud lane. */
  async site(siteId, purposes = []) {
    const keys = this.at(`${siteId}.json`);
    await this.lessor("keys", "new", keys);
    await this.lessor("site", "add", siteId, ...purposes, "--keys", keys);
    return this.app(siteId, keys);
  }

  async app(siteId, keys) {
    const siteKeys = JSON.parse(await fs.readFile(keys, "utf8"));
    const lane = { relayOrigin: this.relay, siteId };
    return new SiteApp(new ByollmApp({ store: new MemoryStore(), siteKeys, lane }));
  }

  /** Ends everything, also when some of it ends badly, which is then told. */
  async end() {
    const errors = [];
    for (const end of this.#ends.reverse()) {
      try {
        await end();
      } catch (error) {
        errors.push(error);
      }
    }
    await fs.rm(this.dir, { recursive: true });
    if (errors.length > 0) throw errors[0];
  }
}

/** A site's own program: it enqueues, and runs the lane's pump as the SDK wants it run. */
export class SiteApp {
  #app;
  #pumping;

  constructor(app) {
    this.#app = app;
  }

  enqueue(job) {
    return this.#app.enqueue({ kind: "llm.generate", ...job });
  }

  /** One turn of the pump, shared by all who wait: two at once would both seal for the same claim. */
  pump() {
    this.#pumping ??= this.#app.cloud.pump().finally(() => (this.#pumping = undefined));
    return this.#pumping;
  }

  cancel(jobId) {
    return this.#app.cancel(jobId);
  }

  /** Pumps until `done` is true of a pump's report. */
  async pumpUntil(done) {
    const until = Date.now() + PATIENCE_MS;
    for (;;) {
      const report = await this.pump();
      if (await done(report)) return report;
      if (Date.now() > until) throw new Error(`the pump turned in vain: ${JSON.stringify(report)}`);
      await pause(PUMP_EVERY_MS);
    }
  }

  sealed(job) {
    return this.pumpUntil((report) => report.sealed.includes(job.id));
  }

  /** Pumps until the job is over, and returns what the SDK then says of it. */
  async result(job) {
    const over = (result) => ["ok", "error", "canceled", "expired"].includes(result?.state);
    await this.pumpUntil(async () => over(await this.#app.result(job.id)));
    return this.#app.result(job.id);
  }

  async ask(owner, prompt) {
    return this.result(await this.enqueue({ owner, payload: { prompt } }));
  }
}
