// SPDX-License-Identifier: MIT
//
// Plays the recorded exchanges of tests/data/relay-http.json against lessord, a fresh server for each scenario.
//
//   node tests/plane/relay_scenarios.mjs [--store memory|sqlite] [--only REGEX] [--verbose]
//
// Scenarios that move the clock or replace projection and policy run on build-hooks/lessord, the others on the
// release build. Ends with "N passed, N failed, N skipped"; scenarios whose `edge` leniency lessord does not share
// are skipped by name, and docs/compatibility.md says why for each.
import { spawn } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
};
const STORES = [option("store", "memory"), ...(option("store") ? [] : ["sqlite"])];
const ONLY = new RegExp(option("only", "."));
const VERBOSE = process.argv.includes("--verbose");
const LANES = 4;
const REAL_TIME_SLACK_MS = 5000;

// Leniencies of the reference that we refuse; each has a line in docs/compatibility.md.
const REFUSED_EDGES = new Set(["handshake-last-segment", "auth-issued-at-forms"]);

const book = JSON.parse(fs.readFileSync(path.join(ROOT, "tests/data/relay-http.json"), "utf8"));
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "lessor-scenarios-"));

// --- keys and signatures ---

const storedKey = (name) => {
  if (!Object.hasOwn(book.keys, name)) throw new Error(`the scenarios name no key ${name}`);
  return book.keys[name];
};
const publicHalf = (stored) => ({
  identity: stored.identityPublic,
  encryption: stored.encryptionPublic,
  encryptionSig: stored.encryptionSig,
});
const sign = (stored, text) =>
  crypto
    .sign(null, Buffer.from(text, "utf8"), { key: Buffer.from(stored.identityPrivate, "base64"), format: "der", type: "pkcs8" })
    .toString("base64url");
const rawPublic = (key) => key.export({ format: "der", type: "spki" }).subarray(-32).toString("base64url");

function newIdentity() {
  const signing = crypto.generateKeyPairSync("ed25519");
  const encryption = rawPublic(crypto.generateKeyPairSync("x25519").publicKey);
  return {
    identity: rawPublic(signing.publicKey),
    encryption,
    encryptionSig: crypto
      .sign(null, Buffer.from(`byollm/v1/encryption-key:${encryption}`), signing.privateKey)
      .toString("base64url"),
  };
}

const GRANT_ORDER = ["grantId", "issuedAt", "jobId", "kind", "owner", "purpose", "service", "site", "user"];
function grantIsSignedBy(grant, stored) {
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(stored.identityPublic, "base64url")]);
  const statement = JSON.stringify(["byollm/v1/grant", ...GRANT_ORDER.map((field) => grant[field])]);
  return crypto.verify(
    null,
    Buffer.from(statement),
    crypto.createPublicKey({ key: spki, format: "der", type: "spki" }),
    Buffer.from(grant.signature, "base64url"),
  );
}

const DAMAGE = {
  flip: (s) => {
    const raw = Buffer.from(s, "base64url");
    raw[5] ^= 1;
    return raw.toString("base64url");
  },
  truncate: (s) => Buffer.from(s, "base64url").subarray(0, 63).toString("base64url"),
  extend: (s) => Buffer.concat([Buffer.from(s, "base64url"), Buffer.alloc(1)]).toString("base64url"),
  base64: (s) => Buffer.from(s, "base64url").toString("base64"),
  junk: (s) => `${s.slice(0, 10)}!${s.slice(10)}`,
  empty: () => "",
  text: () => "not a signature",
};

// --- placeholders ---

const soleKey = (value, name) => {
  const keys = Object.keys(value);
  return keys.length === 1 && keys[0] === name;
};

class Scene {
  constructor(scenario) {
    this.captured = new Map();
    this.fixed = scenario.needsClock === true;
    this.nowMs = book.baseMs;
  }

  now() {
    return this.fixed ? this.nowMs : Date.now();
  }

  recall(name) {
    if (!this.captured.has(name)) throw new Error(`nothing was captured as $${name}`);
    return this.captured.get(name);
  }

  fillText(text) {
    return text.replace(/\$\{(\w+)\}/g, (_, name) => this.recall(name));
  }

