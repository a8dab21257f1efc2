// YAML of a template's document, for people to read and to change.

/** Texts that need no quotes: words, paths, versions and addresses that no rule of YAML 1.2 reads as anything else. */
const PLAIN = /^[A-Za-z/~][\w./@+~=-]*( [\w./@+~=-]+)*$/;
/** Words that readers of some version of YAML take for truth values or nothing. */
const WORD = /^(true|false|null|yes|no|on|off|y|n|~)$/i;
/** Numbers with more than one point, and sizes of screens, are texts for every reader. */
const NUMBERS = /^(\d+\.\d+\.\d+|\d+x\d+(x\d+)?)$/;
/** Fields that come first in their map, in this order. */
const FIRST = ["api_version", "template", "name", "version", "description", "title", "type", "to", "hardware"];

/** Returns a JSON value as YAML. */
export function toYaml(value: unknown): string {
  return `${block(value, "").join("\n")}\n`;
}

/** The lines of a value that begins on a line of its own. */
function block(value: unknown, indent: string): string[] {
  if (Array.isArray(value) && value.length > 0) return value.flatMap((item: unknown) => itemLines(item, indent));
  if (isMap(value) && Object.keys(value).length > 0) {
    return entries(value).flatMap(([name, inner]) => entryLines(`${indent}${scalar(name)}:`, inner, indent));
  }
  return [`${indent}${inline(value)}`];
}

/** A map or a list in a list begins on the line of its dash. */
function itemLines(item: unknown, indent: string): string[] {
  if (!isNested(item)) return entryLines(`${indent}-`, item, indent);
  const [first = "", ...rest] = block(item, `${indent}  `);
  return [`${indent}- ${first.slice(indent.length + 2)}`, ...rest];
}

function entryLines(head: string, value: unknown, indent: string): string[] {
  if (isNested(value)) return [head, ...block(value, `${indent}  `)];
  if (typeof value === "string" && isLiteral(value)) {
    const ends = value.endsWith("\n");
    const lines = (ends ? value.slice(0, -1) : value).split("\n");
    return [`${head} ${ends ? "|" : "|-"}`, ...lines.map((line) => (line === "" ? "" : `${indent}  ${line}`))];
  }
  return [`${head} ${inline(value)}`];
}

function inline(value: unknown): string {
  return typeof value === "string" ? scalar(value) : JSON.stringify(value);
}

/** A text of JSON is one of YAML, too. */
function scalar(text: string): string {
  return (PLAIN.test(text) || NUMBERS.test(text)) && !WORD.test(text) ? text : JSON.stringify(text);
}

/** Whether a text of lines can be written as it is: its first line shows the indentation, and at most one line break ends it. */
function isLiteral(text: string): boolean {
  return /^[^\s].*\n/.test(text) && !/\n\n$/.test(text) && !/[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufefe]/.test(text);
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNested(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : isMap(value) && Object.keys(value).length > 0;
}

function entries(map: Record<string, unknown>): [string, unknown][] {
  const rank = (name: string) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  return Object.entries(map).sort(([a], [b]) => rank(a) - rank(b));
}
