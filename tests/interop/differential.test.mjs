// SPDX-License-Identifier: MIT
/*
 * The reference relay and lessord answer random histories alike. LESSOR_DIFFERENTIAL_STEPS says how many requests;
 * a failure names its seed, and LESSOR_DIFFERENTIAL_SEED replays from there. Needs the build with test hooks.
 */
import assert from "node:assert/strict";
import { test } from "node:test";

import { History } from "./lib/histories.mjs";
import { Pair } from "./lib/pair.mjs";

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
