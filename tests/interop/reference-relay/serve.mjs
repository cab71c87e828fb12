// SPDX-License-Identifier: MIT
/*
 * Serves the reference relay (npm @byollm/relay) over HTTP, for tests and benchmarks. Loopback only.
 *
 *   node serve.mjs [--port N] [--fixture FILE] [--lease-ms N] [--verification-url URL] [--grant-key FILE]
 *
 * --port              0 (the default) picks a free one; the line `listening on http://127.0.0.1:PORT` says which
 * --fixture           a RelayFixture in JSON; nothing consented without it
 * --verification-url  offers pairing by code; default http://127.0.0.1/approve, "" turns it off
 * --grant-key         StoredKeys of a control plane: every claimed job then gets a grant that maps it to the first
 *                     of the device's services for that kind
 *
 * Beside the protocol, and only here: `POST /test/project` with a RelayFixture replaces the projection, and
 * `GET /test/pairings` lists the identities of the devices that have asked for a code, so that a test can approve
 * them. The package is found as usual, or at the path in LESSOR_REFERENCE_RELAY. SIGTERM ends it.
 */
import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    fixture: { type: "string" },
    "lease-ms": { type: "string" },
    "verification-url": { type: "string", default: "http://127.0.0.1/approve" },
    "grant-key": { type: "string" },
  },
});

const { Relay } = await import(process.env.LESSOR_REFERENCE_RELAY ?? "@byollm/relay");
const readJson = (file) => JSON.parse(fs.readFileSync(file, "utf8"));

const asked = []; // identities that asked for a pairing code

function controlPlane(keyFile) {
  const keys = readJson(keyFile);
  const key = crypto.createPrivateKey({
    key: Buffer.from(keys.identityPrivate, "base64"),
    format: "der",
    type: "pkcs8",
  });
  const sign = (grant) => {
    const names = Object.keys(grant).sort();
    const statement = JSON.stringify(["byollm/v1/grant", ...names.map((name) => grant[name])]);
    return { ...grant, signature: crypto.sign(null, Buffer.from(statement), key).toString("base64url") };
  };
  const authorGrant = ({ job, siteKey, purpose, owner, capabilities }) => {
    const fits = (c) => c.kind === job.kind && (job.owner === owner || c.offerScope === "team");
    const capability = capabilities.find(fits);
    if (capability === undefined) return { declined: { permanent: false, reason: "resolved-elsewhere" } };
    return {
      granted: sign({
        grantId: `grant_${crypto.randomUUID()}`,
        jobId: job.id,
        site: siteKey,
        user: job.owner,
        owner,
        purpose: purpose ?? "default",
        kind: job.kind,
        service: capability.service,
        issuedAt: Date.now(),
      }),
    };
  };
  return { controlPlanePublic: keys.identityPublic, authorGrant };
}

const relay = new Relay({
  fixture: options.fixture === undefined ? undefined : readJson(options.fixture),
  ...(options["lease-ms"] === undefined ? {} : { leaseMs: Number(options["lease-ms"]) }),
  ...(options["verification-url"] === "" ? {} : { verificationUrl: options["verification-url"] }),
  ...(options["grant-key"] === undefined ? {} : controlPlane(options["grant-key"])),
});

function answerJson(response, status, value) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

function notePairing(path, body) {
  if (!path.endsWith("/pair")) return;
  try {
    const { action, device } = JSON.parse(body.toString("utf8"));
    if (action === "start" && device !== undefined) asked.push(device);
  } catch {
    // the relay says what is wrong with it
  }
}

async function serve(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const path = request.url.split("?")[0];

  if (path === "/test/project") {
    relay.project(JSON.parse(body.toString("utf8")));
    return answerJson(response, 200, { ok: true });
  }
  if (path === "/test/pairings") return answerJson(response, 200, { devices: asked });
  notePairing(path, body);

  const headers = new Headers();
  for (let i = 0; i < request.rawHeaders.length; i += 2) headers.append(request.rawHeaders[i], request.rawHeaders[i + 1]);
  const answer = await relay.handle(
    new Request(`http://127.0.0.1${request.url}`, {
      method: request.method,
      headers,
      ...(request.method === "GET" || request.method === "HEAD" ? {} : { body }),
    }),
  );
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.end(Buffer.from(await answer.arrayBuffer()));
}

const server = http.createServer((request, response) => {
  serve(request, response).catch((error) => {
    process.stderr.write(`${error.stack ?? error}\n`);
    if (!response.headersSent) response.writeHead(500);
    response.end();
  });
});
server.keepAliveTimeout = 60000;
server.listen(Number(options.port), "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});
process.on("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});