  fill(value) {
    if (typeof value === "string") {
      if (value.startsWith("$$")) return value.slice(1);
      return value.length > 1 && value[0] === "$" ? this.recall(value.slice(1)) : value;
    }
    if (Array.isArray(value)) return value.map((item) => this.fill(item));
    if (value === null || typeof value !== "object") return value;
    if (soleKey(value, "$now")) return this.now() + value.$now;
    if (soleKey(value, "$repeat")) return value.$repeat[0].repeat(value.$repeat[1]);
    if (soleKey(value, "$freshIdentity")) return newIdentity();
    if (soleKey(value, "$public")) return publicHalf(storedKey(value.$public));
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.fill(item)]));
  }

  // Says where an answer differs from what is expected; nothing when it does not.
  *differences(want, got, where) {
    const complain = (what) => `${where}: ${what}, got ${brief(got)}`;
    if (typeof want === "string" && want.length > 1 && want[0] === "$" && !want.startsWith("$$")) {
      const name = want.slice(1);
      if (typeof got !== "string" || got === "") yield complain(`expected a text for ${want}`);
      else if (this.captured.has(name) && this.captured.get(name) !== got) yield complain(`expected ${this.captured.get(name)} again`);
      else if (!this.captured.has(name) && [...this.captured.values()].includes(got)) yield complain(`expected a new text for ${want}`);
      else this.captured.set(name, got);
      return;
    }
    if (typeof want === "string" && want.startsWith("$$")) want = want.slice(1);
    if (Array.isArray(want)) {
      if (!Array.isArray(got) || got.length !== want.length) yield complain(`expected ${want.length} items`);
      else for (const [i, item] of want.entries()) yield* this.differences(item, got[i], `${where}[${i}]`);
      return;
    }
    if (want === null || typeof want !== "object") {
      if (!isDeepStrictEqual(want, got)) yield complain(`expected ${brief(want)}`);
      return;
    }
    if (soleKey(want, "$clock")) {
      const slack = this.fixed ? 0 : REAL_TIME_SLACK_MS;
      if (!Number.isInteger(got) || Math.abs(got - this.now() - want.$clock) > slack)
        yield complain(`expected the clock ${want.$clock >= 0 ? "+" : ""}${want.$clock}`);
      return;
    }
    if (soleKey(want, "$any")) {
      const type = got === null ? "null" : Array.isArray(got) ? "array" : typeof got;
      if (want.$any !== "any" && want.$any !== type) yield complain(`expected a ${want.$any}`);
      return;
    }
    if (soleKey(want, "$match")) {
      if (typeof got !== "string" || !new RegExp(want.$match, "u").test(got)) yield complain(`expected /${want.$match}/`);
      return;
    }
    if (soleKey(want, "$public")) want = publicHalf(storedKey(want.$public));
    if (got === null || typeof got !== "object" || Array.isArray(got)) {
      yield complain("expected an object");
      return;
    }
    for (const key of new Set([...Object.keys(want), ...Object.keys(got)])) {
      if (!Object.hasOwn(got, key)) yield `${where}.${key}: missing`;
      else if (!Object.hasOwn(want, key)) yield `${where}.${key}: not expected`;
      else yield* this.differences(want[key], got[key], `${where}.${key}`);
    }
  }
}

const brief = (value) => {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
};
const expandKeys = (value) => {
  if (Array.isArray(value)) return value.map(expandKeys);
  if (value === null || typeof value !== "object") return value;
  if (soleKey(value, "$key")) return storedKey(value.$key);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expandKeys(item)]));
};

// --- the server ---

