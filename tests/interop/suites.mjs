// SPDX-License-Identifier: MIT
// Runs the suites that are named, or all; prints a line a test, what a failed one said, and at last the count.
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { run } from "node:test";

import { BUILD, HERE } from "./lib/world.mjs";

/** Kills what hangs: far above what any suite takes. */
const SUITE_PATIENCE_MS = 300_000;

const totals = { passed: 0, failed: 0 };

function tell(suite, name, error, ms) {
  totals[error === undefined ? "passed" : "failed"] += 1;
  console.log(`${error === undefined ? "ok    " : "FAILED"} ${suite}: ${name}${ms === undefined ? "" : ` (${Math.round(ms)} ms)`}`);
  if (error !== undefined) console.log(String(error).replace(/^/gm, "       "));
}

/** Tests of our own, for Node's runner. Each file runs in a process of its own. */
async function nodeTests(suite) {
  const stream = run({ files: [path.join(HERE, `${suite}.test.mjs`)], timeout: SUITE_PATIENCE_MS });
  const parents = new Set();
  for await (const { type, data } of stream) {
    if (type === "test:stderr" || type === "test:stdout") process.stderr.write(data.message);
    if (type !== "test:pass" && type !== "test:fail") continue;
    // A test with parts is told by its parts; its own failure counts only when it is more than theirs.
    if (data.nesting > 0) parents.add(data.nesting - 1);
    const ofParts = parents.delete(data.nesting);
    const error = type === "test:pass" ? undefined : (data.details.error.cause?.stack ?? data.details.error.stack);
    if (ofParts && (error === undefined || data.details.error.failureType === "subtestsFailed")) continue;
    tell(suite, data.name, error, data.details.duration_ms);
  }
}

async function program(command, args, env) {
  const child = spawn(command, args, {
    cwd: HERE,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: SUITE_PATIENCE_MS,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  const [code, signal] = await once(child, "close");
  return { status: code ?? signal, output };
}

/** The peers' own cases, which are written for Vitest, on our stores. */
async function storeContract(suite) {
  const scratch = await fs.mkdtemp(path.join(os.tmpdir(), "lessor-interop-"));
  const report = path.join(scratch, "report.json");
  const vitest = path.join(HERE, "node_modules/vitest/vitest.mjs");
  const { status, output } = await program(
    process.execPath,
    [vitest, "run", "--dir", "store-contract", "--reporter=json", `--outputFile=${report}`],
    { LESSOR_STORE_DRIVER: path.join(BUILD, "lessor-store-driver"), LESSOR_STORE_KINDS: "memory,sqlite" },
  );
  const before = totals.failed;
  const { testResults } = JSON.parse(await fs.readFile(report, "utf8").catch(() => '{"testResults":[]}'));
  for (const { assertionResults } of testResults)
    for (const result of assertionResults) {
      const error = result.status === "passed" ? undefined : `${result.status}\n${result.failureMessages.join("\n")}`;
      tell(suite, result.fullName, error, result.duration);
    }
  if (status !== 0 && totals.failed === before) tell(suite, "vitest", `ended with ${status}\n${output}`);
  await fs.rm(scratch, { recursive: true });
}

/** Our C clients on the peers' relay: a program of the build that prints TAP. */
async function referenceRelay(suite) {
  const { status, output } = await program(
    path.join(BUILD, "tests/interop/reference-relay/reference_relay_test"),
    [],
    { LESSOR_NODE: process.execPath, LESSOR_SERVE_SCRIPT: path.join(HERE, "reference-relay/serve.mjs"), CMOCKA_MESSAGE_OUTPUT: "TAP" },
  );
  const before = totals.failed;
  for (const [, not, name] of output.matchAll(/^(not )?ok \d+ - (.*)$/gm)) tell(suite, name, not && output);
  if (status !== 0 && totals.failed === before) tell(suite, "reference_relay_test", `ended with ${status}\n${output}`);
}

const suites = {
  "store-contract": storeContract,
  pairing: nodeTests,
  daemon: nodeTests,
  device: nodeTests,
  audit: nodeTests,
  differential: nodeTests,
  "reference-relay": referenceRelay,
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => suites[name] === undefined);
if (unknown.length > 0) {
  console.error(`run: there is no suite ${unknown.join(", ")}; there are ${Object.keys(suites).join(", ")}`);
  process.exit(2);
}
for (const [name, suite] of Object.entries(suites)) if (wanted.length === 0 || wanted.includes(name)) await suite(name);
console.log(`${totals.passed} passed, ${totals.failed} failed`);
process.exitCode = totals.failed > 0 || totals.passed === 0 ? 1 : 0;
