// References of templates, such as `default/lab@1.0.0`.

import type { Schemas } from "../../api/service";

/** The parts of a reference. */
export interface Reference {
  namespace: string;
  name: string;
  version: string;
}

/** Returns the parts of a reference; undefined when the text is none. */
export function parseReference(ref: string): Reference | undefined {
  const parts = /^([^/@]+)\/([^/@]+)@([^/@]+)$/.exec(ref);
  const [, namespace, name, version] = parts ?? [];
  return namespace && name && version ? { namespace, name, version } : undefined;
}

/** Returns the address of a template's page; of its newest version without one. */
export function pageOf(it: { namespace: string; name: string; version?: string }): string {
  const parts = [it.namespace, it.name, ...(it.version === undefined ? [] : [it.version])];
  return `/console/templates/${parts.map(encodeURIComponent).join("/")}`;
}

/** Returns the address of the editor for a new version of a template. */
export function editorFor(ref: string): string {
  return `/console/templates/new?from=${encodeURIComponent(ref)}`;
}

/** Whether a template is one of the service and not of the account. */
export function isOfService(it: { namespace: string }): boolean {
  return it.namespace === "system";
}

/** Returns a text of the section `template` of a document, such as the description. */
export function textOf(template: Schemas["Template"], field: "description" | "homepage" | "license"): string | undefined {
  const value = section(template.template, "template")[field];
  return typeof value === "string" ? value : undefined;
}

/** Returns the hardware of a document in words, such as "2 vCPUs, 4 GB of memory". */
export function hardwareOf(template: Schemas["Template"]): string {
  const { cpu, ram_gb, disk_gb } = section(template.template, "hardware");
  const words = [
    typeof cpu === "number" ? `${cpu} ${cpu === 1 ? "vCPU" : "vCPUs"}` : "",
    typeof ram_gb === "number" ? `${ram_gb} GB of memory` : "",
    typeof disk_gb === "number" ? `${disk_gb} GB of disk` : "",
  ];
  return words.filter((it) => it !== "").join(", ");
}

/** Returns the version after one, with its last number raised. */
export function nextVersion(version: string): string {
  return /^\d+\.\d+\.\d+$/.test(version) ? version.replace(/\d+$/, (last) => String(Number(last) + 1)) : version;
}

function section(document: Record<string, unknown>, name: string): Record<string, unknown> {
  const value = document[name];
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
