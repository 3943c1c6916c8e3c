// Asks a server with the official TypeScript client and prints what it got, as one JSON object.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, token, mode, uri] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
const client = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode } });
await client.connect(transport);
const { resources } = await client.listResources();
const { resourceTemplates } = await client.listResourceTemplates();
const { contents } = await client.readResource({ uri });
const failure = await client.readResource({ uri: 'workspace:///lib/missing.dart' }).catch((error) => error.code);
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion(),
    listed: resources.length,
    templates: resourceTemplates.length,
    text: contents[0].text,
    failure,
  }),
);
await client.close();
