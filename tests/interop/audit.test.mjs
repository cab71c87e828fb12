// SPDX-License-Identifier: MIT
// The peers' audit of a deployment, on lessord with TLS behind an edge, as a public relay stands.
import assert from "node:assert/strict";
import fs from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { Edge, EDGE_ADDRESS, get } from "./lib/edge.mjs";
import { run } from "./lib/process.mjs";
import { HERE, World } from "./lib/world.mjs";

const NAME = "relay.example";
const ORIGIN = "192.0.2.10"; // only a word: lib/dial.mjs leads from here to lessord
const CERT_DAYS = 365;

let world;
let ca;
let originPort;
let redirectPort;
let edge;

/** An authority of the test's own, and what it certifies for the relay's name. */
async function certify(directory) {
  const at = (file) => path.join(directory, file);
  const openssl = (...args) => run("openssl", args);
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  await openssl("req", "-x509", ...key, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-days", String(CERT_DAYS), "-subj", "/CN=test");
  await openssl("req", ...key, "-keyout", at("tls.key"), "-out", at("tls.csr"), "-subj", `/CN=${NAME}`);
  await fs.writeFile(at("names"), `subjectAltName=DNS:${NAME}`);
  const by = ["-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", String(CERT_DAYS), "-extfile", at("names")];
  await openssl("x509", "-req", "-in", at("tls.csr"), "-out", at("tls.pem"), ...by);
  await fs.chmod(at("tls.key"), 0o600);
}

before(async () => {
  world = await World.make({
    prepare: (w) => certify(w.dir),
    args: (w) => [
      ...["--tls-cert", w.at("tls.pem"), "--tls-key", w.at("tls.key")],
      ...["--redirect-listen", "127.0.0.1:0", "--allow-from", EDGE_ADDRESS],
    ],
  });
  ca = await fs.readFile(world.at("ca.pem"));
  originPort = Number(new URL(world.relay).port);
  redirectPort = Number((await world.server.saw(/^redirecting on port (\d+)$/m))[1]);
  const [cert, key] = await Promise.all(["tls.pem", "tls.key"].map((file) => fs.readFile(world.at(file))));
  edge = await new Edge().start({ name: NAME, cert, key, originPort, originCa: ca });
  world.atEnd(() => edge.stop());
});
after(() => world?.end());

test("byollm-audit-deployment finds no fault and leaves nothing unmeasured", async () => {
  const dial = { [`${NAME}:443`]: edge.port, [`${NAME}:80`]: redirectPort, [`${ORIGIN}:443`]: originPort };
  const report = await run(
    process.execPath,
    [
      ...["--import", pathToFileURL(path.join(HERE, "lib/dial.mjs")).href],
      ...[path.join(HERE, "node_modules/@byollm/conformance/dist/audit-cli.js"), `https://${NAME}`, "/byollm", ORIGIN],
    ],
    { env: { LESSOR_DIAL: JSON.stringify(dial), NODE_EXTRA_CA_CERTS: world.at("ca.pem") } },
  );
  assert.match(report, /a stranger got nowhere/);
  assert.doesNotMatch(report, /^ {2}(FAIL|\?)/m);
  assert.equal(report.match(/^ {2}ok /gm).length, 11, report);
  assert.match(report, /the origin answered 403 to a direct request/);
  assert.match(report, /redirects to https/);
});

test("who goes round the edge is refused, and who comes by it is not", async () => {
  const stranger = await get(originPort, "/health/live", { tls: true, name: NAME, ca });
  assert.equal(stranger.statusCode, 403);
  const guest = await get(edge.port, "/health/live", { tls: true, name: NAME, ca });
  assert.equal(guest.statusCode, 200);
});

test("plain HTTP leads to https, and takes nothing", async () => {
  const led = await get(redirectPort, "/relay/site/results?siteId=a&b", { name: `${NAME}:8080` });
  assert.equal(led.statusCode, 308);
  assert.equal(led.headers.location, `https://${NAME}/relay/site/results?siteId=a&b`);
  const headers = { "content-type": "application/json" };
  const taken = await fetch(`http://127.0.0.1:${redirectPort}/byollm/claim`, { method: "POST", headers, body: "{}" });
  assert.equal(taken.status, 403);
});
