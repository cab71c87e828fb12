// SPDX-License-Identifier: MIT
// The real byollm daemon, on lessord, working for the real site SDK and for `lessor ask`.
import assert from "node:assert/strict";
import fs from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";

import { FakeModel, MODEL } from "./lib/model.mjs";
import { HERE, World } from "./lib/world.mjs";

const OWNER = "ada";
const SERVICE = "bird";

const keyId = async (file) => JSON.parse(await world.lessor("keys", "show", world.at(file), "--json")).keyId;

let model;
let world;
let site;
let daemon;

const byollm = (...args) => [process.execPath, [path.join(HERE, "node_modules/byollm/dist/bin.js"), ...args]];
const daemonEnv = () => ({ BYOLLM_HOME: world.at("byollm"), HOME: world.dir, NO_COLOR: "1" });
const startDaemon = (...args) => world.start("byollm", ...byollm(...args), { env: daemonEnv() });

/** Pairs by device code; the owner approves on the server's side. */
async function pair() {
  const connecting = startDaemon("connect", world.relay, "--name", "the lab's box");
  const [, code] = await connecting.saw(/Enter code: (\S+)/);
  await world.lessor("device", "approve", code, "--owner", OWNER);
  assert.equal(await connecting.exited, 0, connecting.output);
  return connecting;
}

before(async () => {
  model = await new FakeModel().start();
  world = await World.make();
  world.atEnd(() => model.stop());
  site = await world.site("notes");
  await world.lessor("consent", "add", OWNER, "notes", "--service", SERVICE);
  const service = { type: "openai-http", baseUrl: model.baseUrl, model: MODEL, kinds: ["llm.generate", "llm.chat"], offer: "team" };
  await fs.mkdir(world.at("byollm"));
  await fs.writeFile(
    world.at("byollm/config.json"),
    JSON.stringify({ services: { [SERVICE]: service }, concurrency: 2, minAvailableMemoryBytes: 1 }),
  );
});
after(() => world?.end());

test("the daemon pairs by code and is approved", async () => {
  const connecting = await pair();
  assert.match(connecting.output, new RegExp(`paired as ${OWNER}`));
  assert.match(connecting.output, /pinned: \S+/);

  const [device] = JSON.parse(await world.lessor("device", "ls", "--json")).devices;
  assert.equal(device.owner, OWNER);
  const pairings = JSON.parse(await fs.readFile(world.at("byollm/pairings.json"), "utf8"));
  const [pairing] = Object.values(pairings.pairings ?? pairings);
  assert.equal(pairing.runnerId, device.runnerId);
  const grantKey = JSON.parse(await fs.readFile(world.at("grant-key.json"), "utf8"));
  assert.equal(pairing.controlPlanePublic, grantKey.identityPublic);

  const again = startDaemon("connect", world.relay);
  assert.equal(await again.exited, 0, again.output);
  assert.match(again.output, /already known here/);

  daemon = startDaemon("run");
  await daemon.saw(/^serving as /m);
});

test("it answers the site SDK", async () => {
  const result = await site.ask(OWNER, "a biscuit");
  assert.equal(result.state, "ok");
  assert.equal(result.outcome.text, model.answerTo("a biscuit"));
  assert.equal(result.provenance.runnerOwner, OWNER);
  assert.equal(result.provenance.model, MODEL);
  assert.equal(result.provenance.stop, "end");
});

test("it answers lessor ask", async () => {
  const ask = (...args) =>
    world.lessor("ask", "--site", "notes", "--site-keys", world.at("notes.json"), "--owner", OWNER, ...args);
  assert.equal((await ask("--kind", "generate", "a cracker")).trimEnd(), model.answerTo("a cracker"));
  assert.match(await ask("--kind", "chat", "a nut"), /a nut/);
});

test("it answers several jobs at once", async () => {
  const prompts = Array.from({ length: 6 }, (_, i) => `biscuit ${i}`);
  const results = await Promise.all(prompts.map((prompt) => site.ask(OWNER, prompt)));
  assert.deepEqual(
    results.map((result) => result.outcome.text),
    prompts.map((prompt) => model.answerTo(prompt)),
  );
});

