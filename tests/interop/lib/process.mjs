// SPDX-License-Identifier: MIT
import { spawn } from "node:child_process";
import { once } from "node:events";

/** How long anything may take before a test says that it hangs: generous, for busy machines. */
export const PATIENCE_MS = Number(process.env.LESSOR_INTEROP_PATIENCE_MS ?? 60_000);

// A test that is itself ended, by its runner's patience or by hand, leaves nobody behind.
const living = new Set();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => process.exit(1));

/** The promise, or a failure that says what was waited for in vain. */
export async function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * A process under a test. What it prints is kept, and can be awaited: nothing here sleeps. `stop` is idempotent, and
 * waits for the end.
 */
export class Process {
  #child;
  #watchers = new Set();
  #name;
  #exited;
  output = "";

  constructor(name, program, args, { env = {}, cwd } = {}) {
    this.#name = name;
    this.#child = spawn(program, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    living.add(this.#child);
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding("utf8");
      stream.on("data", (text) => {
        this.output += text;
        this.#look();
      });
    }
    this.#exited = new Promise((resolve, reject) => {
      this.#child.once("error", reject);
      this.#child.once("close", (code, signal) => {
        this.ended = true;
        living.delete(this.#child);
        resolve(code ?? signal);
        this.#look();
      });
    });
    this.#exited.catch(() => {});
  }

  /** The exit status, or the signal that ended it. */
  get exited() {
    return within(this.#exited, `the end of ${this.#name}`);
  }

  get pid() {
    return this.#child.pid;
  }

  #look() {
    for (const look of this.#watchers) look();
  }

  /** A place in the output: what `saw` is given as `since` sees only what comes after. */
  mark() {
    return this.output.length;
  }

  /** Waits for output that matches and returns the match. Fails when the process ends or patience does. */
  async saw(pattern, since = 0) {
    let look;
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        const fail = (why) => reject(new Error(`${this.#name} ${why} without saying ${pattern}:\n${this.output}`));
        look = () => {
          const match = pattern.exec(this.output.slice(since));
          if (match !== null) resolve(match);
          else if (this.ended) fail("ended");
        };
        timer = setTimeout(() => fail("went on"), PATIENCE_MS);
        this.#watchers.add(look);
        look();
      });
    } finally {
      clearTimeout(timer);
      this.#watchers.delete(look);
    }
  }

  async stop(signal = "SIGTERM") {
    if (!this.ended) this.#child.kill(signal);
    return this.exited;
  }
}

/** Runs a program to its end and returns what it printed on stdout; fails with what it said when it fails. */
export async function run(program, args, { env = {}, status = 0, input } = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  living.add(child);
  child.stdout.setEncoding("utf8").on("data", (text) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [code, signal] = await within(once(child, "close"), `the end of ${program} ${args.join(" ")}`);
  living.delete(child);
  if ((code ?? signal) !== status)
    throw new Error(`${program} ${args.join(" ")} ended with ${code ?? signal}:\n${stdout}${stderr}`);
  return stdout;
}
