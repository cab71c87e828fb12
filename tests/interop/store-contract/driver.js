// SPDX-License-Identifier: MIT
// A RoutingStore of the peers' interface, whose every operation is one line to a lessor-store-driver and one line back.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

// What the driver says as null is absent in the peers' objects.
const withoutNulls = (value) => {
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, member]) => member !== null)
      .map(([name, member]) => [name, withoutNulls(member)]),
  );
};

// JSON has no sets.
const withoutSets = (value) =>
  Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, member instanceof Set ? [...member] : member]),
  );

class Driver {
  #child;
  #waiting = new Map();
  #next = 1;
  #exited;

  constructor(program, kind, directory) {
    this.#child = spawn(program, ["--store", kind, "--data", directory], { stdio: ["pipe", "pipe", "inherit"] });
    this.#exited = new Promise((resolve) => this.#child.once("exit", (code, signal) => resolve(code ?? signal)));
    this.#exited.then((how) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the store driver ended: ${how}`));
    });
    createInterface({ input: this.#child.stdout }).on("line", (line) => {
      const { id, ok, error } = JSON.parse(line);
      const call = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) call.resolve(withoutNulls(ok));
      else call.reject(new Error(error));
    });
  }

  call(op, args = {}) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.stdin.write(`${JSON.stringify({ id, op, args: withoutSets(args) })}\n`);
    });
  }

  async end() {
    this.#child.stdin.end();
    const how = await this.#exited;
    if (how !== 0) throw new Error(`the store driver ended: ${how}`);
  }
}

const storeOver = (driver) => {
  const store = {
    job: (siteId, jobId) => driver.call("job", { siteId, jobId }),
    awaiting: (siteId) => driver.call("awaiting", { siteId }),
    finished: (siteId) => driver.call("finished", { siteId }),
    cancelRequests: (runnerId) => driver.call("cancelRequests", { runnerId }),
    presence: (runnerId) => driver.call("presence", { runnerId }),
    advance: (ms) => driver.call("advance", { ms }),
    writeRawStub: (id, raw) => driver.call("writeRawStub", { id, raw }),
  };
  for (const op of ["now", "jobs", "everyone", "sweep"]) store[op] = () => driver.call(op);
  for (const op of ["enqueue", "claim", "takePayload", "complete", "releaseLeases", "seal", "cancel", "renewLeases", "seen"])
    store[op] = (input) => driver.call(op, input);
  return store;
};

/** Makes one store in a process and a directory of its own. */
export const makeStore = async (program, kind) => {
  const directory = await mkdtemp(join(tmpdir(), "lessor-store-contract-"));
  const driver = new Driver(program, kind, directory);
  return {
    store: storeOver(driver),
    done: async () => {
      await driver.end();
      await rm(directory, { recursive: true });
    },
  };
};
