// SPDX-License-Identifier: MIT
// Pairing by fixture, where the reference relay and lessord must judge alike.
import assert from "node:assert/strict";
import { test } from "node:test";

import { generateKeys, PROTOCOL_VERSION, publicIdentityOf } from "@byollm/protocol";
import { Relay } from "@byollm/relay";

import { World } from "./lib/world.mjs";

const OWNER = "ada";
const device = publicIdentityOf(generateKeys(Date.now()));
const stranger = publicIdentityOf(generateKeys(Date.now()));
const consent = { owner: OWNER, siteId: "notes" };
const fixture = {
  sites: [{ siteId: "notes", site: publicIdentityOf(generateKeys(Date.now())) }],
  consents: [consent],
  devices: [{ runnerId: "runner_ada", owner: OWNER, device }],
};

const cases = {
  "a consent": {},
  "a paused consent, which keeps its pin": { consents: [{ ...consent, paused: true }] },
  "a revoked consent": { revoked: [consent] },
  "a consent of somebody else": { consents: [{ ...consent, owner: "eve" }] },
  "a consent to a site that is not registered": { consents: [{ ...consent, siteId: "letters" }] },
  "no consent": { consents: [] },
  "a device of somebody else": { devices: [{ ...fixture.devices[0], owner: "eve" }] },
};

/** What a relay says to the device and to a stranger, without what may differ. */
async function verdicts(post) {
  const all = [];
  for (const identity of [device, stranger]) {
    const answer = await post(JSON.stringify({ protocolVersion: PROTOCOL_VERSION, owner: OWNER, device: identity }));
    const { error, message, runnerId, sites } = await answer.json();
    all.push({ status: answer.status, error, message, runnerId, sites });
  }
  return all;
}

for (const [name, change] of Object.entries(cases)) {
  test(`pairing by fixture: ${name}`, async (t) => {
    const relay = new Relay({ fixture: { ...fixture, ...change } });
    const headers = { "content-type": "application/json" };
    const want = await verdicts((body) =>
      relay.handle(new Request("http://127.0.0.1/byollm/pair", { method: "POST", headers, body })),
    );

    const world = await World.make({
      files: { "fixture.json": { ...fixture, ...change } },
      args: (w) => ["--projection", w.at("fixture.json")],
      grants: false,
    });
    t.after(() => world.end());
    const got = await verdicts((body) => fetch(`${world.relay}/byollm/pair`, { method: "POST", headers, body }));
    assert.deepEqual(got, want);
  });
}
