// SPDX-License-Identifier: MIT
// `lessor device run`, on lessord, working for the real site SDK.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";

import { FakeModel, MODEL } from "./lib/model.mjs";
import { BUILD, World } from "./lib/world.mjs";

let model;
let world;
let site;

before(async () => {
  model = await new FakeModel().start();
  world = await World.make();
  world.atEnd(() => model.stop());
  site = await world.site("notes");
});
after(() => world?.end());

const lessor = (name, ...args) =>
  world.start(name, path.join(BUILD, "lessor"), args, { env: { LESSOR_DATA: world.data, LESSOR_RELAY: world.relay } });

/** A device of its own owner, paired, approved and at work. */
async function device(owner, backend, ...args) {
  const setup = ["--dir", world.at(owner), "--backend", backend, "--json", ...args];
  const pairing = lessor(`device pair of ${owner}`, "device", "pair", ...setup);
  const [, code] = await pairing.saw(/"userCode":"([^"]+)"/);
  await world.lessor("device", "approve", code, "--owner", owner);
  assert.equal(await pairing.exited, 0, pairing.output);
  assert.match(pairing.output, /"checksGrants":true/);

  const running = lessor(`device run of ${owner}`, "device", "run", ...setup);
  await running.saw(/"event":"online"/);
  return running;
}

test("an echo device answers the site SDK", async () => {
  await world.lessor("consent", "add", "eve", "notes", "--service", "echo");
  const running = await device("eve", "echo");
  const result = await site.ask("eve", "good morning");
  assert.equal(result.state, "ok");
  assert.match(result.outcome.text, /good morning/);
  assert.equal(result.provenance.runnerOwner, "eve");
  assert.equal(await running.stop(), 0, running.output);
});

test("a device in front of a model", async (t) => {
  await world.lessor("consent", "add", "olga", "notes", "--service", MODEL);
  const running = await device("olga", `openai:${model.baseUrl},${MODEL}`, "--slots", "2");

  await t.test("answers the site SDK, many jobs at once", async () => {
    const prompts = Array.from({ length: 8 }, (_, i) => `biscuit ${i}`);
    const results = await Promise.all(prompts.map((prompt) => site.ask("olga", prompt)));
    assert.deepEqual(
      results.map((result) => result.outcome.text),
      prompts.map((prompt) => model.answerTo(prompt)),
    );
    assert.equal(results[0].provenance.model, MODEL);
    assert.equal(results[0].provenance.stop, "end");
  });

  await t.test("answers a chat", async () => {
    const messages = [
      { role: "user", content: "who is there" },
      { role: "assistant", content: "a parrot" },
      { role: "user", content: "which one" },
    ];
    const job = await site.enqueue({ kind: "llm.chat", owner: "olga", payload: { messages } });
    assert.equal((await site.result(job)).outcome.text, model.answerTo("which one"));
  });

  await t.test("tells the site of a model's failure", async () => {
    const result = await site.ask("olga", "please fail");
    assert.equal(result.state, "error");
    assert.equal(result.outcome.outcome, "error");
  });

  await t.test("stops a job that the site cancels", async () => {
    const job = await site.enqueue({ owner: "olga", payload: { prompt: "hang on" } });
    await site.sealed(job);
    const call = await model.hanging();
    await site.cancel(job.id);
    await call.hungUp();
    assert.equal((await site.ask("olga", "next")).state, "ok");
  });

  await t.test("follows a site to its next key", async () => {
    const next = world.at("notes-2.json");
    await world.lessor("keys", "new", next);
    await world.lessor("site", "rotate", "notes", "--keys", world.at("notes.json"), "--new-keys", next);
    site = await world.app("notes", next);
    assert.equal((await site.ask("olga", "a new feather")).outcome.text, model.answerTo("a new feather"));
  });

  await t.test("gives its job back when it is stopped", async () => {
    const job = await site.enqueue({ owner: "olga", payload: { prompt: "hang a while" } });
    await site.sealed(job);
    await model.hanging();
    assert.equal(await running.stop(), 0, running.output);
    const shown = JSON.parse(await world.lessor("job", "show", "notes", job.id, "--json"));
    assert.equal(shown.job.state, "queued");
  });
});
