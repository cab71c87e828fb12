// SPDX-License-Identifier: MIT
import { once } from "node:events";
import http from "node:http";
import https from "node:https";

/** Where the edge dials from, so that a server can tell it from everybody else on this machine. */
export const EDGE_ADDRESS = "127.0.0.2";

/** A proxy with a certificate of its own in front of a server: the least that a public edge is. */
export class Edge {
  #server;

  async start({ name, cert, key, originPort, originCa }) {
    const agent = new https.Agent({ keepAlive: true, ca: originCa, servername: name, localAddress: EDGE_ADDRESS });
    this.#server = https.createServer({ cert, key }, (request, response) => {
      const onward = https.request(
        { agent, host: "127.0.0.1", port: originPort, method: request.method, path: request.url, headers: request.headers },
        (answer) => {
          response.writeHead(answer.statusCode, answer.headers);
          answer.pipe(response);
        },
      );
      onward.on("error", (error) => response.destroy(error));
      request.pipe(onward);
    });
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.port = this.#server.address().port;
    this.agent = agent;
    return this;
  }

  async stop() {
    this.agent.destroy();
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }
}

/** A GET as a stranger would do it, to a port of this machine. */
export async function get(port, path, { tls, name, ca }) {
  const request = (tls ? https : http).request({ host: "127.0.0.1", port, path, ca, servername: name, headers: { host: name } });
  request.end();
  const [response] = await once(request, "response");
  response.resume();
  await once(response, "end");
  return response;
}
