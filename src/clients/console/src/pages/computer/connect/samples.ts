// Lines with which a program uses a computer; those of docs/clients and docs/api/mcp.md, filled in.

/** What is filled in. */
export interface Filling {
  /** Address of the service, without `/api`. */
  url: string;
  /** API key, or what stands in its place. */
  key: string;
  /** Id of the computer. */
  computer: string;
  /** Id of a model. */
  model: string;
}

/** A sample with what is needed before it. */
export interface Sample {
  id: string;
  name: string;
  /** What must be there first. */
  needs: string;
  /** Page of the documentation. */
  docs: string;
  text: (filling: Filling) => string;
}

/** The key's place before there is one. */
export const NO_KEY = "sk_live_...";

/** The samples, in the order of their tabs. */
export const SAMPLES: readonly Sample[] = [
  {
    id: "python",
    name: "Python",
    needs: "Install the wheel hotdesk (Python 3.9 or newer).",
    docs: "/docs/clients/python",
    text: ({ url, key, computer }) => `from hotdesk import Client, Computer

desk = Computer("${computer}", client=Client("${url}", "${key}"))
desk.screenshot().save("screen.png")
desk.click(640, 360)
print(desk.bash("uname -a").stdout)
`,
  },
  {
    id: "typescript",
    name: "TypeScript",
    needs: "Install the npm package @hotdesk/client (Node 20 or later, Deno).",
    docs: "/docs/clients/typescript",
    text: ({ url, key, computer }) => `import { Computer } from "@hotdesk/client";

const desk = await Computer.connect("${computer}", { url: "${url}", key: "${key}" });
await desk.click(640, 360);
console.log((await desk.bash("uname -a")).stdout);
`,
  },
  {
    id: "curl",
    name: "curl",
    needs: "Nothing else is needed.",
    docs: "/docs/api/actions",
    text: ({ url, key, computer }) => `DESK="${url}/api/computers/${computer}"; AUTH="Authorization: Bearer ${key}"
curl -sS --fail-with-body -o screen.png "$DESK/screenshot?response_format=binary" -H "$AUTH"
curl -sS --fail-with-body "$DESK/click" -H "$AUTH" -d '{"x": 640, "y": 360}'
curl -sS --fail-with-body "$DESK/bash" -H "$AUTH" -d '{"command": "uname -a"}'
`,
  },
  {
    id: "mcp",
    name: "MCP",
    needs: "Put this into the configuration of your MCP client, on a machine that has the command hotdesk. Then tell the agent the id of the computer.",
    docs: "/docs/api/mcp",
    text: ({ url, key }) => `${JSON.stringify(
      { mcpServers: { hotdesk: { command: "hotdesk", args: ["mcp"], env: { HOTDESK_URL: url, HOTDESK_API_KEY: key } } } },
      null,
      2,
    )}
`,
  },
  {
    id: "openai",
    name: "OpenAI-compatible chat",
    needs: "Install openai (pip). A model of the service works on the computer; the operator configures models.",
    docs: "/docs/api/chat",
    text: ({ url, key, computer, model }) => `from openai import OpenAI

client = OpenAI(base_url="${url}/api/v1", api_key="${key}", max_retries=0, timeout=3600)
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Open the editor and write a poem."}],
    extra_body={"computer_id": "${computer}"},
)
print(answer.choices[0].message.content)
`,
  },
];
