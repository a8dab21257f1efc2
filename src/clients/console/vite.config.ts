// Build of the console: `dist` gets an index page and assets whose names contain the hash of their content.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import solid from "vite-plugin-solid";
import { docs } from "./docs-plugin.mjs";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
/** Folder of noVNC as published, which packaging/dev/console names. */
const novnc = process.env["NOVNC_FOLDER"];
if (!novnc) throw new Error("NOVNC_FOLDER is not set: build the console by packaging/dev/console");

export default defineConfig({
  // The service serves the assets below this path.
  base: "/app/",
  plugins: [solid(), docs({ folder: here("../../../docs"), openapi: here("../../../packaging/openapi.json") })],
  resolve: {
    alias: [
      { find: /^\.\/novnc\//, replacement: `${novnc}/` },
      { find: "@hotdesk/client/screen", replacement: here("../typescript/src/screen.ts") },
      { find: "@hotdesk/client", replacement: here("../typescript/src/index.ts") },
      // The library's sources are in another folder, which has no packages.
      { find: "openapi-fetch", replacement: here("node_modules/openapi-fetch/dist/index.mjs") },
    ],
  },
  build: {
    target: "es2022",
    // Inlined assets would need `data:` in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
});
