// SPDX-License-Identifier: MIT
import { describeStoreContract } from "@byollm/relay/store-contract";

import { makeStore } from "./driver.js";

const program = process.env.LESSOR_STORE_DRIVER;
if (!program) throw new Error("LESSOR_STORE_DRIVER names no lessor-store-driver");

// The stores that keep stubs as text must also stand one that they cannot read.
const serialising = { memory: false, sqlite: true };
const kinds = (process.env.LESSOR_STORE_KINDS ?? "memory").split(",");

for (const kind of kinds) {
  describeStoreContract(kind, {
    make: () => makeStore(program, kind),
    serialising: serialising[kind],
    writeRawStub: serialising[kind] ? (store, id, raw) => store.writeRawStub(id, raw) : undefined,
    advance: (store, ms) => store.advance(ms),
  });
}