function options(scenario, directory, store) {
  const config = expandKeys(scenario.config ?? {});
  const file = (name, value) => {
    const at = path.join(directory, name);
    fs.writeFileSync(at, JSON.stringify(value), { mode: 0o600 });
    return at;
  };
  const words = ["--listen", "127.0.0.1:0", "--data", path.join(directory, "data"), "--store", store];
  words.push("--log-level", "error", "--threads", "1");
  words.push("--projection", file("projection.json", book.fixtures[scenario.fixture]));
  if (config.leaseMs !== undefined) words.push("--lease-ms", String(config.leaseMs));
  if (config.verificationUrl !== undefined) words.push("--verification-url", config.verificationUrl);
  if (config.updateOffer !== undefined) words.push("--update-offer", config.updateOffer);
  if (config.daemonFloor !== undefined) words.push("--daemon-floor", config.daemonFloor);
  if (config.basePath !== undefined) words.push("--base-path", config.basePath);
  if (config.debug) words.push("--debug");
  const plane = config.controlPlane;
  if (plane) {
    words.push("--grant-key", file("grant-key.json", plane.key), "--policy", file("policy.json", plane.policy ?? { consents: [] }));
    if (plane.grants === false) words.push("--no-grants");
    if (plane.satisfiable) words.push("--satisfiable");
  }
  return words;
}

async function start(scenario, store) {
  const hooks = scenario.needsClock || scenario.needsProject || scenario.needsPolicy;
  const directory = fs.mkdtempSync(path.join(scratch, "s-"));
  const env = { PATH: process.env.PATH };
  if (scenario.needsClock) env.LESSOR_TEST_NOW_MS = String(book.baseMs);
  const child = spawn(path.join(ROOT, hooks ? "build-hooks" : "build", "lessord"), options(scenario, directory, store), {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (chunk) => (errors += chunk));
  const ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
  const port = await new Promise((resolve, reject) => {
    readline.createInterface({ input: child.stdout }).on("line", (line) => {
      const match = /^listening on http:\/\/127\.0\.0\.1:(\d+)$/.exec(line);
      if (match) resolve(Number(match[1]));
    });
    ended.then((code) => reject(new Error(`the server ended with ${code}: ${errors.slice(0, 400)}`)));
    child.on("error", reject);
  });
  const agent = new http.Agent({ keepAlive: true });
  return {
    send: (exchange) => send(agent, port, exchange),
    async stop() {
      agent.destroy();
      child.kill("SIGTERM");
      const code = await ended;
      fs.rmSync(directory, { recursive: true, force: true });
      if (code !== 0) throw new Error(`the server ended with ${code}: ${errors.slice(0, 2000)}`);
    },
  };
}

function send(agent, port, { method, target, headers, body }) {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { "content-length": String(body.length) };
    const request = http.request({ agent, host: "127.0.0.1", port, method, path: target, headers: { ...headers, ...length } });
    request.on("response", (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode,
          type: response.headers["content-type"] ?? "",
          text: Buffer.concat(parts).toString("utf8"),
        }),
      );
    });
    request.on("error", reject);
    request.setTimeout(30_000, () => request.destroy(new Error("no answer within 30 s")));
    request.end(body);
  });
}

// --- one exchange ---

function signatureHeaders(wanted, request, target, body, scene) {
  const site = wanted.plane === "site";
  const issuedMs = scene.now() + (wanted.skewMs ?? 0);
  const pathOnly = target.split("?", 1)[0];
  const name = wanted.endpoint ?? pathOnly.slice(pathOnly.lastIndexOf("/") + 1);
  const text =
    wanted.text !== undefined
      ? scene.fillText(wanted.text)
      : request.method === "POST"
        ? new TextDecoder().decode(body ?? new Uint8Array())
        : "";
  const lines = [
    "byollm/v1/request",
    site && wanted.prefix !== false ? `site/${name}` : name,
    wanted.signedId ?? wanted.id,
    String(issuedMs),
    crypto.createHash("sha256").update(text, "utf8").digest("hex"),
  ];
  const signature = sign(storedKey(wanted.key), lines.join("\n"));
  const headers = {
    [site ? "x-byollm-site" : "x-byollm-runner"]: wanted.id,
    "x-byollm-issued-at": (wanted.issuedAtText ?? "{ms}")
      .replace("{ms}", String(issuedMs))
      .replace("{seconds}", String(issuedMs / 1000))
      .replace("{hex}", issuedMs.toString(16)),
    "x-byollm-signature": wanted.tamper === undefined ? signature : DAMAGE[wanted.tamper](signature),
  };
  for (const name of wanted.omit ?? []) delete headers[name];
  return headers;
}

