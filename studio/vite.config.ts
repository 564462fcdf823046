import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const SOURCE = /^(index\.html|package-lock\.json|tsconfig\.json|vite\.config\.ts|(src|public)\/.+)$/;

/** Write dist/manifest.json: the SHA-256 of each source file. `make check` compares it with the files. */
function sourceManifest(): Plugin {
  return {
    name: "source-manifest",
    apply: "build",
    generateBundle() {
      const root = import.meta.dirname;
      const files = ["", "src", "public"].flatMap((folder) =>
        readdirSync(join(root, folder), { recursive: folder !== "", withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1)),
      );
      const hashes = files
        .filter((file) => SOURCE.test(file) && !file.includes(".test."))
        .sort()
        .map((file) => [file, createHash("sha256").update(readFileSync(join(root, file))).digest("hex")]);
      const source = `${JSON.stringify(Object.fromEntries(hashes), null, 2)}\n`;
      this.emitFile({ type: "asset", fileName: "manifest.json", source });
    },
  };
}

/** The development server (`npx vite`) forwards all but the page to a running `toolweave dev`. */
export default defineConfig({
  base: "./",
  plugins: [react(), sourceManifest()],
  build: { target: "es2023", modulePreload: { polyfill: false }, assetsInlineLimit: 0, chunkSizeWarningLimit: 700 },
  server: { proxy: { "^/(?!studio)": { target: "http://127.0.0.1:2024", ws: true } } },
});
