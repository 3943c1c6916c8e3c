// Unpacks the browser of `@sparticuz/chromium` into TMPDIR, with the libraries and fonts that a machine may lack.
// usage: node unpack.mjs FOLDER, the one that npm installed into.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const found = createRequire(join(folder, "package.json")).resolve("@sparticuz/chromium");
const { default: chromium, inflate } = await import(pathToFileURL(found));
await chromium.executablePath();
await inflate(join(folder, "node_modules/@sparticuz/chromium/bin/al2023.tar.br"));
