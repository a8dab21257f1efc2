// Pages of the documentation: the Markdown of `docs` as HTML, with headings, links between pages, and sections for the search.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path/posix";
import MarkdownIt from "markdown-it";

/**
 * @typedef {{ level: number, id: string, text: string }} Heading
 * @typedef {{ heading: string, id: string, text: string }} Section
 * @typedef {{ file: string, path: string, title: string, html: string, headings: Heading[], sections: Section[],
 *   links: { group: string, file: string }[] }} Page `file` is relative to `docs`; `path` is what follows `/docs/`.
 */

/** Marks the address of an image, which only the bundler knows. The name of the file is between two of them. */
export const IMAGE_MARK = "\u0001";

const markdown = new MarkdownIt({ html: false, linkify: false });
const escape = markdown.utils.escapeHtml;

markdown.renderer.rules.table_open = () => '<div class="scroll"><table>\n';
markdown.renderer.rules.table_close = () => "</table></div>\n";
markdown.renderer.rules.fence = (tokens, at) =>
  '<div class="docs-code"><button type="button" class="button quiet" data-copy aria-label="Copy the code">Copy</button>' +
  `<pre><code>${escape(tokens[at].content)}</code></pre></div>\n`;
markdown.renderer.rules.heading_close = (tokens, at) => {
  const id = tokens[at].meta?.id;
  // For the mouse only: the table of contents has the same links by name.
  const link = id === undefined ? "" : `<a class="docs-anchor" href="#${escape(id)}" aria-hidden="true" tabindex="-1">#</a>`;
  return `${link}</${tokens[at].tag}>\n`;
};

/** Returns what follows `/docs/` in the address of a file's page. */
function pathOf(file) {
  return file === "README.md" ? "" : file.replace(/(\/README)?\.md$/, "");
}

/** Returns the address of a page by its path. */
export function addressOf(path) {
  return path === "" ? "/docs" : `/docs/${path}`;
}

/** Returns the anchor of a heading, which tests/it/examples.rs checks: lower case, dashes for spaces, no other signs. */
function anchorOf(text) {
  return text.toLowerCase().replaceAll(" ", "-").replace(/[^\p{L}\p{N}_-]/gu, "");
}

/** Returns the text of inline tokens without marks. */
function plain(tokens) {
  return (tokens ?? [])
    .map((it) => {
      if (it.type === "text" || it.type === "code_inline") return it.content;
      return it.type === "softbreak" || it.type === "hardbreak" ? " " : "";
    })
    .join("");
}

/** Returns all pages below a folder, sorted by file. Throws for an image or a page that does not exist. */
export function readPages(folder) {
  const files = readdirSync(folder, { recursive: true })
    .map((name) => String(name).replaceAll("\\", "/"))
    .filter((name) => name.endsWith(".md"))
    .sort();
  const known = new Set(files);
  return files.map((file) => readPage(folder, file, known));
}

/** @returns {Page} */
function readPage(folder, file, known) {
  const tokens = withoutContents(markdown.parse(readFileSync(join(folder, file), "utf8"), {}));
  const page = { file, path: pathOf(file), title: file, html: "", headings: [], sections: [], links: [] };
  const taken = new Map();
  let section;
  let group = "";
  const link = (inline) => {
    inline.children = linked(inline.children, folder, file, known, (target) => page.links.push({ group, file: target }));
  };
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at];
    if (token.type === "heading_open") {
      const text = plain(tokens[at + 1].children);
      const level = Number(token.tag.slice(1));
      const anchor = anchorOf(text);
      const count = taken.get(anchor) ?? 0;
      taken.set(anchor, count + 1);
      const id = count === 0 ? anchor : `${anchor}-${count}`;
      token.attrSet("id", id);
      if (level === 1) page.title = text;
      else {
        tokens[at + 2].meta = { id };
        page.headings.push({ level, id, text });
      }
      if (level === 2) group = text;
      section = { heading: text, id: level === 1 ? "" : id, text: "" };
      page.sections.push(section);
      link(tokens[at + 1]);
      at += 1;
    } else if (token.type === "fence") {
      if (section) section.text += `${token.content} `;
    } else if (token.type === "inline") {
      if (section) section.text += `${plain(token.children)} `;
      link(token);
    }
  }
  page.html = markdown.renderer.render(tokens, markdown.options, {});
  for (const it of page.sections) it.text = it.text.replace(/\s+/g, " ").trim();
  return page;
}