function compose(request, scene) {
  const target = scene.fillText(request.path);
  let body;
  if (request.json !== undefined) body = Buffer.from(JSON.stringify(scene.fill(request.json)));
  else if (request.text !== undefined) body = Buffer.from(scene.fillText(request.text));
  else if (request.base64 !== undefined) body = Buffer.from(request.base64, "base64");
  const headers = {
    accept: "application/json",
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(request.sign === undefined ? {} : signatureHeaders(request.sign, request, target, body, scene)),
    ...request.headers,
  };
  return { method: request.method, target, headers, body };
}

function* grantsWithin(value) {
  if (value === null || typeof value !== "object") return;
  if (typeof value.grantId === "string" && typeof value.signature === "string") yield value;
  for (const item of Object.values(value)) yield* grantsWithin(item);
}

function* judge(expect, answer, scene) {
  if (answer.status !== expect.status) yield `status ${answer.status} instead of ${expect.status}: ${answer.text.slice(0, 200)}`;
  const type = expect.contentType ?? "application/json";
  if (!answer.type.startsWith(type)) yield `content type ${answer.type} instead of ${type}`;
  let json;
  try {
    json = JSON.parse(answer.text);
  } catch {
    if (expect.json !== undefined) yield `not JSON: ${answer.text.slice(0, 200)}`;
  }
  if (expect.json !== undefined && json !== undefined) yield* scene.differences(expect.json, json, "body");
  for (const piece of expect.contains ?? []) if (!answer.text.includes(piece)) yield `lacks ${piece}`;
  for (const piece of expect.lacks ?? []) if (answer.text.includes(piece)) yield `has ${piece}`;
  if (expect.grantsBy !== undefined)
    for (const grant of grantsWithin(json))
      if (!grantIsSignedBy(grant, storedKey(expect.grantsBy))) yield `grant ${grant.grantId} does not verify`;
}

const control = async (server, name, value) => {
  const answer = await server.send({
    method: "POST",
    target: `/test/${name}`,
    headers: { "content-type": "application/json" },
    body: Buffer.from(JSON.stringify(value)),
  });
  if (answer.status !== 200) throw new Error(`/test/${name} answered ${answer.status}: ${answer.text}`);
};

async function play(scenario, store) {
  const scene = new Scene(scenario);
  const server = await start(scenario, store);
  const problems = [];
  try {
    for (const [index, step] of scenario.steps.entries()) {
      if (step.advance !== undefined) {
        scene.nowMs += step.advance;
        await control(server, "advance", { advance: step.advance });
      } else if (step.project !== undefined) {
        await control(server, "project", book.fixtures[step.project]);
      } else if (step.policy !== undefined) {
        await control(server, "policy", expandKeys(step.policy));
      } else {
        for (let turn = 0; turn < (step.repeat ?? 1) && problems.length === 0; turn += 1) {
          const answer = await server.send(compose(step.request, scene));
          for (const problem of judge(step.expect, answer, scene))
            problems.push(`step ${index + 1} ${step.request.method} ${step.request.path.slice(0, 60)}: ${problem}`);
        }
      }
      if (problems.length > 0) break;
    }
  } finally {
    await server.stop();
  }
  return problems;
}

// --- all of them ---

const queue = [];
let skipped = 0;
for (const store of STORES)
  for (const scenario of book.scenarios) {
    if (!ONLY.test(scenario.id)) continue;
    if (scenario.edge && REFUSED_EDGES.has(scenario.id)) skipped += 1;
    else queue.push({ scenario, store });
  }
let passed = 0;
let failed = 0;
async function lane() {
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    let problems;
    try {
      problems = await play(next.scenario, next.store);
    } catch (error) {
      problems = [error.message];
    }
    if (problems.length === 0) passed += 1;
    else failed += 1;
    if (problems.length > 0 || VERBOSE)
      console.log([`${problems.length ? "FAIL" : "ok"} ${next.scenario.id} (${next.store})`, ...problems].join("\n    "));
  }
}
await Promise.all(Array.from({ length: LANES }, lane));
fs.rmSync(scratch, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed > 0 ? 1 : 0;
