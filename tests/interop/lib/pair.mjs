// SPDX-License-Identifier: MIT
/*
 * The reference relay and lessord side by side: the same world, the same clock, the same requests; their answers must
 * be equal but for the texts that each makes up by itself (lease ids, codes, grants), which are paired when first seen.
 */
import assert from "node:assert/strict";
import crypto from "node:crypto";
import fs from "node:fs/promises";
import http from "node:http";
import os from "node:os";
import path from "node:path";

import { Relay } from "@byollm/relay";

import { Process } from "./process.mjs";
import { BUILD } from "./world.mjs";

/** A build with test hooks: these servers' clock is ours. */
const HOOKS_BUILD = process.env.LESSOR_HOOKS_BUILD ?? path.join(BUILD, "../build-hooks");
const START_MS = 1_760_000_000_000;

// --- keys and signatures ---

const SPKI = Buffer.from("302a300506032b6570032100", "hex");
const rawPublic = (key) => key.export({ format: "der", type: "spki" }).subarray(-32).toString("base64url");

/** A party: its private key, and what others may know of it. */
export function newParty() {
  const signing = crypto.generateKeyPairSync("ed25519");
  const encryption = rawPublic(crypto.generateKeyPairSync("x25519").publicKey);
  const sign = (text) => crypto.sign(null, Buffer.from(text), signing.privateKey).toString("base64url");
  const stored = (key) => key.export({ format: "der", type: "pkcs8" }).toString("base64");
  const identity = {
    identity: rawPublic(signing.publicKey),
    encryption,
    encryptionSig: sign(`byollm/v1/encryption-key:${encryption}`),
  };
  return { sign, identity, keyId: keyIdOf(identity.identity), identityPrivate: stored(signing.privateKey) };
}

