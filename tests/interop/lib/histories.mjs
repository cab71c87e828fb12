// SPDX-License-Identifier: MIT
/* Random histories of the relay plane, for lib/pair.mjs: worlds, requests, and what may be wrong with a request. */
import { Paired, newParty } from "./pair.mjs";

/** Numbers from a seed, the same on every machine (mulberry32). */
export class Chance {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  below(n) {
    return Math.floor(this.next() * n);
  }

  one(list) {
    return list[this.below(list.length)];
  }

  in(probability) {
    return this.next() < probability;
  }

  some(list, probability) {
    return list.filter(() => this.in(probability));
  }
}

// --- bodies that JSON.stringify cannot write ---

/** A value written as this very text. */
class Raw {
  constructor(text) {
    this.text = text;
  }
}

/** A value with space around it. */
class Spaced {
  constructor(value) {
    this.value = value;
  }
}

/** An object by its members, in order, duplicates and all. */
class Members {
  constructor(members) {
    this.members = members;
  }
}

function write(value, own) {
  value = own(value);
  if (value instanceof Raw) return value.text;
  if (value instanceof Spaced) return `\n\t ${write(value.value, own)} \r`;
  if (value instanceof Members)
    return `{${value.members.map(([key, item]) => `${JSON.stringify(key)}:${write(item, own)}`).join(",")}}`;
  if (Array.isArray(value)) return `[${value.map((item) => write(item, own)).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return write(new Members(Object.entries(value).filter(([, item]) => item !== undefined)), own);
}

const NUMBERS = ["0", "-0", "1", "1.0", "1e0", "64", "65", "1e3", "1.5", "-1", "9007199254740991", "9007199254740992", "1e400", "-1e400", "5e-324",
  "4.1024448e12", "1.00000000000000000001", "0.99999999999999999999", "9007199254740991.4", "\"1\"", "true", "null", "1E2", "2e0", "64.0000000000000000001"];
const TEXTS = ["", " ", "\u0000", "é", "e\u0301", "задание-😀", "a\"b\\c/\b\f\n\r\t\u001f\u007f\u2028", "__proto__", "constructor", "x".repeat(300), "x".repeat(5000),
  "<b>&amp;</b>", "\ufeff", "$x", "%41", "a\u0000b", "null", "2", "llm.generate", "\uffff", "\u{10ffff}"];

/** Something wrong, or only odd, somewhere in a body. */
function damage(chance, value) {
  if (value === null || typeof value !== "object" || value instanceof Paired || value instanceof Raw || value instanceof Spaced || chance.in(0.1))
    return chance.one([
      () => new Raw(chance.one(NUMBERS)),
      () => chance.one(TEXTS),
      () => null,
      () => [],
      () => ({}),
      () => [value],
      () => true,
      () => new Spaced(value),
    ])();
  if (Array.isArray(value)) {
    const items = [...value];
    const at = chance.below(items.length + 1);
    if (chance.in(0.3) && items.length > 0) items.splice(at, 1);
    else if (chance.in(0.4) && items.length > 0) items.push(items[chance.below(items.length)]);
    else if (at < items.length) items[at] = damage(chance, items[at]);
    else items.push(chance.one([null, "x", {}, 1]));
    return items;
  }
  const members = value instanceof Members ? [...value.members] : Object.entries(value).filter(([, item]) => item !== undefined);
  const at = chance.below(members.length);
  if (members.length === 0 || chance.in(0.15))
    members.push([chance.one(["extra", "__proto__", "constructor", "toString", "", "protocolversion", "service", "deadlineAt ", "\u0000"]), chance.one([1, "x", null, {}, [1]])]);
  else if (chance.in(0.15)) members.splice(at, 1);
  else if (chance.in(0.15)) members.push([members[at][0], chance.in(0.5) ? members[at][1] : damage(chance, members[at][1])]);
  else if (chance.in(0.1)) members.unshift([members[at][0], null]);
  else members[at] = [members[at][0], damage(chance, members[at][1])];
  return new Members(members);
}

const WHOLE = ["", " ", "{", "[]", "null", "\"2\"", "2", "true", "{}", "[{}]", "{\"protocolVersion\":\"2\"} x", "{\"protocolVersion\":\"2\",}", "{'protocolVersion':'2'}",
  "{\"protocolVersion\":\"2\"}", "\ufeff{\"protocolVersion\":\"2\"}", " {\"protocolVersion\":\"2\"}\r\n\t ", "{\"protocolVersion\":\"\"}", "{\"protocolVersion\":2}", "{\"protocolVersion\":null}",
  "{\"protocolVersion\":\"1\"}", "{\"protocolVersion\":\"3\"}", "{\"protocolVersion\":\"10\"}", "{\"protocolVersion\":\" 2\"}", "{\"protocolVersion\":\"é\"}", "{\"protocolVersion\":\"2\\u0000\"}",
  "{\"protocolVersion\":\"\\\"\\\\\\n\"}", "{\"protocolVersion\":\"1\",\"protocolVersion\":\"2\"}", "{\"protocolVersion\":\"2\",\"protocolVersion\":\"1\"}", "NaN", "01", "1.", "\"\\x\"", "\"\t\"", "[1,]",
  "{\"protocol\\u0056ersion\":\"2\"}", "\v{}", "{\"protocolVersion\":\"\\ud83d\\ude00\"}", "{\"protocolVersion\":[\"2\"]}", "{\"protocolVersion\":{}}"];
const QUERIES = ["", "?", "?protocolVersion=2", "?protocolVersion=", "?protocolVersion", "?protocolVersion=%32", "?protocolVersion=+2", "?protocolVersion=2+", "?protocolVersion=3&protocolVersion=2",
  "?protocolVersion=2&protocolVersion=3", "?&&protocolVersion=2", "?protocol%56ersion=2", "?protocolVersion=%", "?protocolVersion=%3", "?protocolVersion=%zz", "?protocolVersion=%C3%A9", "?protocolVersion=%ff",
  "?protocolVersion=%00", "?protocolVersion=1", "?protocolVersion=10", "?protocolversion=2", "?protocolVersion==2", "?x=1;protocolVersion=2", "?protocolVersion=2;3", "?protocolVersion=%F0%9F%98%80",
  "?protocolVersion=%e2%82", "?protocolVersion=%ed%a0%80", "?protocolVersion=%c0%b2", "?protocolVersion=a%f0%90%80b", "?protocolVersion=%EF%BB%BF2", "?protocolVersion=%22%5c%0a%1f", "?protocolVersion=2&x=?y=1"];
const PATHS = ["/", "/byollm", "/byollm/", "/relay", "/relay/", "/byollm/claim/", "/byollm/CLAIM", "/byollm/cl%61im", "/byollm/nothing", "/relay/site", "/relay/site/", "/relay/site/pending/", "/relay/site/nothing",
  "/relay/site/Enqueue", "/Relay/site/enqueue", "/byollmx/claim", "/x/claim", "//byollm/claim", "/byollm/./claim", "/byollm/../byollm/claim", "/x/%2e%2e/byollm/claim", "/byollm/.../nothing", "/byollm/claim/.",
  "/byollm/claim/..", "/byollm/x/../claim", "/relay/site/../../byollm/pair", "/../byollm/claim", "/byollm/..%2fclaim", "/byollm/claim;x", "/byollm/pair%00", "/relay/site/./pending", "/byollm/%63laim", "/hub/claim",
  "/hub", "/hub/", "/hub/nothing", "/debug", "/byollm/debug", "/hub/debug", "/debug/", "/byollm/claim/../../debug", "/...", "/byollm/.../nothing", "/.", "/..", "/byollm/.%2e/hub/claim"];
const ENDPOINTS = { device: ["pair", "claim", "fetch", "result", "heartbeat", "release"], site: ["enqueue", "payload", "cancel", "pending", "results"] };

// --- worlds ---

const OWNERS = ["alice", "bob", "mia", "Ünï"];
const STEADY_MS = 4_102_444_800_000;
const BACKENDS = ["ollama", "mlx", "openai-http", "claude-cli"];
const KINDS = ["llm.generate", "llm.chat"];
const SERVICES = ["echo", "gpu"];
const PURPOSES = [undefined, "default", "summaries"];

export class History {
  constructor(seed) {
    this.chance = new Chance(seed);
    this.likely = ["pair", "enqueue"]; // what a peaceful party would do next
    this.leases = []; // {jobId, leaseId, runner}, old ones too
    this.codes = [];
    this.parties = Array.from({ length: 14 }, newParty);
    const p = this.parties;
    this.control = p[0];
    this.sites = ["site_a", "site_b", "Z/\u{1f600}", "\uff5e"].map((id, i) => ({ id, party: p[1 + i], old: p[5 + i] })).slice(0, 2 + this.chance.below(2));
    this.devices = [["alice", "runner_alice"], ["alice", "runner_alice2"], ["bob", "runner_bob"], ["mia", "runner_mia"]].map(
      ([owner, runnerId], i) => ({ owner, runnerId, party: p[9 + i] }),
    );
    this.newcomer = p[13];
    this.jobIds = [...Array.from({ length: 30 }, (_, i) => `j${i}`), "é", "e\u0301", "a\u0000b", "j".repeat(200)];
  }

  fixture() {
    const c = this.chance;
    const pairs = OWNERS.flatMap((owner) => this.sites.map((site) => ({ owner, siteId: site.id })));
    const link = (site) => ({ identity: site.old.identity, signature: site.old.sign(`byollm/v1/site-succession:${site.old.keyId}:${site.party.keyId}`) });
    return {
      sites: c.some(this.sites, 0.95).map((site) => ({
        siteId: site.id,
        site: site.party.identity,
        ...(c.in(0.3) ? { succeeds: c.in(0.8) ? [link(site)] : [] } : {}),
        ...(c.in(0.3) ? { retiringUntil: this.nowMs + c.one([-1, 0, 1, 10_000, 60_000, 700_000]) } : {}),
      })),
      consents: c.some(pairs, 0.8).map((pair) => ({ ...pair, ...(c.in(0.5) ? { paused: c.in(0.15) } : {}) })),
      devices: [
        ...c.some(this.devices, 0.95).map(({ owner, runnerId, party }) => ({ owner, runnerId, device: party.identity, ...(c.in(0.3) ? { revoked: c.in(0.15) } : {}) })),
        ...(c.in(0.3) ? [{ owner: c.one(OWNERS), runnerId: "runner_new", device: this.newcomer.identity }] : []),
      ],
      rosters: [
        ...(c.in(0.6) ? [{ id: "r1", owner: "alice", members: c.some(OWNERS, 0.6) }] : []),
        ...(c.in(0.2) ? [{ id: "r2", owner: "mia", members: ["alice", "alice", "nobody"] }] : []),
      ],
      revoked: c.some(pairs, 0.05),
    };
  }

  newPolicy() {
    const c = this.chance;
    const mapping = () => ({ purpose: c.one(["default", "summaries"]), kind: c.one(KINDS), service: c.one(SERVICES), owner: c.one([null, null, ...OWNERS]) });
    return {
      consents: OWNERS.flatMap((user) =>
        c.some(this.sites, 0.85).map((site) => ({
          siteId: site.id,
          user,
          mappings: Array.from({ length: c.below(5) }, mapping),
          ...(c.in(0.5) ? { paused: c.in(0.2) } : {}),
        })),
      ),
      members: OWNERS.flatMap((user) => (c.in(0.5) ? [{ owner: "alice", user }] : [])),
      ...(c.in(0.4) ? { declares: { [c.one(this.sites).id]: c.some(["default", "summaries"], 0.6) } } : {}),
      ...(c.in(0.4) ? { advertising: OWNERS.map((owner) => ({ owner, service: c.one(SERVICES) })) } : {}),
      ...(c.in(0.1) ? { unavailable: true } : {}),
    };
  }

  config() {
    const c = this.chance;
    const plane = c.in(0.5);
    return {
      ...(c.in(0.3) ? { leaseMs: c.one([1000, 10_000, 25_000]) } : {}),
      ...(c.in(0.7) ? { verificationUrl: "https://example.org/devices?x=\"1\"" } : {}),
      ...(c.in(0.4) ? { updateOffer: c.one(["0.1.1", "0.2.0-beta.1", "v1", "latest"]) } : {}),
      ...(c.in(0.4) ? { daemonFloor: c.one(["0.1.0", "0.1.0-alpha.83", "junk"]) } : {}),
      ...(c.in(0.15) ? { basePath: c.one(["/hub/", "/hub"]) } : {}),
      ...(c.in(0.1) ? { debug: true } : {}),
      ...(plane ? { control: this.control, grants: c.in(0.8), asks: c.in(0.4), policy: this.newPolicy() } : {}),
    };
  }

  begin(pair) {
    this.pair = pair;
    this.base = (pair.config.basePath ?? "/byollm").replace(/\/+$/, "");
  }

  get nowMs() {
    return this.pair?.nowMs ?? 1_760_000_000_000;
  }

  // --- requests ---

  stub(site) {
    const c = this.chance;
    const purpose = c.one(PURPOSES);
    return {
      id: c.one(this.jobIds),
      kind: c.one(KINDS),
      owner: c.one(["alice", "alice", ...OWNERS]),
      site: c.in(0.96) ? site.party.keyId : site.old.keyId,
      audience: c.one(["private", "team", "team"]),
      ...(purpose === undefined ? {} : { purpose }),
      sizeClass: c.one(["small", "medium", "large", "unbounded"]),
      streaming: c.in(0.5),
      deadlineAt: c.in(0.85) ? STEADY_MS : this.nowMs + c.one([-1, 0, 1, 9_999, 10_000, 30_000, 60_000]) || 1,
    };
  }

  capability() {
    const c = this.chance;
    return {
      kind: c.one(KINDS),
      service: c.one(SERVICES),
      backendId: c.one(BACKENDS),
      backendClass: c.one(["http", "process"]),
      model: "m1",
      ...(c.in(0.2) ? { knownModels: c.some(["m1", "m2"], 0.5) } : {}),
      offerScope: c.one(["private", "team"]),
    };
  }

  capabilities() {
    return Array.from({ length: this.chance.one([0, 2, 5, 5, 5]) }, () => this.capability());
  }

  envelope(direction) {
    const c = this.chance;
    return {
      ciphertext: c.one(["AAAA", "not base64 !", "é😀\"\\", "x".repeat(1000)]),
      recipientKeyId: "BYOLLM-1",
      senderKeyId: "BYOLLM-2",
      direction: c.in(0.9) ? direction : c.one(["payload", "result"]),
      deadlineAt: c.one([1, STEADY_MS]),
    };
  }

  /** A lease as somebody may name it: mostly one that was granted, not always to this runner, not always still. */
  lease(device) {
    const c = this.chance;
    const own = this.leases.filter((l) => l.runner === device.runnerId);
    const from = c.in(0.8) && own.length > 0 ? own : this.leases;
    if (from.length === 0 || c.in(0.05)) return { jobId: c.one(this.jobIds), leaseId: c.one(["nothing", "é"]) };
    const lease = c.one(from.slice(-c.one([1, 2, 4, 12])));
    return { jobId: c.in(0.95) ? lease.jobId : c.one(this.jobIds), leaseId: c.in(0.96) ? lease.leaseId : c.one(from).leaseId };
  }

  leaseList(device) {
    const list = Array.from({ length: this.chance.below(6) }, () => this.lease(device));
    return this.chance.in(0.2) ? [...list, ...list] : list;
  }

  deviceBody(endpoint, device) {
    const c = this.chance;
    const head = { protocolVersion: "2", runnerId: c.in(0.97) ? device.runnerId : "runner_other" };
    switch (endpoint) {
      case "claim":
        return { ...head, capabilities: this.capabilities(), max: c.one([1, 1, 2, 3, 64, 64, 0, 65]) };
      case "fetch":
        return { ...head, ...this.lease(device) };
      case "result":
        return { ...head, ...this.lease(device), envelope: this.envelope("result"), disposition: c.one(["ok", "error", "canceled"]) };
      case "heartbeat":
        return {
          ...head,
          daemonVersion: c.one(["0.1.1", "0.1.0", "0.0.9", "0.1.0-alpha.82", "0.1.0-alpha.83", "0.1.0-alpha.9", "1.0.0+x", "dev", "01.1.1"]),
          capabilities: this.capabilities(),
          ...(c.in(0.2) ? { withheld: [{ kind: c.one(KINDS), claimants: [{ service: "echo", offer: "team" }, { service: "gpu", offer: "private" }] }] } : {}),
          activeLeases: this.leaseList(device),
        };
      case "release":
        return { ...head, leases: this.leaseList(device), reason: c.one(["shutdown", "pause", "revoked", "backend-down", "refused", "refused"]) };
      default:
        throw new Error(endpoint);
    }
  }

  pairBody() {
    const c = this.chance;
    const party = c.in(0.6) ? this.newcomer : c.one(this.parties);
    const device = c.in(0.9) ? party.identity : { ...party.identity, encryptionSig: this.control.identity.encryptionSig };
    if (c.in(0.4))
      return {
        protocolVersion: "2",
        action: "start",
        daemon: { version: "0.1.1", label: c.one(["laptop", "é".repeat(120), "😀".repeat(120), "😀".repeat(121), "a\u0000b"]), platform: c.one(["darwin", "linux", "win32"]) },
        device,
        capabilities: this.capabilities(),
      };
    if (c.in(0.6)) return { protocolVersion: "2", action: "poll", deviceCode: this.codes.length > 0 && c.in(0.9) ? c.one(this.codes.slice(-4)) : c.one(["x".repeat(19), "x".repeat(20), "😀".repeat(20), "😀".repeat(19)]) };
    return { protocolVersion: "2", owner: c.one([...OWNERS, "nobody"]), device };
  }

  siteBody(endpoint, site, claimed) {
    const c = this.chance;
    const head = { protocolVersion: "2", siteId: c.in(0.97) ? site.id : c.one(this.sites).id };
    switch (endpoint) {
      case "enqueue":
        return { ...head, stub: this.stub(site) };
      case "payload":
        return { ...head, jobId: claimed?.jobId ?? c.one(this.jobIds), envelope: this.envelope("payload") };
      case "cancel":
        return { ...head, jobId: c.one(this.jobIds) };
      default:
        return undefined;
    }
  }

  /** What a signature may suffer. */
  spoiled(sign) {
    const c = this.chance;
    if (!c.in(0.06)) return sign;
    return c.one([
      { ...sign, skewMs: c.one([-120_001, -120_000, 120_000, 120_001, 1]) },
      { ...sign, endpoint: c.one(["claim", "fetch", "site/enqueue", "x"]) },
      { ...sign, plane: sign.plane === "site" ? "device" : "site" },
      { ...sign, sign: c.one(this.parties).sign },
      { ...sign, id: c.one(["nobody", "site_a", "runner_alice", "runner_bob"]) },
      { ...sign, without: c.some([0, 1, 2], 0.4) },
      { ...sign, signature: c.one([() => "", () => "x", (s) => s.slice(1), (s) => `${s}A`, (s) => `${s}AAAA`, (s) => `${s}==`]) },
      { ...sign, issued: c.one([() => "", () => "abc", () => "0", () => "1.5", () => "1e16", (ms) => `00${ms}`, () => "-5", () => "Infinity", () => "9007199254740993", (ms) => [ms, ms]]) },
    ]);
  }

  deviceRequest(endpoint) {
    const c = this.chance;
    const last = this.leases.at(-1);
    const holder = endpoint !== "claim" && c.in(0.7) && this.devices.find((d) => d.runnerId === last?.runner);
    const device = holder || (c.in(0.97) ? c.one(this.devices) : { runnerId: "runner_new", party: this.newcomer });
    const sign = this.spoiled({ plane: "device", id: device.runnerId, sign: device.party.sign });
    return { ...this.posted(`${this.base}/${endpoint}`, endpoint === "pair" ? this.pairBody() : this.deviceBody(endpoint, device)), sign: endpoint === "pair" && c.in(0.9) ? undefined : sign, device, endpoint };
  }

  siteRequest(endpoint) {
    const c = this.chance;
    const claimed = endpoint === "payload" && c.in(0.9) ? this.leases.at(-1 - c.one([0, 0, 0, 1, 2])) : undefined;
    const site = this.sites.find((s) => s.party.keyId === claimed?.site) ?? c.one(this.sites);
    const sign = this.spoiled({ plane: "site", id: site.id, sign: (c.in(0.9) ? site.party : site.old).sign });
    // Headers hold no such ids.
    if (/[^\x20-\x7e]/.test(site.id)) return this.siteRequest(endpoint);
    if (endpoint === "pending" || endpoint === "results") {
      const id = c.in(0.95) ? encodeURIComponent(site.id) : c.one(["", "site_b", "site%5Fa", "SITE_A", "site_a&siteId=site_b"]);
      return { method: c.in(0.95) ? "GET" : c.one(["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]), target: `/relay/site/${endpoint}?siteId=${id}&protocolVersion=2`, sign, endpoint };
    }
    return { ...this.posted(`/relay/site/${endpoint}`, this.siteBody(endpoint, site, claimed)), sign, endpoint, claimed };
  }

  posted(target, value) {
    const c = this.chance;
    if (c.in(0.08)) value = damage(c, value);
    if (c.in(0.02)) value = damage(c, damage(c, value));
    let body = (own) => write(value, own);
    if (c.in(0.02)) {
      const text = c.one(WHOLE);
      body = () => text;
    }
    const method = c.in(0.985) ? "POST" : c.one(["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]);
    const query = c.in(0.05) ? c.one(QUERIES) : "";
    return { method, target: target + query, body: method === "GET" || method === "HEAD" ? undefined : body, told: { method, target: target + query, value } };
  }

  /** Anything at all, anywhere. */
  strayRequest() {
    const c = this.chance;
    const known = [...ENDPOINTS.device.map((name) => `/byollm/${name}`), ...ENDPOINTS.site.map((name) => `/relay/site/${name}`)];
    const target = (c.in(0.5) ? c.one(PATHS) : c.one(known)) + c.one(QUERIES);
    const method = c.one(["GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]);
    const text = c.one(WHOLE);
    const sign = c.in(0.5) ? undefined : c.in(0.5) ? { plane: "device", id: "runner_alice", sign: this.devices[0].party.sign } : { plane: "site", id: "site_a", sign: this.sites[0].party.sign };
    return { method, target, body: method === "GET" || method === "HEAD" ? undefined : () => text, sign, told: { method, target, text, sign: sign?.id } };
  }

  // --- steps ---

  async step() {
    const c = this.chance;
    const roll = c.next();
    if (roll < 0.06) {
      await this.pair.advance(c.one([1, 1, 1, 999, 1000, 1000, 9_999, 10_000, 10_001, 29_999, 30_000, 60_000, c.below(20_000), c.in(0.3) ? 600_000 : 1]));
    } else if (roll < 0.07) {
      await this.pair.project(this.fixture());
    } else if (roll < 0.08) {
      if (this.pair.policy !== undefined) await this.pair.setPolicy(this.newPolicy());
    } else if (roll < 0.11) {
      await this.pair.exchange(this.strayRequest());
    } else {
      const names = ["enqueue", "enqueue", "enqueue", "enqueue", "claim", "claim", "claim", "payload", "payload", "payload", "fetch", "fetch", "result", "result", "heartbeat", "heartbeat", "release", "pair", "cancel", "pending", "results"];
      const endpoint = c.in(0.5) ? c.one(this.likely) : c.one(names);
      const request = ENDPOINTS.device.includes(endpoint) ? this.deviceRequest(endpoint) : this.siteRequest(endpoint);
      const answer = await this.pair.exchange(request);
      if (endpoint !== "pair") this.likely = names;
      if (answer.status !== 200 || answer.json === undefined) return;
      for (const job of (endpoint === "claim" && answer.json.jobs) || []) this.leases.push({ jobId: job.id, leaseId: job.lease.id, site: job.site, runner: request.device.runnerId });
      if (endpoint === "claim" && answer.json.jobs.length > 0) this.likely = ["payload", "payload", "heartbeat"];
      if (endpoint === "enqueue") this.likely = ["claim", "enqueue"];
      if (endpoint === "payload") this.likely = ["fetch", "fetch", "heartbeat"];
      if (endpoint === "fetch") this.likely = ["result", "result", "fetch", "release"];
      // What was sealed is what a device would fetch next.
      if (endpoint === "payload" && request.claimed !== undefined) this.leases.push({ ...request.claimed });
      if (answer.json.deviceCode !== undefined) this.codes.push(answer.json.deviceCode);
    }
  }
}
