// A peer: the official TypeScript SDK's server, second version.
//
//     node typescript.mjs FOLDER ENTRIES PORT
//
// Written as the SDK's own documentation writes such a server, with its low-level class: the list is made beforehand,
// HTTP answers with JSON. It serves what `served.py` describes. The SDK has neither conditional reads nor ranges; an
// author can add both by hand, as here.

import { createServer } from "node:http";
import { open, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const [folder, count, port] = process.argv.slice(2);
const MEMORY = "bench://memory/";
const PAGE = 1000;
const ETAG = "dev.carrel/etag";

const listed = Array.from({ length: Number(count) }, (_, number) => {
  const spelled = String(number).padStart(6, "0");
  return {
    uri: `bench://entry/${spelled}`,
    name: `entry-${spelled}`,
    description: `What is kept under number ${number} on this desk`,
    mimeType: "text/plain",
  };
});
const resourceTemplates = ["memory/{name}", "files/{name}{?start,length}", ...[..."abcdefgh"].map((shelf) => `${shelf}/{name}`)].map(
  (rest) => ({ uriTemplate: `bench://${rest}`, name: rest.split("/")[0] }),
);
const kept = new Map();

async function whole(name) {
  const data = await readFile(join(folder, name));
  return name.endsWith(".bin") ? data : data.toString("utf8");
}

async function part(name, query) {
  const asked = new URLSearchParams(query);
  const buffer = Buffer.alloc(Number(asked.get("length")));
  const file = await open(join(folder, name));
  try {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, Number(asked.get("start")));
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

async function content(uri) {
  const [name, query] = uri.slice(uri.lastIndexOf("/") + 1).split("?");
  if (query) return part(name, query);
  if (!uri.startsWith(MEMORY)) return whole(name);
  if (!kept.has(name)) kept.set(name, await whole(name));
  return kept.get(name);
}

async function read({ params: { uri, _meta } }) {
  const condition = _meta?.["dev.carrel/if-none-match"];
  let meta;
  if (condition !== undefined) {
    const { ino, size, mtimeMs } = await stat(join(folder, uri.slice(uri.lastIndexOf("/") + 1)));
    const etag = `${ino}-${size}-${mtimeMs}`;
    meta = { _meta: { [ETAG]: etag } };
    if (condition === etag) {
      meta._meta["dev.carrel/status"] = 304;
      return { contents: [{ uri, mimeType: "text/plain", text: "", ...meta }] };
    }
  }
  const data = await content(uri);
  return typeof data === "string"
    ? { contents: [{ uri, mimeType: "text/plain", text: data, ...meta }] }
    : { contents: [{ uri, mimeType: "application/octet-stream", blob: data.toString("base64"), ...meta }] };
}

function list({ params }) {
  const start = Number(params?.cursor ?? 0);
  const end = start + PAGE;
  const resources = listed.slice(start, end);
  return end < listed.length ? { resources, nextCursor: String(end) } : { resources };
}

function build() {
  const server = new Server({ name: "typescript", version: "0" }, { capabilities: { resources: {} } });
  server.setRequestHandler("resources/read", read);
  server.setRequestHandler("resources/list", list);
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates }));
  return server;
}

if (port === "0") serveStdio(build);
else createServer(toNodeHandler(createMcpHandler(build))).listen(Number(port), "127.0.0.1");