export function keyIdOf(identity) {
  const bits = [...crypto.createHash("sha256").update(Buffer.from(identity, "base64url")).digest().subarray(0, 15)]
    .map((byte) => byte.toString(2).padStart(8, "0"))
    .join("");
  const symbols = bits.match(/.{5}/g).map((five) => "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[parseInt(five, 2)]);
  return `BYOLLM-${symbols.join("").match(/.{4}/g).join("-")}`;
}

/** Their StoredKeys, for the one party that lessord signs as. */
export const storedKeys = (party) => ({
  version: 1,
  identityPublic: party.identity.identity,
  identityPrivate: party.identityPrivate,
  encryptionPublic: party.identity.encryption,
  encryptionPrivate: crypto.generateKeyPairSync("x25519").privateKey.export({ format: "der", type: "pkcs8" }).toString("base64"),
  encryptionSig: party.identity.encryptionSig,
  createdAt: START_MS,
});

// --- the control plane that the reference asks (relay-protocol 11) ---

const GRANT_FIELDS = ["grantId", "issuedAt", "jobId", "kind", "owner", "purpose", "service", "site", "user"];
const statementOf = (grant) => JSON.stringify(["byollm/v1/grant", ...GRANT_FIELDS.map((name) => grant[name])]);

const consentOf = (policy, siteId, user) => policy.consents.find((c) => c.siteId === siteId && c.user === user);
const fits = (mapping, purpose, kind) => mapping.purpose === purpose && mapping.kind === kind;

function decide(policy, { job, siteId, siteKey, purpose = "default", owner, capabilities }, sign, nowMs) {
  const declined = (permanent, reason) => ({ declined: { permanent, reason } });
  if (policy.unavailable) return declined(false, "store-unavailable");
  const user = job.owner;
  const consent = consentOf(policy, siteId, user);
  if (consent === undefined) return declined(true, "not-consented");
  if (consent.paused) return declined(false, "consent-paused");
  if (user !== owner && !(policy.members ?? []).some((m) => m.owner === owner && m.user === user))
    return declined(true, "not-a-member");
  const mapping = consent.mappings.find((m) => fits(m, purpose, job.kind));
  if (mapping === undefined) return declined(false, "unmapped");
  if ((mapping.owner ?? user) !== owner) return declined(false, "resolved-elsewhere");
  const serves = (c) => c.kind === job.kind && c.service === mapping.service && (user === owner || c.offerScope === "team");
  if (!capabilities.some(serves)) return declined(false, "resolved-elsewhere");
  const grant = {
    ...{ grantId: `grant_${crypto.randomUUID()}`, jobId: job.id, site: siteKey, user, owner, purpose },
    ...{ kind: job.kind, service: mapping.service, issuedAt: nowMs },
  };
  return { granted: { ...grant, signature: sign(statementOf(grant)) } };
}

function satisfiable(policy, { siteId, owner: user, purpose = "default", kind }) {
  if (policy.unavailable) throw new Error("unavailable");
  const declared = policy.declares?.[siteId];
  if (declared !== undefined && !declared.includes(purpose)) return { verdict: "not-declared" };
  const mappings = (consentOf(policy, siteId, user)?.mappings ?? []).filter((m) => fits(m, purpose, kind));
  if (mappings.length === 0) return { verdict: "unmapped" };
  const up = (m) => policy.advertising.some((a) => a.owner === (m.owner ?? user) && a.service === m.service);
  if (policy.advertising !== undefined && !mappings.some(up)) return { verdict: "waiting" };
  return { verdict: "ok" };
}

// --- the two servers ---

const SIDES = ["reference", "lessord"];

/** A text that each side made up. In a request, every side gets its own. */
export class Paired {
  constructor(reference, lessord) {
    this.reference = reference;
    this.lessord = lessord;
  }
}

const isMadeUp = (key, holder) =>
  key === "leaseId" || key === "grantId" || key === "deviceCode" || key === "userCode" ||
  (key === "id" && holder.runnerId !== undefined) || (key === "signature" && holder.grantId !== undefined);

export class Pair {
  #reference;
  #process;
  #agent = new http.Agent({ keepAlive: true });
  #pairs = { reference: new Map(), lessord: new Map() };
  nowMs = START_MS;
  /** How often which path was answered with which status. */
  seen = new Map();

  /** config: leaseMs, verificationUrl, updateOffer, daemonFloor, basePath, debug; policy with the signer `control`. */
  static async make({ fixture, config = {}, store = "memory" }) {
    const pair = new Pair();
    await pair.#start(fixture, config, store);
    return pair;
  }

  async #start(fixture, config, store) {
    this.dir = await fs.mkdtemp(path.join(os.tmpdir(), "lessor-differential-"));
    this.config = config;
    this.policy = config.policy;
    const { control, policy, grants, asks, ...options } = config;
    this.#reference = new Relay({
      fixture,
      now: () => this.nowMs,
      ...options,
      ...(grants
        ? {
            controlPlanePublic: control.identity.identity,
            authorGrant: (question) => decide(this.policy, question, control.sign, this.nowMs),
          }
        : {}),
      ...(asks ? { satisfiable: (question) => satisfiable(this.policy, question) } : {}),
    });
    const file = async (name, value) => {
      await fs.writeFile(path.join(this.dir, name), JSON.stringify(value), { mode: 0o600 });
      return path.join(this.dir, name);
    };
    const words = ["--listen", "127.0.0.1:0", "--data", path.join(this.dir, "data"), "--store", store];
    words.push("--log-level", "error", "--threads", "1", "--projection", await file("projection.json", fixture));
    const flags = { leaseMs: "lease-ms", verificationUrl: "verification-url", updateOffer: "update-offer" };
    Object.assign(flags, { daemonFloor: "daemon-floor", basePath: "base-path" });
    for (const [name, flag] of Object.entries(flags)) if (options[name] !== undefined) words.push(`--${flag}`, String(options[name]));
    if (options.debug) words.push("--debug");
    if (grants) words.push("--grant-key", await file("grant-key.json", storedKeys(control)));
    if (policy !== undefined) words.push("--policy", await file("policy.json", policy));
    if (asks) words.push("--satisfiable");
    this.#process = new Process("lessord", path.join(HOOKS_BUILD, "lessord"), words, { env: { LESSOR_TEST_NOW_MS: String(START_MS) } });
    this.port = Number((await this.#process.saw(/^listening on http:\/\/\S+:(\d+)$/m))[1]);
  }

  async end() {
    this.#agent.destroy();
    const status = await this.#process.stop();
    await fs.rm(this.dir, { recursive: true, force: true });
    assert.equal(status, 0, this.#process.output);
  }

  // --- both at once ---

  async advance(ms) {
    this.nowMs += ms;
    await this.#hook("advance", { advance: ms });
  }

  async project(fixture) {
    this.#reference.project(fixture);
    await this.#hook("project", fixture);
  }

  async setPolicy(policy) {
    this.policy = policy;
    await this.#hook("policy", policy);
  }

  async #hook(name, value) {
    const answer = await this.#sendOurs({ method: "POST", target: `/test/${name}`, headers: {}, body: Buffer.from(JSON.stringify(value)) });
    assert.equal(answer.status, 200, answer.text);
  }

  /**
   * One request to both. `body(own)` makes the text of the body, where own(paired) is the side's own text; `sign` is
   * {plane, id, sign} and what is wrong with it: skewMs, endpoint, issued, signature, without. Returns the reference's answer, with the pairs in place.
   */
  async exchange(request) {
    const answers = await Promise.all(SIDES.map((side) => this.#answer(side, request)));
    const [reference, lessord] = answers;
    const told = () => `${JSON.stringify({ sign: request.sign, ...(request.told ?? { target: request.target }) })}\nreference ${reference.status} ${reference.text.slice(0, 2000)}\nlessord   ${lessord.status} ${lessord.text.slice(0, 2000)}`;
    assert.equal(lessord.status, reference.status, told());
    const kind = `${reference.status} ${request.target.split("?")[0]}`;
    this.seen.set(kind, (this.seen.get(kind) ?? 0) + 1);
    if (request.method === "HEAD") return { status: reference.status };
    assert.equal(lessord.type, reference.type, told());
    if (!reference.type.startsWith("application/json")) return { status: reference.status };
    return { status: reference.status, json: this.#match(JSON.parse(reference.text), JSON.parse(lessord.text), "", told) };
  }

  #match(reference, lessord, where, told) {
    if (Array.isArray(reference)) {
      assert.ok(Array.isArray(lessord) && lessord.length === reference.length, `${where}: ${told()}`);
      return reference.map((item, i) => this.#match(item, lessord[i], `${where}[${i}]`, told));
    }
    if (reference === null || typeof reference !== "object") {
      assert.deepEqual(lessord, reference, `${where}: ${told()}`);
      return reference;
    }
    assert.ok(lessord !== null && typeof lessord === "object" && !Array.isArray(lessord), `${where}: ${told()}`);
    assert.deepEqual(Object.keys(lessord).sort(), Object.keys(reference).sort(), `${where}: ${told()}`);
    return Object.fromEntries(
      Object.entries(reference).map(([key, value]) => [
        key,
        isMadeUp(key, reference) && typeof value === "string"
          ? this.#pairUp(value, lessord[key], `${where}.${key}`, told)
          : this.#match(value, lessord[key], `${where}.${key}`, told),
      ]),
    );
  }

  #pairUp(reference, lessord, where, told) {
    const known = this.#pairs.reference.get(reference);
    if (known !== undefined || this.#pairs.lessord.has(lessord)) {
      assert.equal(this.#pairs.lessord.get(lessord), known, `${where}: ${told()}`);
      return known;
    }
    // Not made up after all: an id that the request named and nobody knows.
    if (reference === lessord) return reference;
    assert.equal(typeof lessord, "string", `${where}: ${told()}`);
    const pair = new Paired(reference, lessord);
    this.#pairs.reference.set(reference, pair);
    this.#pairs.lessord.set(lessord, pair);
    return pair;
  }

  #answer(side, request) {
    const own = (value) => (value instanceof Paired ? value[side] : value);
    const body = request.body === undefined ? undefined : Buffer.from(request.body(own));
    const headers = { ...request.headers, ...this.#signature(request, body) };
    const outgoing = { method: request.method, target: request.target, headers, body };
    return side === "reference" ? this.#askReference(outgoing) : this.#sendOurs(outgoing);
  }

  #signature({ method, target, sign }, body) {
    if (sign === undefined) return {};
    const issued = String(this.nowMs + (sign.skewMs ?? 0));
    const pathOnly = target.split("?", 1)[0];
    const last = sign.endpoint ?? pathOnly.slice(pathOnly.lastIndexOf("/") + 1);
    const text = method === "POST" ? new TextDecoder().decode(body ?? new Uint8Array()) : "";
    const lines = [
      "byollm/v1/request",
      sign.plane === "site" ? `site/${last}` : last,
      sign.id,
      issued,
      crypto.createHash("sha256").update(text).digest("hex"),
    ];
    const headers = {
      [sign.plane === "site" ? "x-byollm-site" : "x-byollm-runner"]: sign.header ?? sign.id,
      "x-byollm-issued-at": sign.issued?.(issued) ?? issued,
      "x-byollm-signature": sign.signature?.(sign.sign(lines.join("\n"))) ?? sign.sign(lines.join("\n")),
    };
    return Object.fromEntries(Object.entries(headers).filter((_, i) => !sign.without?.includes(i)));
  }

  async #askReference({ method, target, headers, body }) {
    const all = new Headers();
    for (const [name, value] of Object.entries(headers)) for (const one of [value].flat()) all.append(name, one);
    const request = new Request(`http://127.0.0.1${target}`, {
      method,
      headers: all,
      body: method === "GET" || method === "HEAD" ? undefined : body,
    });
    const answer = await this.#reference.handle(request);
    return { status: answer.status, type: answer.headers.get("content-type"), text: await answer.text() };
  }

  #sendOurs({ method, target, headers, body }) {
    return new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": String(body.length) };
      const request = http.request({ agent: this.#agent, host: "127.0.0.1", port: this.port, method, path: target, headers: { ...headers, ...length } });
      request.on("response", (response) => {
        const parts = [];
        response.on("data", (part) => parts.push(part));
        response.on("error", reject);
        response.on("end", () =>
          resolve({ status: response.statusCode, type: response.headers["content-type"] ?? "", text: Buffer.concat(parts).toString("utf8") }),
        );
      });
      request.on("error", reject);
      request.end(body);
    });
  }
}
