// SPDX-License-Identifier: MIT
/*
 * The reference relay and lessord answer random histories alike. LESSOR_DIFFERENTIAL_STEPS says how many requests;
 * a failure names its seed, and LESSOR_DIFFERENTIAL_SEED replays from there. Needs the build with test hooks.
 */
import assert from "node:assert/strict";
import { test } from "node:test";

import { History } from "./lib/histories.mjs";
import { Pair, newParty } from "./lib/pair.mjs";

const STEPS = Number(process.env.LESSOR_DIFFERENTIAL_STEPS ?? 3000);
const STEPS_PER_WORLD = 150;
const SEED = Number(process.env.LESSOR_DIFFERENTIAL_SEED ?? crypto.getRandomValues(new Uint32Array(1))[0] % 1_000_000);

async function play(seed) {
  const history = new History(seed);
  const fixture = history.fixture();
  const pair = await Pair.make({ fixture, config: history.config(), store: history.chance.one(["memory", "sqlite"]) });
  try {
    history.begin(pair);
    for (let i = 0; i < STEPS_PER_WORLD; i += 1) {
      try {
        await history.step();
      } catch (error) {
        error.message = `seed ${seed}, step ${i}: ${error.message}`;
        throw error;
      }
    }
  } finally {
    await pair.end();
  }
  return pair.seen;
}

test(`${STEPS} steps from seed ${SEED} are answered as by the reference`, async () => {
  const seen = new Map();
  for (let i = 0; i < STEPS / STEPS_PER_WORLD; i += 1)
    for (const [kind, n] of await play(SEED + i)) seen.set(kind, (seen.get(kind) ?? 0) + n);
  // A history in which nothing works would compare refusals only.
  const works = ["/byollm/claim", "/byollm/fetch", "/byollm/result", "/byollm/heartbeat", "/byollm/release", "/byollm/pair"];
  works.push("/relay/site/enqueue", "/relay/site/payload", "/relay/site/cancel", "/relay/site/pending", "/relay/site/results");
  if (STEPS >= 3000) for (const path of works) assert.ok(seen.has(`200 ${path}`), path);
  if (process.env.LESSOR_DIFFERENTIAL_SHOW) console.log([...seen].sort().map(([kind, n]) => `${n} ${kind}`).join("\n"));
});

// --- edges that chance finds too seldom ---

const STEADY_MS = 4_102_444_800_000;
const CAPABILITY = { kind: "llm.generate", service: "echo", backendId: "ollama", backendClass: "http", model: "m1", offerScope: "team" };

/** A world of one test, ended with it. `ask` sends what is signed by a device or a site of the fixture. */
async function world(t, fixture, config) {
  const pair = await Pair.make({ fixture, config });
  t.after(() => pair.end());
  const ask = (party, plane, id, endpoint, value, target = plane === "site" ? `/relay/site/${endpoint}` : `/byollm/${endpoint}`) =>
    pair.exchange({
      method: value === undefined ? "GET" : "POST",
      target,
      sign: { plane, id, sign: party.sign },
      body: value === undefined ? undefined : (own) => JSON.stringify(value, (_, item) => own(item)),
      told: { id, endpoint, value },
    });
  return {
    pair,
    device: (party, id, endpoint, value) => ask(party, "device", id, endpoint, { protocolVersion: "2", runnerId: id, ...value }),
    site: (party, id, endpoint, value) => ask(party, "site", id, endpoint, { protocolVersion: "2", siteId: id, ...value }),
    read: (party, id, endpoint, query = `siteId=${encodeURIComponent(id)}`) =>
      ask(party, "site", id, endpoint, undefined, `/relay/site/${endpoint}?${query}&protocolVersion=2`),
    unsigned: (value) => pair.exchange({ method: "POST", target: "/byollm/pair", body: (own) => JSON.stringify(value, (_, item) => own(item)) }),
  };
}

const stubOf = (site, id, owner, more) => ({
  ...{ id, kind: "llm.generate", owner, site: site.keyId, audience: "team", sizeClass: "small", streaming: false, deadlineAt: STEADY_MS },
  ...more,
});

test("the five hundred outstanding codes, and what frees one", async (t) => {
  const w = await world(t, { consents: [] }, { verificationUrl: "https://example.org/" });
  const start = (party) =>
    w.unsigned({ protocolVersion: "2", action: "start", daemon: { version: "1", label: "x", platform: "linux" }, device: party.identity, capabilities: [] });
  const poll = (answer) => w.unsigned({ protocolVersion: "2", action: "poll", deviceCode: answer.json.deviceCode });
  const parties = Array.from({ length: 500 }, newParty);
  const first = await start(parties[0]);
  await w.pair.advance(1);
  for (const party of parties.slice(1)) assert.equal((await start(party)).status, 200);
  assert.equal((await start(newParty())).status, 429);
  const second = await start(parties[0]); // its own code makes room for it
  assert.equal(second.status, 200);
  assert.deepEqual((await poll(first)).json, { status: "expired" });
  await w.pair.advance(599_999);
  assert.deepEqual((await poll(second)).json, { status: "pending" });
  assert.equal((await start(newParty())).status, 429);
  await w.pair.advance(1);
  assert.deepEqual((await poll(second)).json, { status: "expired" });
  for (let i = 0; i < 3; i += 1) assert.equal((await start(newParty())).status, 200);
});

