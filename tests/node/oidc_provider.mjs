// An OpenID Connect provider (npm oidc-provider) for tests. Everybody who comes signs in at once as the present person.
//
// usage: node oidc_provider.mjs FOLDER
//
// FOLDER has node_modules/oidc-provider. The first line on standard output is the issuer. Each line on standard input
// is a JSON object, and is answered by a line: {"clients": [{...}]} makes the provider's clients (first, once),
// {"person": {"sub": ..., "email": ...}} says who signs in from then on.

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

// Standard output is for the answers. The provider writes notices to it.
for (const method of ["log", "info", "warn"]) console[method] = console.error;
const say = (line) => process.stdout.write(`${line}\n`);

const { Provider } = await import(`${process.argv[2]}/node_modules/oidc-provider/lib/index.js`);

const jwk = (type, options, alg) => ({ ...generateKeyPairSync(type, options).privateKey.export({ format: "jwk" }), alg, use: "sig" });
const people = new Map();
let present = "";
let provider;

function open(issuer, clients) {
  const made = new Provider(issuer, {
    clients,
    jwks: { keys: [jwk("rsa", { modulusLength: 2048 }, "RS256"), jwk("ec", { namedCurve: "P-256" }, "ES256")] },
    cookies: { keys: ["a test's key"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    features: { devInteractions: { enabled: false } },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => people.get(sub) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    // Nobody is asked for consent.
    async loadExistingGrant(ctx) {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope("openid email");
      await grant.save();
      return grant;
    },
  });
  made.on("server_error", (_, error) => console.error(error));
  return made;
}

const server = createServer(async (request, response) => {
  if (!provider) {
    response.writeHead(503).end();
  } else if (request.url.startsWith("/interaction/")) {
    await provider.interactionFinished(request, response, { login: { accountId: present } });
  } else {
    provider.callback()(request, response);
  }
});
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  say(issuer);
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const command = JSON.parse(line);
    if (command.clients) provider = open(issuer, command.clients);
    if (command.person) {
      present = command.person.sub;
      people.set(present, command.person);
    }
    say("done");
  });
  lines.on("close", () => process.exit());
});