test("it works for a member of its owner's team, who is told whose device it was", async () => {
  await world.lessor("roster", "add", "lab", "--owner", OWNER, "bob");
  await world.lessor("consent", "add", "bob", "notes", "--service", SERVICE, "--service-owner", OWNER);
  const result = await site.ask("bob", "a walnut");
  assert.equal(result.outcome.text, model.answerTo("a walnut"));
  assert.equal(result.provenance.runnerOwner, OWNER);
  assert.equal(result.provenance.untrusted, true);

  await world.lessor("roster", "member", "rm", "lab", "bob");
  const job = await site.enqueue({ owner: "bob", payload: { prompt: "another walnut" } });
  assert.equal((await site.ask(OWNER, "a hazelnut")).state, "ok");
  assert.ok(!daemon.output.includes(job.id));
  await site.cancel(job.id);
});

test("a model's failure reaches the site as an error outcome", async () => {
  const result = await site.ask(OWNER, "please fail");
  assert.equal(result.state, "error");
  assert.equal(result.outcome.code, "service_unavailable");
  await world.lessor(
    ...["ask", "--site", "notes", "--site-keys", world.at("notes.json"), "--owner", OWNER, "please fail too"],
    { status: 7 },
  );
});

test("a cancelled job stops at the daemon while it runs", async () => {
  const job = await site.enqueue({ owner: OWNER, payload: { prompt: "hang on" } });
  await site.sealed(job);
  const call = await model.hanging();
  await site.cancel(job.id);
  await call.hungUp();
  await daemon.saw(new RegExp(`canceled ${job.id}`));
});

test("a job that is cancelled before a daemon claims it is never offered", async () => {
  await world.lessor("consent", "pause", OWNER, "notes");
  const job = await site.enqueue({ owner: OWNER, payload: { prompt: "never mind" } });
  await site.cancel(job.id);
  await world.lessor("consent", "resume", OWNER, "notes");
  assert.equal((await site.ask(OWNER, "after all")).state, "ok");
  assert.ok(!daemon.output.includes(`${job.id}`));
  assert.ok(!model.prompts.includes("never mind"));
});

test("a paused consent is shown to the daemon's owner, and holds work back until it is resumed", async () => {
  const since = daemon.mark();
  await world.lessor("consent", "pause", OWNER, "notes");
  await daemon.saw(new RegExp(`paused for ${await keyId("notes.json")}`), since);
  const job = await site.enqueue({ owner: OWNER, payload: { prompt: "patience" } });
  await world.lessor("consent", "resume", OWNER, "notes");
  await daemon.saw(/resumed/, since);
  const result = await site.result(job);
  assert.equal(result.outcome.text, model.answerTo("patience"));
  assert.ok(daemon.output.indexOf(`claimed llm.generate ${job.id}`) > daemon.output.indexOf("resumed", since));
});

test("the daemon follows a site to its next key", async () => {
  const since = daemon.mark();
  const next = world.at("notes-2.json");
  await world.lessor("keys", "new", next);
  await world.lessor("site", "rotate", "notes", "--keys", world.at("notes.json"), "--new-keys", next);
  await daemon.saw(/site \S+ rotated its key/, since);
  site = await world.app("notes", next);
  assert.equal((await site.ask(OWNER, "a new feather")).outcome.text, model.answerTo("a new feather"));
  assert.ok(!/refused/.test(daemon.output.slice(since)), daemon.output.slice(since));
});

test("a revoked device stops by itself, and can be paired anew", async () => {
  const [device] = JSON.parse(await world.lessor("device", "ls", "--json")).devices;
  await world.lessor("device", "revoke", device.runnerId);
  await daemon.saw(/this runner was revoked/);
  await daemon.exited;
  const job = await site.enqueue({ owner: OWNER, payload: { prompt: "who is there" } });

  // The same keys are refused for good; only a device with new ones gets in.
  await fs.rm(world.at("byollm/keys.json"));
  await pair();
  daemon = startDaemon("run");
  assert.equal((await site.result(job)).outcome.text, model.answerTo("who is there"));
});

test("a daemon that is stopped gives its job back at once", async () => {
  const job = await site.enqueue({ owner: OWNER, payload: { prompt: "hang a while" } });
  await site.sealed(job);
  await model.hanging();
  assert.equal(await daemon.stop(), 0, daemon.output);
  const shown = JSON.parse(await world.lessor("job", "show", "notes", job.id, "--json"));
  assert.equal(shown.job.state, "queued", JSON.stringify(shown));
});