test("one claim over many pairs: two for each, in enqueue order, and no more than asked for", async (t) => {
  const [device, ...sites] = Array.from({ length: 5 }, newParty);
  const owners = Array.from({ length: 12 }, (_, i) => `owner_${i}`);
  const w = await world(t, {
    sites: sites.map((site, i) => ({ siteId: `s${i}`, site: site.identity })),
    consents: sites.flatMap((_, i) => ["admin", ...owners].map((owner) => ({ owner, siteId: `s${i}` }))),
    devices: [{ owner: "admin", runnerId: "r", device: device.identity }],
    rosters: [{ id: "t", owner: "admin", members: owners }],
  });
  for (let round = 0; round < 3; round += 1)
    for (const owner of owners)
      for (const [i, site] of sites.entries()) await w.site(site, `s${i}`, "enqueue", { stub: stubOf(site, `j${round}${owner}`, owner) });
  for (const max of [1, 63, 64, 64, 64]) {
    const { json } = await w.device(device, "r", "claim", { capabilities: [CAPABILITY], max });
    for (const job of json.jobs.slice(0, 9)) await w.device(device, "r", "release", { leases: [{ jobId: job.id, leaseId: job.lease.id }], reason: "refused" });
  }
  for (const [i, site] of sites.entries()) await w.read(site, `s${i}`, "pending");
  assert.equal((await w.device(device, "r", "claim", { capabilities: [CAPABILITY], max: 65 })).status, 400);
});

test("windows and leases at their very milliseconds", async (t) => {
  const [device, other, site, old] = Array.from({ length: 4 }, newParty);
  const nowMs = 1_760_000_000_000;
  const w = await world(t, {
    sites: [{ siteId: "s", site: site.identity, succeeds: [{ identity: old.identity, signature: "x" }], retiringUntil: nowMs + 9_999 }],
    consents: [{ owner: "ann", siteId: "s" }],
    devices: [device, other].map((party, i) => ({ owner: "ann", runnerId: `r${i}`, device: party.identity })),
  }, { leaseMs: 10_000 });
  const claim = (party, id) => w.device(party, id, "claim", { capabilities: [CAPABILITY], max: 5 });
  const refOf = (job) => ({ jobId: job.id, leaseId: job.lease.id });
  const envelope = { ciphertext: "x", recipientKeyId: "x", senderKeyId: "x", direction: "payload", deadlineAt: 1 };
  const beat = (leases) => w.device(device, "r0", "heartbeat", { daemonVersion: "1.0.0", capabilities: [], activeLeases: leases });
  await w.site(site, "s", "enqueue", { stub: stubOf(site, "a", "ann", { deadlineAt: nowMs + 40_000 }) });
  await w.site(site, "s", "enqueue", { stub: stubOf(site, "b", "ann", { deadlineAt: nowMs }) });
  const jobs = (await claim(device, "r0")).json.jobs;
  assert.equal(jobs.length, 1); // b was over when it came
  await w.pair.advance(9_998);
  await w.read(old, "s", "pending");
  await w.pair.advance(1);
  assert.equal((await w.read(old, "s", "pending")).status, 401);
  assert.equal((await w.read(site, "s", "pending")).json.jobs.length, 1);
  await beat(jobs.map(refOf)); // extends the lease, not the window
  await w.pair.advance(1);
  await w.site(site, "s", "payload", { jobId: "a", envelope }); // late, and nothing has swept
  await w.pair.advance(9_998);
  assert.deepEqual((await beat([])).json.lost, []);
  await w.pair.advance(1); // the renewed lease ends
  assert.equal((await beat(jobs.map(refOf))).json.lost.length, 1);
  await claim(other, "r1");
  await w.pair.advance(10_000);
  assert.equal((await claim(device, "r0")).json.jobs.length, 0); // stuck to the other
  assert.equal((await claim(other, "r1")).json.jobs.length, 1);
  await w.pair.advance(10_001); // and here it is forty seconds
  assert.equal((await claim(other, "r1")).json.jobs.length, 0);
  await w.read(site, "s", "results");
});

test("ids in headers, keys that are none, and records that are there twice", async (t) => {
  const [device, site, twin] = Array.from({ length: 3 }, newParty);
  const odd = { identity: "not a key é", encryption: "e", encryptionSig: "s" };
  const w = await world(t, {
    sites: [
      { siteId: "café", site: site.identity },
      { siteId: "odd", site: odd, succeeds: [{ identity: odd, signature: "s" }], retiringUntil: STEADY_MS },
    ],
    consents: [
      { owner: "ann", siteId: "odd" },
      { owner: "ann", siteId: "café", paused: true },
      { owner: "ann", siteId: "café" },
    ],
    devices: [
      { owner: "ann", runnerId: "rün", device: device.identity },
      { owner: "ben", runnerId: "rün", device: twin.identity },
      { owner: "ben", runnerId: "other", device: device.identity },
      { owner: "ben", runnerId: "odd", device: odd, revoked: true },
    ],
  });
  const beat = { daemonVersion: "1.0.0", capabilities: [], activeLeases: [] };
  assert.equal((await w.read(site, "café", "pending")).status, 200);
  assert.equal((await w.device(device, "rün", "heartbeat", beat)).status, 200);
  assert.equal((await w.device(twin, "rün", "heartbeat", beat)).status, 401);
  await w.device(device, "odd", "heartbeat", beat);
  await w.read(site, "odd", "pending");
  for (const party of [device, twin])
    for (const owner of ["ann", "ben"]) await w.unsigned({ protocolVersion: "2", owner, device: party.identity });
  await w.site(site, "café", "enqueue", { stub: stubOf(site, "j", "ann") });
  await w.device(device, "rün", "claim", { capabilities: [CAPABILITY], max: 1 });
});
