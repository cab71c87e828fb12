// SPDX-License-Identifier: MIT
/*
 * Preloaded into a peer's process (node --import), where a test has no names and no ports below 1024 to give it: leads
 * its TCP connections elsewhere, as a hosts file and a port forwarding would. LESSOR_DIAL is {"HOST:PORT": PORT}, to
 * ports of 127.0.0.1. Any other destination is refused: a test speaks to nobody outside. Names and certificates stay
 * what the peer believes them to be.
 */
import net from "node:net";

const dial = JSON.parse(process.env.LESSOR_DIAL);
const connect = net.Socket.prototype.connect;

net.Socket.prototype.connect = function (...args) {
  // Within Node the arguments arrive as one list, [options, callback]; applications give them one by one.
  const [options, callback] = Array.isArray(args[0]) ? args[0] : [args[0], args[1]];
  const from = `${options.host ?? "localhost"}:${options.port}`;
  const port = dial[from];
  if (port === undefined) {
    process.nextTick(() => this.destroy(new Error(`the test leads nowhere from ${from}`)));
    return this;
  }
  return connect.call(this, { ...options, host: "127.0.0.1", port, lookup: undefined }, callback);
};
