// A client of the TypeScript SDK. Arguments: a folder of node modules, then a URL or a command.
// Reads one JSON request a line ({name, arguments, cancelAfterMs?}) and writes one JSON answer a line.
const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");
const [, , modules, ...target] = process.argv;
const from = createRequire(modules + "/");
const { Client } = from("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = from("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = from("@modelcontextprotocol/sdk/client/streamableHttp.js");

const write = (value) => process.stdout.write(JSON.stringify(value) + "\n");

async function main() {
  const transport = target[0].startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: "inherit", env: process.env });
  const client = new Client({ name: "typescript", version: "1.0.0" });
  await client.connect(transport);
  write({ server: client.getServerVersion(), tools: (await client.listTools()).tools });
  for await (const line of createInterface({ input: process.stdin })) {
    const { cancelAfterMs, ...params } = JSON.parse(line);
    const progress = [];
    const options = { onprogress: (told) => progress.push(told.message) };
    if (cancelAfterMs) options.signal = AbortSignal.timeout(cancelAfterMs);
    try {
      write({ progress, ...(await client.callTool(params, undefined, options)) });
    } catch (error) {
      write({ failed: String(error) });
    }
  }
  await client.close();
}

main().catch((error) => {
  write({ failed: String(error) });
  process.exit(1);
});