/** Returns the tokens without the page's own list of its parts: the page has one made of the headings. */
function withoutContents(tokens) {
  const start = tokens.findIndex((it) => it.type === "bullet_list_open");
  const heading = tokens.findIndex((it) => it.type === "heading_open" && it.tag === "h2");
  if (start < 0 || heading < 0 || start > heading) return tokens;
  const end = tokens.findIndex((it, at) => at > start && it.type === "bullet_list_close" && it.level === tokens[start].level);
  const isLink = (inline) => {
    const all = inline.children ?? [];
    return all[0]?.type === "link_open" && all[0].attrGet("href")?.startsWith("#") && all.at(-1)?.type === "link_close";
  };
  const isContents = tokens.slice(start, end).filter((it) => it.type === "inline").every(isLink);
  return isContents ? [...tokens.slice(0, start), ...tokens.slice(end + 1)] : tokens;
}

/** Returns inline tokens whose links and images lead to where the console has the pages. */
function linked(tokens, folder, file, known, onLink) {
  const made = [];
  /** File outside of `docs` to which the open link leads. */
  let outside;
  let text = [];
  for (const token of tokens) {
    if (token.type === "link_open") {
      const href = token.attrGet("href") ?? "";
      if (/^[a-z]+:/i.test(href)) {
        token.attrSet("rel", "noreferrer");
        token.attrSet("target", "_blank");
        made.push(token);
        continue;
      }
      const [path = "", fragment] = href.split("#");
      const target = path === "" ? file : join(dirname(file), decodeURI(path));
      if (known.has(target)) {
        onLink(target);
        token.attrSet("href", addressOf(pathOf(target)) + (fragment ? `#${fragment}` : ""));
        made.push(token);
      } else {
        outside = join("docs", target);
        text = [];
      }
    } else if (token.type === "link_close" && outside !== undefined) {
      const isPath = [outside, basename(outside)].includes(plain(text));
      const code = Object.assign(new token.constructor("code_inline", "code", 0), { content: outside });
      const around = (content) => Object.assign(new token.constructor("text", "", 0), { content });
      made.push(...(isPath ? [code] : [...text, around(" ("), code, around(")")]));
      outside = undefined;
    } else if (outside !== undefined) {
      text.push(token);
    } else {
      if (token.type === "image") {
        const image = join(dirname(file), decodeURI(token.attrGet("src") ?? ""));
        if (!existsSync(join(folder, image))) throw new Error(`docs/${file}: there is no image docs/${image}`);
        token.attrSet("src", IMAGE_MARK + image + IMAGE_MARK);
      }
      made.push(token);
    }
  }
  return made;
}

/** Returns the navigation: the pages in the order and the groups of `docs/README.md`; the other pages come last. */
export function navigation(pages) {
  const byFile = new Map(pages.map((page) => [page.file, page]));
  const start = byFile.get("README.md");
  if (!start) throw new Error("docs/README.md is missing: it is the start page of the documentation");
  const groups = new Map([["Start", [start]]]);
  const placed = new Set([start.file]);
  const put = (name, page) => {
    if (placed.has(page.file)) return;
    placed.add(page.file);
    groups.set(name, [...(groups.get(name) ?? []), page]);
  };
  for (const { group, file } of start.links) {
    const page = byFile.get(file);
    if (page) put(file.startsWith("api/") ? "API" : group, page);
  }
  for (const page of pages) put(page.file.startsWith("api/") ? "API" : "More", page);
  const entry = ({ path, title }) => ({ path, title });
  return [...groups].map(([name, all]) => ({ name, pages: all.map(entry) }));
}
