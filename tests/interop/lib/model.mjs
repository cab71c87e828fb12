// SPDX-License-Identifier: MIT
import { once } from "node:events";
import http from "node:http";

import { within } from "./process.mjs";

/** The model's name, and that of the service that serves it. */
export const MODEL = "parrot";

const answerTo = (prompt) => `The parrot says: ${prompt}`;

/**
 * A model server of the OpenAI kind, as small as it can be. It repeats the prompt, but for two words in it: at "fail"
 * it answers 500, at "hang" it does not answer at all.
 */
export class FakeModel {
  #server;
  #hanging = [];
  #waiting = [];
  prompts = [];

  async start() {
    this.#server = http.createServer((request, response) => {
      this.#serve(request, response).catch((error) => response.destroy(error));
    });
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.baseUrl = `http://127.0.0.1:${this.#server.address().port}/v1`;
    return this;
  }

  async #serve(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const answer = (status, value) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(value));
    };
    if (request.method === "GET" && request.url === "/v1/models") return answer(200, { data: [{ id: MODEL }] });
    if (request.method !== "POST" || request.url !== "/v1/chat/completions") return answer(404, {});

    const { model, messages } = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    const prompt = messages.at(-1).content;
    this.prompts.push(prompt);
    if (prompt.includes("fail")) return answer(500, { error: { message: "the parrot is ill" } });
    if (prompt.includes("hang")) return this.#hang(response);
    answer(200, {
      model,
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: answerTo(prompt) } }],
    });
  }

  #hang(response) {
    const closed = once(response, "close");
    const call = { hungUp: () => within(closed, "the caller to hang up") };
    const waiter = this.#waiting.shift();
    if (waiter === undefined) this.#hanging.push(call);
    else waiter(call);
  }

  /** The next call that hangs; its `hungUp()` resolves when the caller has gone. */
  async hanging() {
    const call = this.#hanging.shift();
    return call ?? within(new Promise((resolve) => this.#waiting.push(resolve)), "a call to the model");
  }

  answerTo(prompt) {
    return answerTo(prompt);
  }

  async stop() {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }
}
